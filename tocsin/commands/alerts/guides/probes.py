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
}
