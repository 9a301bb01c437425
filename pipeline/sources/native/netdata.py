"""Alerts of Netdata: the webhook of Netdata Cloud, and the custom sender of an Agent.

learn.netdata.cloud, "Webhook" and "Custom". Space, host, chart and alert together are one problem. The
webhook of Netdata Cloud names the host only when it is unreachable.
"""

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import (
    Fields,
    Level,
    as_parser,
    build_alert,
    build_note,
    join_entity,
    read_level,
)

KIND = "netdata"

ALERT, STATUS = ("alert", "alarm", "name"), ("severity", "status")
LEVELS = {
    "critical": AlertType.CRITICAL,
    "warning": AlertType.WARNING,
    "clear": AlertType.RESOLVED,
    "cleared": AlertType.RESOLVED,
}
# States of an alert that has not been calculated, or that was removed.
NOTES = frozenset({"removed", "undefined", "uninitialized"})


def _is_known(data: Fields) -> bool:
    is_alert = data.has(*ALERT) and data.has(*STATUS)
    return is_alert or data.has("status.reachable") or data.has("token")


def _read(data: Fields) -> list[ParsedAlert]:
    if data.has("status.reachable"):
        return [_read_host(data)]
    if not data.has(*ALERT):
        return [build_note(data.value, message=data.text("title", "message") or "Netdata: test")]
    return [_read_alert(data)]


def _read_host(data: Fields) -> ParsedAlert:
    is_reachable = data.get("status.reachable") is True
    host = data.text("host", "node")
    return build_alert(
        data.value,
        Level(AlertType.RESOLVED if is_reachable else AlertType.CRITICAL),
        message=data.text("message") or f"{host} is {data.text('status.text')}",
        entity=join_entity("host", host),
        links=[("Netdata", data.text("url"))],
        at=data.get("date"),
    )


def _read_alert(data: Fields) -> ParsedAlert:
    host, alert, state = data.text("host", "node"), data.text(*ALERT), data.text(*STATUS)
    entity = join_entity(data.text("space"), host, data.text("chart"), alert)
    parts = [host, alert, data.text("value_string", "value")]
    message = data.text("message") or ": ".join(filter(None, parts))
    if state.lower() in NOTES:
        return build_note(data.value, message=f"{message} ({state})", entity=entity)
    return build_alert(
        data.value,
        read_level(state, LEVELS),
        message=message,
        summary=data.text("info"),
        entity=entity,
        links=[("Netdata", data.text("alert_url", "alarm_url", "goto_url", "url"))],
        at=data.get("date") or data.get("when"),
    )


parse = as_parser(KIND, _is_known, _read)
