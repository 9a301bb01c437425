"""Guides of the alarms of cloud providers."""

from tocsin.commands.alerts.guides.guide import Guide

GUIDES: dict[str, Guide] = {
    "guardduty": Guide(
        (
            "Create a topic of Amazon SNS.",
            'Store its ARN: PUT /api/tocsin/integrations/ID/source/ with {"topics": ["ARN"]}.',
            "Add the webhook URL as a subscription of the protocol HTTPS. Tocsin confirms it.",
            "Add a rule to EventBridge with the pattern below, and the topic as its target, without an"
            " input transformer.",
        ),
        "the account, the region and the ID of the finding",
        '{\n  "source": ["aws.guardduty"],\n  "detail-type": ["GuardDuty Finding"],\n'
        '  "detail": {"severity": [{"numeric": [">=", 4]}]}\n}',
        notes=(
            "Severities of 7.0 and more (high, critical) are critical, 4.0 and more (medium) warnings,"
            " lower ones info.",
            "GuardDuty sends a finding again when its count grows, and reports no end: archive it, or let"
            " the service resolve incidents by itself after a time. An archived finding is resolved.",
            "Events of Security Hub (aws.securityhub) are read too: each finding is an alert. A finding"
            " that is resolved, suppressed, archived or passed resolves.",
            "Sample findings are alerts of the level info.",
            "Signatures and topics are as for [CloudWatch](cloudwatch_v2.md).",
        ),
    ),
}
