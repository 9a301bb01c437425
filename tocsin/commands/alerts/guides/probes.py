"""Guides of tools that request services from outside."""

from tocsin.commands.alerts.guides.guide import Guide

GUIDES: dict[str, Guide] = {
    "uptimerobot": Guide(
        (
            "Open Integrations & API, Webhook, Add.",
            "Enter the webhook URL, and select the events Up, Down and SSL & domain expiry.",
            "Enter the text below as POST value, and turn on Send as JSON (application/json).",
            "Turn off the two other ways of sending. Select the integration in your monitors.",
        ),
        "the monitor; its certificate is a problem of its own",
        "{\n"
        '  "monitorID": "*monitorID*",\n  "monitorURL": "*monitorURL*",\n'
        '  "monitorFriendlyName": "*monitorFriendlyName*",\n  "alertType": "*alertType*",\n'
        '  "alertTypeFriendlyName": "*alertTypeFriendlyName*",\n  "alertDetails": "*alertDetails*",\n'
        '  "alertDateTime": "*alertDateTime*",\n  "alertFriendlyDuration": "*alertFriendlyDuration*",\n'
        '  "sslExpiryDate": "*sslExpiryDate*",\n  "sslExpiryDaysLeft": "*sslExpiryDaysLeft*"\n}',
        notes=(
            "The fields can be a form too: Send as POST parameters.",
            "A certificate or domain that expires is a warning, which nothing resolves.",
        ),
    ),
    "nodeping": Guide(
        (
            "Add a contact method of the type Webhook to a contact: method POST, the webhook URL.",
            "Add the header Content-Type with the value application/json, and the text below as body.",
            "Select the contact in the notifications of your checks.",
        ),
        "the check",
        "{\n"
        '  "check_id": "{_id}",\n  "event": "{event}",\n  "label": "{label}",\n  "type": "{t}",\n'
        '  "target": "{tg}",\n  "message": "{m}"\n}',
        notes=(
            "A message with a quote breaks the JSON. Then leave the header and the body out, and give the"
            " fields as the body of a form: check_id={_id}&event={event}&label={label}&message={m}",
            "NodePing's `event` is down or up. The level of down is critical.",
        ),
    ),
    "uptrends": Guide(
        (
            "Open Alerting, Integrations, Add integration, Integration from scratch.",
            "Open Customizations: method POST, the webhook URL, the header Content-Type: application/json,"
            " and the text below as body, for error alerts, OK alerts and reminders.",
            "Add the integration to an escalation level of your alert definitions.",
        ),
        "the incident key, or the monitor",
        "{\n"
        '  "alert_type": "{{@alert.type}}",\n  "incident_key": "{{@incident.key}}",\n'
        '  "alert_id": "{{@alert.alertGuid}}",\n  "alert_description": "{{@alert.description}}",\n'
        '  "timestamp_utc": "{{@alert.timestampUtc}}",\n  "monitor_guid": "{{@monitor.monitorGuid}}",\n'
        '  "monitor_name": "{{@monitor.name}}",\n  "monitor_url": "{{@monitor.url}}",\n'
        '  "dashboard_url": "{{@monitor.dashboardUrl}}",\n'
        '  "error_url": "{{@alert.firstErrorCheckUrl}}",\n  "message": "{{@escalationLevel.message}}"\n}',
        notes=(
            "Alert and Reminder are critical, Ok resolves.",
            "A body that names neither the incident key nor the monitor cannot be resolved: the alertGuid"
            " of Ok is another one.",
        ),
    ),
    "pingdom": Guide(
        (
            "Open Settings, Integrations, Add integration, and select the type Webhook.",
            "Enter the webhook URL. Select the integration in your checks.",
        ),
        "the check",
        notes=(
            "A check of low importance that is down is a warning; any other one is critical.",
            "Transaction checks are read too: FAILING fires, SUCCESS resolves.",
        ),
    ),
    "statuscake": Guide(
        (
            "Open Alerting, Contact Groups, New Contact Group.",
            "Enter the webhook URL as Webhook URL, with the method POST.",
            "Select the contact group in your tests.",
        ),
        "the test: its ID, or its name and its address",
        notes=(
            "StatusCake sends a form. Down is critical.",
            "The form has no time: the time of arrival counts.",
        ),
    ),
    "site24x7": Guide(
        (
            "Open Admin, Third-Party Integrations, Webhooks.",
            "Enter the webhook URL as Hook URL with the method POST. Turn on Post as JSON and Send Incident"
            " Parameters.",
            "Turn on the alerts for Down, Critical, Trouble and Up, and select your monitors.",
        ),
        "the monitor",
        notes=(
            "DOWN and CRITICAL are critical, TROUBLE is a warning, UP resolves.",
            "Maintenance, suspension and acknowledgements are notes. The parameters can be a form too.",
        ),
    ),
}
