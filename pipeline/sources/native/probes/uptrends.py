"""Alerts of Uptrends, by a custom integration with the body of our page, or with variables in objects.

uptrends.com, "Alerting system variables". An alert and its end have the same incident key, but not the same
alertGuid: without the key, the monitor names the problem.
"""

import re

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import Fields, as_parser, build_alert, join_entity, read_level
from pipeline.sources.reading.placeholders import without_placeholders

KIND = "uptrends"

TYPE = ("alert_type", "alertType", "alert.type", "type")
INCIDENT = ("incident_key", "incidentKey", "incident.key")
MONITOR = ("monitor_guid", "monitorGuid", "monitor.monitorGuid", "monitor_id")
ALERT = ("alert_id", "alertGuid", "alert.alertGuid")
MESSAGE = ("failure_message", "alert.failureMessage", "message", "escalationLevel.message")
TYPES = {
    "alert": AlertType.CRITICAL,
    "error": AlertType.CRITICAL,
    "reminder": AlertType.CRITICAL,
    "ok": AlertType.RESOLVED,
    "test": AlertType.INFO,
}
_LEFT = re.compile(r"\{\{.{0,80}\}\}")


def _is_known(data: Fields) -> bool:
    return data.has(*TYPE) and data.has(*INCIDENT, *MONITOR, *ALERT, "monitor.name", "monitor_name")


def _read(sent: Fields) -> list[ParsedAlert]:
    data = without_placeholders(sent, _LEFT)
    name = data.text("monitor_name", "monitorName", "monitor.name")
    why = data.text("alert_description", "description", "alert.description")
    return [
        build_alert(
            sent.value,
            read_level(data.text(*TYPE), TYPES),
            message=f"{name}: {why}" if name and why else name or why,
            summary=data.text(*MESSAGE),
            entity=_name_entity(data, name),
            links=[
                ("Uptrends", data.text("dashboard_url", "monitor.dashboardUrl")),
                ("First error", data.text("error_url", "alert.firstErrorCheckUrl")),
                ("Monitored", data.text("monitor_url", "monitor.url")),
            ],
            at=data.get("timestamp_utc") or data.get("alert.timestampUtc"),
        )
    ]


def _name_entity(data: Fields, name: str) -> str:
    incident, monitor = data.text(*INCIDENT), data.text(*MONITOR)
    if incident:
        return join_entity("incident", incident)
    return join_entity("monitor", monitor or name) if monitor or name else data.text(*ALERT)


parse = as_parser(KIND, _is_known, _read)
