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
            " fields"
            " as the body of a form: check_id={_id}&event={event}&label={label}&message={m}",
            "NodePing's `event` is down or up. The level of down is critical.",
        ),
    ),
}
