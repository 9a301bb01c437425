"""Alerts of LibreNMS, by its API transport with the body of our page, in JSON or as a form.

docs.librenms.org, "Alerting, Transports, API", and the source code of LibreNMS. A rule and a device together
are one problem: `id` and `uid` are numbers of a log, and differ when the alert recovers. `timestamp` has no
time zone, so the time of arrival counts.
"""

import re

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import Fields, Level, as_parser, build_alert, join_entity, read_level
from pipeline.sources.reading.placeholders import without_placeholders

KIND = "librenms"

RECOVERED, ACKNOWLEDGED = frozenset({"0", "ok", "recovered"}), frozenset({"2", "acknowledged"})
# A rule can have the severity Ok too. Only the state says that an alert has recovered.
SEVERITIES = {"critical": AlertType.CRITICAL, "warning": AlertType.WARNING, "ok": AlertType.INFO}
# The number of the rule, the alert and the log that the button "Test transport" sends.
OF_A_TEST = "000"
_LEFT = re.compile(r"\{\{.{0,60}\}\}")
_RECOVERED = re.compile(r"\brecovered from\b", re.IGNORECASE)
_ACKNOWLEDGED = re.compile(r"\bgot acknowledged$", re.IGNORECASE)


def _is_known(data: Fields) -> bool:
    return data.has("rule_id", "alert_id", "uid") or (data.has("hostname") and data.has("state", "severity"))


def _read(sent: Fields) -> list[ParsedAlert]:
    data = without_placeholders(sent, _LEFT)
    host, rule = data.text("display", "hostname", "sysName"), data.text("name", "rule")
    title = data.text("title")
    return [
        build_alert(
            sent.value,
            _read_level(data, title),
            message=title or (f"{host}: {rule}" if host and rule else host or rule),
            summary=data.text("msg", "faults"),
            entity=_name_entity(data),
            links=[("LibreNMS", data.text("url"))],
        )
    ]


def _name_entity(data: Fields) -> str:
    rule, device = data.text("rule_id"), data.text("device_id")
    if rule and device:
        return join_entity("rule", rule, device)
    alert = data.text("alert_id")
    return join_entity("alert", alert) if alert else join_entity(data.text("hostname"), data.text("name"))


def _read_level(data: Fields, title: str) -> Level:
    if OF_A_TEST in (data.text("rule_id"), data.text("uid")):
        return Level(AlertType.INFO)
    state = data.text("state").lower()
    if state in RECOVERED or (not state and _RECOVERED.search(title)):
        return Level(AlertType.RESOLVED)
    if state in ACKNOWLEDGED or (not state and _ACKNOWLEDGED.search(title)):
        return Level(AlertType.ACKNOWLEDGED)
    return read_level(data.text("severity"), SEVERITIES)


parse = as_parser(KIND, _is_known, _read)
