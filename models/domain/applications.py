"""The catalogue of applications for integrations (contract section 3.6).

`extension` is the kind of the application: the part of the webhook URL that selects the normalizer
(pipeline/sources/table.py). A kind without a normalizer of its own is read in the generic form. The IDs that
published examples contain are kept, so that these examples work.
"""

from dataclasses import dataclass

from models.domain.enums import IntegrationType
from models.domain.values import replace


@dataclass(frozen=True, slots=True)
class Application:
    unique_id: str
    name: str
    extension: str
    summary: str
    categories: str
    application_type: IntegrationType = IntegrationType.ALERT
    # The levels that open incidents in a new integration, unless the request says it (contract section 3.6).
    create_incidents_for: int = 1


APPLICATIONS: dict[str, Application] = {
    application.unique_id: application
    for application in (
        Application(
            "27c9800c-2856-490d-8119-790be1308dd4", "API", "generic",
            "Send alerts to the events API from scripts and programs.", "API",
        ),
        Application(
            "0d2b8f3e-6a5c-4c7e-9f61-2f0f7c1f5a10", "Generic Integration", "generic",
            "Any tool that can post JSON with a message and an alert type.", "API",
        ),
        Application(
            "5a4b6c1d-93b1-4f0e-8f57-71e0b1c2d3e4", "Prometheus", "prometheus",
            "Alerts from Prometheus, by the webhook receiver of Alertmanager.", "Monitoring",
        ),
        Application(
            "b7e0c5d2-41f9-4a36-8c0e-6d2a9f3b7e18", "Heartbeat", "heartbeat",
            "Jobs that send a ping after each run. A missing ping opens an incident, the next resolves it.",
            "Monitoring",
        ),
        Application(
            "1ef0e211-82fb-454a-96c4-20bd26ebdcab", "CloudWatch", "cloudwatch_v2",
            "Alarms of Amazon CloudWatch, by a topic of Amazon SNS.", "Monitoring,Cloud",
        ),
        Application(
            "07c84d47-7e71-49ec-b781-1cc81a78086e", "Cloudwatch V2", "cloudwatch_v2",
            "Alarms of Amazon CloudWatch, by a topic of Amazon SNS.", "Monitoring,Cloud",
        ),
        Application(
            "bb399bc6-9098-4afd-91d7-3cec4d8282eb", "AWS GuardDuty", "guardduty",
            "Findings of Amazon GuardDuty, by a topic of Amazon SNS.", "Security,Cloud",
        ),
        Application(
            "14bac897-5e6e-4bf0-97ac-38b705d19685", "Datadog", "datadog",
            "Alerts of Datadog monitors, by its webhooks.", "Monitoring",
        ),
        Application(
            "0d918c84-3623-4ba3-b2e2-bafc61193fcb", "Grafana", "grafana",
            "Alerts of Grafana, by a webhook contact point.", "Monitoring",
        ),
        Application(
            "daec36a4-3d89-42b2-b755-1be0032f243d", "HTTP Healthcheck", "httphealthcheck",
            "Any job or check: the level is the last part of the webhook URL.", "Monitoring",
        ),
        Application(
            "3a766bad-6470-44c0-b032-21b6d35e8af7", "LibreNMS", "librenms",
            "Alerts of LibreNMS, by its API transport.", "Monitoring",
        ),
        Application(
            "6271e1fe-e71e-47bf-aefa-a733622d3283", "Microsoft Azure", "microsoftazure",
            "Alerts of Azure Monitor, by a webhook of an action group.", "Monitoring,Cloud",
        ),
        Application(
            "4df271be-6930-4244-b037-d9eeb3632a25", "Nagios", "nagios",
            "Problems of hosts and services from Nagios, by a notification command.", "Monitoring",
        ),
        Application(
            "1210ad27-d33b-46a6-abe7-6742cf5c0f7b", "New Relic", "newrelic",
            "Issues of New Relic, by a webhook destination.", "Monitoring",
        ),
        Application(
            "0e7b59be-94ad-4529-9db1-9b88de3d117b", "Sensu Go", "sensu_go",
            "Events of Sensu Go, by a handler.", "Monitoring",
        ),
        Application(
            "eeabb096-4b89-4652-b981-a92d52c93024", "Splunk", "splunk_legacy",
            "Alerts of Splunk, by a script or a webhook action.", "Logging",
        ),
        Application(
            "43e74583-57d2-4c27-b3db-a153397d4161", "Stackdriver", "stackdriver",
            "Incidents of Google Cloud Monitoring, by a webhook channel.", "Monitoring,Cloud",
        ),
        Application(
            "5b554feb-9241-4e7a-bda6-eec9ed313bf0", "Zabbix", "zabbix",
            "Problems from Zabbix, by a media type with a webhook or a script.", "Monitoring",
        ),
        Application(
            "e4561f02-1516-427c-8666-0a47e615bde0", "JSON with a mapping", "json",
            "Any JSON: you declare where the fields of an alert are in the body.", "API",
        ),
        Application(
            "7f97464b-f7ec-4740-a33e-5568f85a10d0", "Uptime Kuma", "uptimekuma",
            "Monitors of Uptime Kuma, by its webhook.", "Monitoring",
        ),
        Application(
            "d2aab5a2-593c-49bf-bcef-6cbf0a9ac997", "Icinga", "icinga",
            "Problems of hosts and services from Icinga, by a notification command.", "Monitoring",
        ),
        Application(
            "3005a4a2-a5d4-471a-9493-52cc400cfd97", "Checkmk", "checkmk",
            "Problems of hosts and services from Checkmk, by a notification script.", "Monitoring",
        ),
        Application(
            "50d59aaa-b577-4f53-831c-cfe5ff92fe48", "Centreon", "centreon",
            "Problems of hosts and services from Centreon, by a notification command.", "Monitoring",
        ),
        Application(
            "20b64df0-4388-4986-90d3-13c7fa64fd96", "Sentry", "sentry",
            "Issues, issue alerts and metric alerts of Sentry, by an internal integration.", "Monitoring",
        ),
        Application(
            "dd80dcfc-0a4f-4edf-93c3-fd42b8e34537", "Elastic", "elastic",
            "Rules of Kibana, by a webhook connector.", "Monitoring,Logging",
        ),
        Application(
            "32c1a252-ca10-4ce9-b155-50bec081a668", "ElastAlert", "elastalert",
            "Matches of ElastAlert 2, by its alerter http_post2.", "Logging",
        ),
        Application(
            "c49f6e40-333e-448b-b8d7-eef56e2bbdfe", "Grafana OnCall formatted webhook", "oncall",
            "Senders of Grafana OnCall's formatted webhook.", "Monitoring",
        ),
        Application(
            "ec5ef66f-3064-44cf-833e-4b9bbd37f829", "Healthchecks", "healthchecks",
            "Checks of Healthchecks, by its webhook.", "Monitoring",
        ),
        Application(
            "645c2a8e-fa27-4972-a9cd-526ff53d865c", "CloudEvents", "cloudevents",
            "Events in the form of CloudEvents 1.0.", "API",
        ),
        Application(
            "1bb2b206-ee81-4a7d-aaed-78bdd72a49b5", "NodePing", "nodeping",
            "Checks of NodePing, by a webhook contact.", "Monitoring",
        ),
        Application(
            "74610924-7a4f-43df-bad1-4f32bd342bed", "Dynatrace", "dynatrace",
            "Problems of Dynatrace, by a custom integration.", "Monitoring",
        ),
        Application(
            "95223fd2-5acc-4b30-aa37-1475bdaae1df", "UptimeRobot", "uptimerobot",
            "Monitors of UptimeRobot, by a webhook contact.", "Monitoring",
        ),
        Application(
            "82a206f1-6b4d-4fcf-a026-0698ccc52843", "Sumo Logic", "sumologic",
            "Monitors of Sumo Logic, by a webhook connection.", "Logging",
        ),
        Application(
            "6e8b20cd-e91c-4d36-b1c2-7e4ad88a0d9c", "Uptrends", "uptrends",
            "Monitors of Uptrends, by a custom integration.", "Monitoring",
        ),
        Application(
            "33010f5d-9332-488b-a05e-aca17b1eaecd", "Pingdom", "pingdom",
            "Checks of Pingdom, by a webhook integration.", "Monitoring",
        ),
        Application(
            "d32a48b9-44ce-4f75-9869-5f54da4b5086", "StatusCake", "statuscake",
            "Tests of StatusCake, by the webhook of a contact group.", "Monitoring",
        ),
        Application(
            "9a771704-ed29-42de-9bfe-b9d5eb4aaf0c", "Site24x7", "site24x7",
            "Monitors of Site24x7, by a webhook integration.", "Monitoring",
        ),
        Application(
            "1a0a40ee-94fa-425f-87a9-775ea8f67b76", "PRTG", "prtg",
            "Sensors of PRTG, by the notification Execute HTTP Action.", "Monitoring",
        ),
        Application(
            "0b7d496b-c3c4-459e-b3b9-73d5737a37ef", "Graylog", "graylog",
            "Events of Graylog, by its HTTP notification.", "Logging", create_incidents_for=3,
        ),
        Application(
            "f53676bc-bdef-4a3d-87ba-5e29a8aa1bd2", "Proxmox", "proxmox",
            "Notifications of Proxmox VE and Proxmox Backup Server, by a webhook target.", "Monitoring",
        ),
        Application(
            "102fde08-03d1-4163-b012-e198e0b49f86", "Netdata", "netdata",
            "Alerts of Netdata Cloud, by a webhook, and of Netdata Agents.", "Monitoring",
        ),
        Application(
            "f39ac3e1-354f-48dd-94be-b0c32b38f577", "Email", "email",
            "Alerts of tools that send mails: the subject names the problem and its state.",
            "Communication",
        ),
        Application(
            "63fe7171-b473-4d15-9be5-6de15e7ad5a7", "PagerDuty Events API", "pagerduty",
            "Tools made for PagerDuty's Events API, version 2 or 1: they need another URL and a key.",
            "API", create_incidents_for=3,
        ),
        Application(
            "bf43cf1b-4357-4905-9be9-843cfd8a1c56", "Opsgenie Alert API", "opsgenie",
            "Tools made for Opsgenie's Alert API: they need another URL and a key.",
            "API", create_incidents_for=3,
        ),
        Application(
            "246b0a70-052e-4c3f-837b-5d8861f0377c", "VictorOps REST endpoint", "victorops",
            "Tools made for the REST endpoint of VictorOps: they need another URL and a key.",
            "API", create_incidents_for=3,
        ),
        Application(
            "94bd2a61-5bff-4ab4-a45b-8ac403fb1678", "Prometheus without Alertmanager", "alertmanager",
            "Alerts that Prometheus, Loki, Thanos or vmalert push as to the API of Alertmanager, version 2.",
            "Monitoring",
        ),
        Application(
            "bbfdaa85-a1c1-4d0a-b59a-0e24f081d237", "Conference bridge", "conf",
            "A conference for the people of an incident. It is stored, but not used yet.",
            "Communication", IntegrationType.OUTBOUND,
        ),
        Application(
            "85faf8b2-de49-4445-9550-a8c7490d0719", "Outgoing Webhook", "outgoing_webhook",
            "Changes of incidents to another program, as requests to its URL.",
            "API", IntegrationType.OUTBOUND,
        ),
    )
}  # fmt: skip

GENERIC = "0d2b8f3e-6a5c-4c7e-9f61-2f0f7c1f5a10"
HEARTBEAT = "b7e0c5d2-41f9-4a36-8c0e-6d2a9f3b7e18"
PROMETHEUS = "5a4b6c1d-93b1-4f0e-8f57-71e0b1c2d3e4"

# The kinds, each with the last application of this extension.
KINDS: dict[str, Application] = {application.extension: application for application in APPLICATIONS.values()}


def get_application(unique_id: str, kind: str | None) -> Application:
    """Return an application of the catalogue, or the application of this kind with another ID.

    A kind that this version does not know is shown as generic: a later version stored it.
    """
    known = APPLICATIONS.get(unique_id)
    return known or replace(KINDS.get(kind or "", APPLICATIONS[GENERIC]), unique_id=unique_id)


def accepts_pings(unique_id: str, kind: str | None) -> bool:
    """Return whether the alerts of integrations with this application are pings of a heartbeat."""
    known = APPLICATIONS.get(unique_id)
    return (known.extension if known else kind) == APPLICATIONS[HEARTBEAT].extension
