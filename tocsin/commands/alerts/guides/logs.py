"""Guides of tools that search logs."""

from tocsin.commands.alerts.guides.guide import Guide

GUIDES: dict[str, Guide] = {
    "splunk_legacy": Guide(
        (
            "Allow the webhook URL: Settings, Server settings, Webhook allow list (Splunk 9 and later).",
            "Open the alert, Edit actions, Add actions, and select Webhook.",
            "Enter the webhook URL.",
        ),
        "the app and the name of the search, or the field `entity_id` of the first result",
        '... your search ...\n| eval entity_id=host, alert_type="error"',
        "text",
        (
            "Splunk has no level: an alert is critical, unless the field `alert_type`, `severity` or"
            " `urgency` of the first result is a level.",
            "Splunk reports no end: let the service resolve incidents by itself after a time. Or let a"
            " second search report the same `entity_id` with `alert_type` resolved.",
            "A body has the first result only. To have an alert for each result, set Trigger to For each"
            " result.",
            "The fields `message`, `summary`, `entity_id` and `splunk_url` of a script are read too.",
        ),
    ),
    "sumologic": Guide(
        (
            "Open Configuration, Connections, and add a Webhook with the webhook URL.",
            "Enter the text below as alert payload, and the same text as recovery payload.",
            "Add the connection to the notifications of your monitors, for alerts and recoveries.",
        ),
        "the monitor and its trigger: critical, warning or missing data",
        "{\n"
        '  "name": "{{Name}}",\n  "description": "{{Description}}",\n  "monitorType": "{{MonitorType}}",\n'
        '  "query": "{{Query}}",\n  "queryURL": "{{QueryURL}}",\n  "id": "{{Id}}",\n'
        '  "triggerType": "{{TriggerType}}",\n  "triggerCondition": "{{TriggerCondition}}",\n'
        '  "triggerValue": "{{TriggerValue}}",\n  "triggerTimeStart": "{{TriggerTimeStart}}",\n'
        '  "triggerTimeEnd": "{{TriggerTimeEnd}}",\n  "alertResponseUrl": "{{AlertResponseUrl}}"\n}',
        notes=(
            "Missing data is an error. ResolvedCritical ends what Critical began, and so on.",
            "If a monitor alerts for each of several groups, add a field `key` with what names the group in"
            " both payloads.",
            "Scheduled searches report no end, and are critical: let the service resolve incidents by"
            " itself.",
            "Names of fields count without their case and underscores.",
        ),
    ),
    "graylog": Guide(
        (
            "Add the webhook URL to the URL allowlist: System, Configurations, URL Allowlist.",
            "Open Alerts, Notifications, Create Notification, and select HTTP Notification.",
            "Enter the webhook URL. Add the notification to your event definitions.",
        ),
        "the event definition and the key of the event",
        notes=(
            "The priorities high and critical are critical, normal is an error, low a warning. Graylog's"
            " default is normal, so new integrations open incidents for errors and warnings too.",
            "Without a key, the fields of Group by name the problem.",
            "Graylog reports no end: let the service resolve incidents by itself after a time.",
            "The alarm callbacks of the versions before 3.1 are read too, and are critical.",
            "The test notification is an alert of the level info.",
        ),
    ),
}
