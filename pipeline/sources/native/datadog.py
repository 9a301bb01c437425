"""Webhooks of Datadog: with the payload of our page, or with Datadog's default payload.

The default payload has neither the transition nor a key of the alert: both are in the title, which reads
"[Triggered on {host:web-1}] CPU is high". So the title without the transition names the problem.
"""

import re

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import (
    LEVELS,
    Fields,
    Level,
    as_parser,
    build_alert,
    join_entity,
    read_level,
    read_optional_level,
)
from pipeline.sources.reading.names import to_snake_case

KIND = "datadog"

TRANSITIONS = {
    "warn": AlertType.WARNING,
    "no data": AlertType.ERROR,
    "recovered": AlertType.RESOLVED,
    "success": AlertType.RESOLVED,
}
# These say nothing about the level: the priority of the monitor does.
FIRED = frozenset({"triggered", "renotify", ""})
_PRIORITY = re.compile(r"\[P[1-5]\]\s*")
_STATE = re.compile(r"\[(Re-)?(Triggered|Warn|No Data|Recovered|Renotify)( on [^\]]*)?\]\s*", re.IGNORECASE)


def _is_known(data: Fields) -> bool:
    keys = ("alert_transition", "alert_cycle_key", "aggreg_key", "alert_id", "event_type")
    return to_snake_case(data).has(*keys) or _STATE.search(data.text("title")[:1_000]) is not None


def _read(sent: Fields) -> list[ParsedAlert]:
    data = to_snake_case(sent)
    title = data.text("title", "alert_title")[:1_000]
    return [
        build_alert(
            sent.value,
            _read_level(data, title),
            message=_STATE.sub("", _PRIORITY.sub("", title)) or title,
            summary=data.text("body", "event_msg", "text_only_msg"),
            entity=data.text("alert_cycle_key", "aggreg_key") or _build_entity(data, title),
            links=[("Datadog", data.text("link")), ("Snapshot", data.text("snapshot"))],
            at=data.get("date") or data.get("last_updated"),
        )
    ]


def _build_entity(data: Fields, title: str) -> str:
    if data.has("alert_id"):
        return join_entity(data.text("alert_id"), data.text("alert_scope", "hostname"))
    plain = _PRIORITY.sub("", title)
    return _STATE.sub(lambda found: f"[{(found[3] or '').strip()}] " if found[3] else "", plain).strip()


def _read_level(data: Fields, title: str) -> Level:
    found = _STATE.search(title)
    sent = (data.text("alert_transition") or (found[2] if found else "")).lower().removeprefix("re-")
    if "recovered" in sent:
        return Level(AlertType.RESOLVED)
    if sent not in FIRED:
        return read_level(sent, TRANSITIONS)
    if not sent and data.text("alert_type").lower() in {"success", "warning", "error", "info"}:
        return read_level(data.text("alert_type"), {**LEVELS, **TRANSITIONS})
    priority = data.text("alert_priority", "priority") or _find_priority(title)
    return read_optional_level(priority if priority.upper().startswith("P") else "")


def _find_priority(title: str) -> str:
    found = _PRIORITY.search(title)
    return found[0].strip("[] ") if found else ""


parse = as_parser(KIND, _is_known, _read)
