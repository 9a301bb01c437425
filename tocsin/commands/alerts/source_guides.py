"""How each monitoring tool is pointed at Tocsin.

`URL` in the texts stands for the webhook URL of the integration. `tocsin send --show` prints the steps, and
`.ci/write_docs.py` makes docs/sources/ of them and of the catalogue of applications.
"""

from tocsin.commands.alerts.guides import clouds, hosts, logs, probes
from tocsin.commands.alerts.guides.guide import Guide

SIGNED = (
    "To have the requests checked, create a secret: POST /api/tocsin/integrations/ID/source/secret/."
    " Requests without a valid signature are then stored, refused, and notify nobody."
)


_NAGIOS_ENTITY = "the host, and the service if there is one"
_NAGIOS_NOTES = (
    "Flapping, downtimes and custom notifications are stored as notes: they open and resolve nothing.",
)

GUIDES: dict[str, Guide] = {
    "prometheus": Guide(
        ("Add a webhook receiver to alertmanager.yml, and send a route to it.",),
        "the fingerprint of the alert",
        "receivers:\n  - name: tocsin\n    webhook_configs:\n      - url: URL\n        send_resolved: true",
        "yaml",
        (
            "Without the label `severity`, an alert is critical. `page` is critical too, `high` is an error.",
            "Without the annotation `summary`, the title is the alertname with the first line of"
            " `description` or"
            " `message`, and the host.",
        ),
    ),
    "grafana": Guide(
        (
            "Open Alerting, Contact points, Add contact point, and select Webhook.",
            "Enter the webhook URL, method POST, and no custom payload.",
            "Add the contact point to a notification policy.",
        ),
        "the fingerprint of the alert; in the older form, the rule",
        notes=(
            "Each alert of a group is one alert, with its own status.",
            "Without the label `severity`, an alert is critical.",
            "DatasourceNoData and DatasourceError have the name of the rule as title.",
            f"Grafana 12 and later sign: HMAC Signature, header X-Grafana-Alerting-Signature. {SIGNED}",
            "A header for the timestamp must be named X-Grafana-Alerting-Timestamp.",
        ),
    ),
    "uptimekuma": Guide(
        (
            "Open Settings, Notifications, Setup Notification, and select Webhook.",
            "Enter the webhook URL as Post URL. The body may be application/json or multipart/form-data.",
        ),
        "the monitor",
        notes=("Maintenance is a note. A certificate that expires is a warning, which nothing resolves.",),
    ),
    "zabbix": Guide(
        (
            "Import deploy/zabbix/media_tocsin.yaml: Alerts, Media types, Import"
            " (Zabbix 6: Administration, Media types, Import).",
            "Add the macro {$ZABBIX.URL} with the address of the Zabbix frontend: Administration, Macros"
            " (Zabbix 6: Administration, General, Macros).",
            "Create a user tocsin whose group may read your host groups. Give it the media Tocsin, with the"
            " webhook URL as Send to.",
            "Add a trigger action: its operation sends to the user tocsin; its recovery operation and its"
            " update operation are Notify all involved.",
        ),
        "the ID of the problem",
        notes=(
            "Severities High and Disaster are critical, Average is an error, Not classified a warning.",
            "Zabbix sends no update to the user who made it. So the media needs a user of its own, and an"
            " acknowledgement in Zabbix then acknowledges the incident.",
            "Zabbix 6.0 does not send the time of the problem: the time of arrival counts.",
        ),
    ),
    "nagios": Guide(
        (
            "Put deploy/nagios/tocsin-notify into /usr/local/bin; it needs curl.",
            "Put deploy/nagios/tocsin.cfg beside the objects of Nagios (Debian: /etc/nagios4/conf.d). Write"
            " the webhook URL for URL in its two commands.",
            "Add the contact tocsin to the members of the contact groups of your hosts and services"
            " (Debian: admins in /etc/nagios4/objects/contacts.cfg), and reload Nagios.",
        ),
        _NAGIOS_ENTITY,
        notes=(
            *_NAGIOS_NOTES,
            "Keep the setting illegal_macro_output_chars of nagios.cfg: it removes quotes from the outputs of"
            " plugins, so that no output runs as a command of the shell.",
        ),
    ),
    "icinga": Guide(
        (
            "Put deploy/nagios/tocsin-notify into /usr/local/bin; it needs curl.",
            "Put deploy/icinga/tocsin.conf into /etc/icinga2/conf.d, with the webhook URL for URL.",
            "To select hosts and services, change the two lines with `assign where`. Reload Icinga.",
        ),
        _NAGIOS_ENTITY,
        notes=_NAGIOS_NOTES,
    ),
    "checkmk": Guide(
        (
            "Put deploy/nagios/tocsin-notify into ~/local/share/check_mk/notifications/ of the site.",
            "Add a notification rule with this script as its method, and the webhook URL as first parameter.",
        ),
        _NAGIOS_ENTITY,
        notes=(
            *_NAGIOS_NOTES,
            "A script of your own may post the variables of the notification as JSON, such as"
            " NOTIFY_HOSTNAME and"
            " NOTIFY_SERVICEDESC, with or without the prefix.",
        ),
    ),
    "centreon": Guide(
        (
            "Put deploy/nagios/tocsin-notify into /usr/local/bin of each poller; it needs curl.",
            "Add the commands of deploy/nagios/tocsin.cfg as notification commands, with the webhook URL.",
            "Give a contact these commands, and deploy the configuration.",
        ),
        _NAGIOS_ENTITY,
        notes=_NAGIOS_NOTES,
    ),
    "datadog": Guide(
        (
            "Open Integrations, Webhooks, New, and name it tocsin.",
            "Enter the webhook URL, and the text below as payload.",
            "Add @webhook-tocsin to the message of your monitors.",
        ),
        "$ALERT_CYCLE_KEY; with the default payload, the title without its state",
        "{\n"
        '  "title": "$EVENT_TITLE",\n  "body": "$TEXT_ONLY_MSG",\n  "alert_id": "$ALERT_ID",\n'
        '  "alert_transition": "$ALERT_TRANSITION",\n  "alert_cycle_key": "$ALERT_CYCLE_KEY",\n'
        '  "aggreg_key": "$AGGREG_KEY",\n  "alert_scope": "$ALERT_SCOPE",\n'
        '  "alert_priority": "$ALERT_PRIORITY",\n  "hostname": "$HOSTNAME",\n  "date": "$DATE",\n'
        '  "link": "$LINK",\n  "snapshot": "$SNAPSHOT",\n  "tags": "$TAGS"\n}',
        notes=(
            "Triggered has the level of the monitor's priority, and is critical without one.",
            "Warn is a warning, No Data an error. Forms are read too, and names of fields in camelCase.",
        ),
    ),
    "sentry": Guide(
        (
            "Open Settings, Custom Integrations, Create New Integration, Internal Integration.",
            "Enter the webhook URL, turn on Alert Rule Action, and select the resource issue.",
            "Store the Client Secret: PUT /api/tocsin/integrations/ID/source/ with the field secret.",
            "Add the integration as an action of your alert rules.",
        ),
        "the issue, or the metric alert",
        notes=(
            "With the secret stored, requests without a valid signature are refused and notify nobody.",
            "An issue that is resolved or ignored in Sentry resolves its incident.",
        ),
    ),
    "cloudwatch_v2": Guide(
        (
            "Create a topic of Amazon SNS.",
            'Store its ARN: PUT /api/tocsin/integrations/ID/source/ with {"topics": ["ARN"]}.',
            "Add the webhook URL as a subscription of the protocol HTTPS. Tocsin confirms it.",
            "Let your alarms notify the topic in the states ALARM, OK and INSUFFICIENT_DATA.",
        ),
        "account, region and name of the alarm, and its contributor if it has several",
        notes=(
            "With topics stored, only messages of these topics that Amazon SNS has signed count. Others are"
            " stored, refused, and notify nobody.",
            "For that, workers must reach sns.REGION.amazonaws.com by HTTPS. If they cannot, a message"
            " becomes a dead letter, which an incident reports and which can be replayed.",
            "A message counts for an hour after its time, with a certificate of the region of its topic. If"
            " many messages name unknown certificates, they wait: Tocsin fetches 10 in a minute.",
            "Without topics, signatures are not checked: the key in the webhook URL is what protects it. A"
            " person opens the link of the alert that asks to confirm the subscription.",
            "Raw message delivery and events of EventBridge have no signature. They are read without topics"
            " only.",
            "The title says the reason of the state, and a link leads to the alarm in the console of its"
            " region.",
            "Other messages than alarms are critical alerts, and their trace says so.",
        ),
    ),
    "newrelic": Guide(
        (
            "Open Alerts, Destinations, and add a webhook with the webhook URL.",
            "Add the destination to a workflow, with the default payload.",
            "Select the notifications Activated, Acknowledged and Closed.",
        ),
        "the issue",
    ),
    "microsoftazure": Guide(
        (
            "Add an action of the type Webhook to an action group, with the webhook URL.",
            "Turn on Enable the common alert schema.",
        ),
        "the alertId, which is the same when the alert fires and when it is resolved; in an older schema, the"
        " rule and what it watches",
        notes=(
            "Sev0 and Sev1 are critical, Sev2 is an error, Sev3 a warning.",
            "The older schemas are read too: metric alerts, activity log, service and resource health, log"
            " searches, budgets. Alerts on logs, on activities and on budgets report no end: let the service"
            " resolve incidents by itself after a time.",
            "Budgets and classic metric alerts have no severity, and are critical.",
            "Planned maintenance and autoscaling are notes.",
        ),
    ),
    "stackdriver": Guide(
        (
            "Open Alerting, Edit notification channels, Webhooks, Add new, with the webhook URL.",
            "Add the channel to your policies, and turn on Notify on incident closure.",
        ),
        "the incident of Google Cloud",
        notes=("Without a severity of the policy, its user label `severity` counts.",),
    ),
    "elastic": Guide(
        (
            "Add a connector of the type Webhook: method POST, the webhook URL, no authentication.",
            "Add it to a rule, For each alert, On status changes, with the text below as body.",
            "Add a second action with the same body that runs when Recovered.",
        ),
        "the rule and its alert",
        "{\n"
        '  "rule_id": "{{rule.id}}",\n  "rule_name": "{{rule.name}}",\n  "alert_id": "{{alert.id}}",\n'
        '  "action_group": "{{alert.actionGroup}}",\n  "severity": "critical",\n'
        '  "reason": "{{context.reason}}",\n  "date": "{{date}}",\n  "url": "{{rule.url}}"\n}',
        notes=(
            "The names of the fields can be in camelCase too.",
            "A webhook action of Watcher needs a body with the field `watch_id`, such as"
            ' {"watch_id": "{{ctx.watch_id}}", "execution_time": "{{ctx.execution_time}}"}. `key`,'
            " `severity` and"
            " `message` are read too. Watcher reports no end: let the service resolve incidents by itself.",
        ),
    ),
    "elastalert": Guide(
        ("Add the text below to your rules.",),
        "the rule, and the value of `key`",
        'alert:\n  - http_post2\nhttp_post2_url: "URL"\nhttp_post2_all_values: true\n'
        'http_post2_payload:\n  rule_name: "Failed logins"\n  severity: warning\n  key: "{{host}}"',
        "yaml",
        ("ElastAlert reports no end: let the service resolve incidents by itself after a time.",),
    ),
    "oncall": Guide(
        ("Replace the URL of the formatted webhook of Grafana OnCall with the webhook URL.",),
        "the alert_uid",
        notes=("`state` alerting fires, and is critical without a `severity`; ok resolves.",),
    ),
    "healthchecks": Guide(
        (
            "Open Integrations, Webhook, and enter the webhook URL with the method POST, twice.",
            "Enter the text below as body for both, and the header Content-Type: application/json.",
        ),
        "the check",
        '{\n  "code": "$CODE",\n  "name": "$NAME",\n  "status": "$STATUS",\n  "now": "$NOW",\n'
        '  "tags": "$TAGS"\n}',
    ),
    "cloudevents": Guide(
        ("Send events of CloudEvents 1.0 to the webhook URL: structured, in a batch, or with ce- headers.",),
        "the source and the subject; `entity_id` of the data comes first",
        notes=(
            "The level is `alert_type` or `severity` of the data, the extension `severity`, or the last word"
            " of the type.",
        ),
    ),
    **clouds.GUIDES,
    **hosts.GUIDES,
    **logs.GUIDES,
    **probes.GUIDES,
    "email": Guide(
        (
            "Let the listener receive mails: docs/operators/mail-in.md.",
            "Let the tool send its mails to KEY@DOMAIN: the key of the integration, TOCSIN_MAIL_IN_DOMAIN.",
        ),
        "the sender and the subject without the words for its state, or the header X-Tocsin-Entity",
        "To: KEY@alerts.example.org\nSubject: CRITICAL: disk full on db1\n\n/var is at 98 %",
        "text",
        (
            "Words of the subject are the level: CRITICAL, DOWN, ERROR, WARNING, INFO. ACKNOWLEDGED"
            " acknowledges. In small letters they count in brackets, before a colon or at the end: `db1 is"
            " down`. The header X-Tocsin-Level comes first.",
            "RESOLVED resolves. OK, UP, RECOVERED and RECOVERY do so in brackets, before a colon, at the end,"
            " also in small letters. The sender and the rest of the subject must be the same as before.",
            "Elsewhere in the subject, these words do not count beside a word for a problem, such as ERROR or"
            " failed: `CRITICAL: 0 RESOLVED, 3 open` fires.",
            "Subjects of monit, Jenkins, GitLab, Travis CI, Azure, LibreNMS, Netdata, Proxmox, Uptime Kuma,"
            " Cacti, vCenter, apcupsd and others resolve in the words of the tool. So do sentences such as"
            " `db1 is back up`, `has recovered`, `backup of db1 successful` and `[Closed] ...`, unless a word"
            " says the opposite: `not yet recovered` and `2 of 3 nodes recovered` fire.",
            "A time, a duration or a percentage at the end of the subject names no problem.",
            "Some mails are stored, refused, and open, change and resolve nothing, because two programs could"
            " answer each other without end: mails without a sender, with Auto-Submitted (other than `no`),"
            " with Precedence bulk, junk or list, and mails of Tocsin and answers to them. Many tools set"
            " Auto-Submitted: turn it off there, or let the mail server in between remove it.",
            "HTML becomes text. Nothing is fetched, and attachments are not read.",
        ),
    ),
    "json": Guide(
        (
            "Declare where the fields are: PUT /api/tocsin/integrations/ID/source/ with a mapping as below.",
            "Try it with a body of your program: POST /api/tocsin/integrations/ID/source/try/.",
            "Let the program post its JSON to the webhook URL.",
        ),
        "the values of the declared paths",
        '{\n  "mapping": {\n    "message": "check.name",\n    "entity_id": ["check.host", "check.id"],\n'
        '    "alert_type": "check.status",\n    "url": "link",\n    "at": "when",\n'
        '    "levels": {"bad": "error", "fine": "resolved"}\n  }\n}',
        "json",
        (
            "`message` can be a list of paths, whose values are joined:"
            ' `["check.host", "check.name"]` becomes `q-1: Queue is full`.',
            "`defaults` has values for fields whose paths have none:"
            ' `{"message": "A check failed", "alert_type": "bad"}`. `level` is the level of all alerts, but a'
            " word at `alert_type` that means resolved or acknowledged still does.",
            "The program can send a form too, as application/x-www-form-urlencoded or multipart/form-data. A"
            " path is then the name of a field.",
            "A program that can only request an address sends its fields in the query: set `accepts_get` to"
            " true there. HEAD, browsers, prefetches and previews of links send no alert.",
            "Without a mapping, the body has the generic form. It reads `title` if there is no `message`, and"
            " `severity`, `level`, `status` or `state` if there is no `alert_type`; the answer says so in"
            " `assumed`.",
        ),
    ),
}


def build_steps(kind: str) -> str:
    """Return the steps of a kind as numbered lines, and the text to paste."""
    guide = GUIDES[kind]
    lines = [f"{number}. {step}" for number, step in enumerate(guide.steps, start=1)]
    return "\n".join([*lines, guide.paste] if guide.paste else lines)
