"""Guides of tools that watch hosts, networks and applications."""

from tocsin.commands.alerts.guides.guide import Guide

GUIDES: dict[str, Guide] = {
    "librenms": Guide(
        (
            "Open Alerts, Alert Transports, Create alert transport, and select API.",
            "Select the API Method POST, and enter the webhook URL as API URL.",
            "Enter Content-Type=application/json as header, and the text below as body.",
            "Add the transport to your alert rules, or make it the default. Leave Recovery Alerts on.",
        ),
        "the rule and the device",
        "{\n"
        '  "title": "{{ $title }}",\n  "hostname": "{{ $hostname }}",\n  "device_id": "{{ $device_id }}",\n'
        '  "rule_id": "{{ $rule_id }}",\n  "alert_id": "{{ $alert_id }}",\n  "uid": "{{ $uid }}",\n'
        '  "name": "{{ $name }}",\n  "severity": "{{ $severity }}",\n  "state": "{{ $state }}",\n'
        '  "timestamp": "{{ $timestamp }}",\n  "elapsed": "{{ $elapsed }}"\n}',
        notes=(
            "`$msg` has line breaks and quotes of your alert templates, which break the JSON. To have it as"
            " the summary, turn on Send as form and write the fields as key=value.",
            "The state says that an alert has recovered, was acknowledged, got worse or better.",
            "The time of LibreNMS has no time zone: the time of arrival counts.",
            "Test transport sends an alert of the level info.",
        ),
    ),
    "dynatrace": Guide(
        (
            "Open Settings, Integration, Problem notifications, Add notification, Custom integration.",
            "Enter the webhook URL, and the text below as custom payload. Leave Call webhook if problem is"
            " closed on.",
        ),
        "the PID, or the ProblemID",
        "{\n"
        '  "State": "{State}",\n  "PID": "{PID}",\n  "ProblemID": "{ProblemID}",\n'
        '  "ProblemTitle": "{ProblemTitle}",\n  "ProblemSeverity": "{ProblemSeverity}",\n'
        '  "ProblemImpact": "{ProblemImpact}",\n  "ImpactedEntity": "{ImpactedEntity}",\n'
        '  "ProblemDetailsText": "{ProblemDetailsText}",\n  "ProblemURL": "{ProblemURL}",\n'
        '  "Tags": "{Tags}"\n}',
        notes=(
            "AVAILABILITY, ERROR and CUSTOM_ALERT are critical, MONITORING_UNAVAILABLE is an error,"
            " PERFORMANCE and RESOURCE_CONTENTION are warnings. Without a severity, a problem is critical.",
            "A problem that Dynatrace merges into another one is resolved; the other one goes on.",
            "Workflows can post the event of a problem as it is.",
            "The test notification is an alert of the level info.",
        ),
    ),
    "sensu_go": Guide(
        (
            "Put curl on the backend of Sensu, and create the handler below with sensuctl create.",
            "Add the handler to your checks, or to a pipeline, with the filters is_incident and"
            " not_silenced.",
        ),
        "the namespace, the entity and the check",
        "type: Handler\napi_version: core/v2\nmetadata:\n  name: tocsin\nspec:\n  type: pipe\n  timeout: 20\n"
        "  command: >-\n    curl --fail --silent --show-error --max-time 15 --data-binary @-\n"
        "    -H 'Content-Type: application/json' 'URL'\n  filters:\n    - is_incident\n    - not_silenced",
        "yaml",
        (
            "The status 1 is a warning, 2 is critical, and others are errors. 0 resolves.",
            "A silenced event and one with metrics only are notes.",
            "Subject, message and status of a handler for incident tools are read too.",
        ),
    ),
    "prtg": Guide(
        (
            "Open Setup, Account Settings, Notification Templates, Add, and turn on Execute HTTP Action.",
            "Enter the webhook URL, the method POST, and the text below as payload.",
            "Add state triggers with this template for Down and Warning, each also when the condition"
            " clears.",
        ),
        "the sensor",
        "sensorid=%sensorid&device=%device&sensor=%sensor&status=%status&colorofstate=%colorofstate&message=%message&lastvalue=%lastvalue"
        "&group=%group&priority=%priority&linksensor=%linksensor",
        "text",
        (
            "Down is critical, Down (Partial) and Unknown are errors, Warning and Unusual are warnings. The"
            " end of a state names the new one: `Down ended (now: Up)`.",
            "Down (Acknowledged) acknowledges. Paused is a note.",
            "PRTG in another language has other names of states. Then the color counts: red is critical,"
            " yellow a warning, green the end, blue a note.",
        ),
    ),
    "proxmox": Guide(
        (
            "Open Datacenter, Notifications (Backup Server: Configuration, Notifications), Add, Webhook.",
            "Enter the method POST, the webhook URL, the header Content-Type: application/json, and the"
            " text below as body.",
            "Add the target to a matcher. Let the matcher pass the severity info too, so that a backup that"
            " succeeds resolves the failure before it.",
        ),
        "the type, the host, and the job or datastore; without a job, the title without its numbers",
        "{\n"
        '  "title": "{{ escape title }}",\n  "message": "{{ escape message }}",\n'
        '  "severity": "{{ severity }}",\n  "timestamp": {{ timestamp }},\n'
        '  "fields": {{ json fields }}\n}',
        notes=(
            "Error is the highest severity of Proxmox, and critical. Mails of the system (smartd and"
            " others) are errors, with the severity unknown.",
            "A backup, garbage collection, prune, sync or verification that succeeds resolves what it"
            " reported before. Fencing, replication and mails report no end.",
        ),
    ),
    "netdata": Guide(
        (
            "Netdata Cloud: open Space settings, Alerts & Notifications, Add configuration, Webhook, and"
            " enter the webhook URL. Test sends a token, which is in the payload of the alert: tocsin"
            " recent shows it.",
            "Netdata Agent: put the text below into health_alarm_notify.conf, in place of custom_sender, with"
            ' SEND_CUSTOM="YES" and DEFAULT_RECIPIENT_CUSTOM="tocsin".',
        ),
        "the space, the host, the chart and the alert",
        "custom_sender() {\n"
        '  jq -n --arg host "$host" --arg alert "$name" --arg chart "$chart" --arg status'
        ' "$status" \\\n'
        '    --arg value_string "$value_string" --arg info "$info" --arg when "$when" \\\n'
        "    --arg goto_url \"$goto_url\" '$ARGS.named' |\n"
        "    curl --fail --silent --max-time 15 --data-binary @- -H 'Content-Type: application/json'"
        " 'URL'\n}",
        "sh",
        (
            "Clear resolves. Removed and undefined alerts are notes.",
            "The webhook of Netdata Cloud names the host in its texts only: the same alert of the same"
            " chart on two hosts of a space is one problem. The Agent names the host.",
            "A host that is unreachable is critical, and resolved when it is reachable again.",
        ),
    ),
}
