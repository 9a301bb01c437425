"""Webhooks of Sentry's internal integrations: issues, issue alerts, metric alerts, errors; also its old
plugin.

docs.sentry.io, "Integration platform, webhooks". An issue alert and the issue itself have the same entity_id,
so that the resolved issue resolves what its alert opened.
"""

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import (
    LEVELS,
    Fields,
    Level,
    as_parser,
    build_alert,
    build_note,
    read_level,
    read_optional_level,
)

KIND = "sentry"

HEADERS = ("sentry-hook-resource", "sentry-hook-signature")
SIGNATURE = "sentry-hook-signature"
ENDED = frozenset({"resolved", "ignored", "archived"})
FIRED = frozenset({"created", "triggered", "unresolved"})
LEVELS_OF_SENTRY = {**LEVELS, "sample": AlertType.INFO}
OPEN = frozenset({"open", "triggered"})


def _is_known(data: Fields) -> bool:
    in_data = ("data.issue", "data.event", "data.metric_alert", "data.error", "data.installation")
    return data.has(*in_data) or (data.has("event") and data.has("project"))


def _read(data: Fields) -> list[ParsedAlert]:
    action, inner = data.text("action").lower(), data.within("data")
    if inner.has("metric_alert"):
        return [_read_metric(data, inner, action)]
    if inner.has("event", "error"):
        return [_read_event(data, inner.within("event" if inner.has("event") else "error"), inner)]
    if inner.has("issue"):
        return [_read_issue(data, inner.within("issue"), action)]
    if data.has("event"):
        return [_read_plugin(data)]
    return [build_note(data.value, message=f"Sentry: installation {action}")]


def _name(noun: str, number: str) -> str:
    """Return the entity_id of a thing with this number; "" without one: the alert is then alone."""
    return f"{noun} {number}" if number else ""


def _read_metric(data: Fields, inner: Fields, action: str) -> ParsedAlert:
    found = inner.within("metric_alert")
    return build_alert(
        data.value,
        read_optional_level("") if action in OPEN else read_level(action),
        message=inner.text("description_title") or found.text("title"),
        summary=inner.text("description_text"),
        entity=_name("metric", found.text("id")) or _name("metric identifier", found.text("identifier")),
        links=[("Sentry", inner.text("web_url"))],
        at=found.get("date_closed" if action == "resolved" else "date_started"),
    )


def _read_event(data: Fields, event: Fields, inner: Fields) -> ParsedAlert:
    last = event.text("issue_url").rstrip("/").rpartition("/")[2]
    issue = event.text("issue_id") or (last if last.isdecimal() else "")
    return build_alert(
        data.value,
        read_level(event.text("level"), LEVELS_OF_SENTRY),
        message=event.text("title", "message"),
        summary=event.text("culprit") or inner.text("triggered_rule"),
        entity=_name("issue", issue),
        links=[("Sentry", event.text("web_url"))],
        at=event.get("datetime"),
    )


def _read_issue(data: Fields, issue: Fields, action: str) -> ParsedAlert:
    entity = _name("issue", issue.text("id"))
    title = issue.text("title")
    if action not in ENDED | FIRED:
        return build_note(data.value, message=f"{title} ({action})", entity=entity)
    ended = action in ENDED
    return build_alert(
        data.value,
        Level(AlertType.RESOLVED) if ended else read_level(issue.text("level"), LEVELS_OF_SENTRY),
        message=title,
        summary=issue.text("culprit"),
        entity=entity,
        links=[("Sentry", issue.text("web_url", "permalink"))],
        at=None if ended else issue.get("lastSeen"),
    )


def _read_plugin(data: Fields) -> ParsedAlert:
    return build_alert(
        data.value,
        read_level(data.text("level"), LEVELS_OF_SENTRY),
        message=data.text("message", "event.title"),
        summary=data.text("culprit"),
        entity=_name("issue", data.text("id")),
        links=[("Sentry", data.text("url"))],
        at=data.get("event.timestamp"),
    )


parse = as_parser(KIND, _is_known, _read)
