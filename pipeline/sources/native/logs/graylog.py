"""Events of Graylog, by its HTTP notification; also the alarm callback of the versions before 3.1.

go2docs.graylog.org, "Notifications". The event definition and its key together are one problem. Graylog
reports no end. The priority is 1 low, 2 normal, 3 high, 4 critical.
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
    read_optional_level,
    to_text,
)

KIND = "graylog"

PRIORITIES = {
    "0": AlertType.INFO,
    "1": AlertType.WARNING,
    "2": AlertType.ERROR,
    "3": AlertType.CRITICAL,
    "4": AlertType.CRITICAL,
}
# The type of the definition that the button "Test notification" sends.
OF_A_TEST = "notification-test-v1"
MAX_FIELDS = 50


def _is_known(data: Fields) -> bool:
    return data.has("event_definition_id", "event.event_definition_id", "check_result")


def _read(data: Fields) -> list[ParsedAlert]:
    return [_read_event(data) if data.has("event_definition_id", "event") else _read_condition(data)]


def _read_event(data: Fields) -> ParsedAlert:
    event = data.within("event")
    title = data.text("event_definition_title")
    message = event.text("message") or title
    return build_alert(
        data.value,
        _read_level(data, event),
        message=f"{title}: {message}" if title and title not in message else message,
        summary=_describe(data, event),
        entity=join_entity(
            data.text("event_definition_id") or event.text("event_definition_id"),
            event.text("key") or ",".join(_list_fields(event.get("group_by_fields"))),
        ),
        links=[("Graylog", data.text("event_url", "url"))],
        at=event.get("timestamp"),
    )


def _read_level(data: Fields, event: Fields) -> Level:
    if OF_A_TEST in (data.text("event_definition_type"), event.text("event_definition_type")):
        return Level(AlertType.INFO)
    return read_level(event.text("priority"), PRIORITIES)


def _describe(data: Fields, event: Fields) -> str:
    """Return the description, the fields of the event, and the first message that led to it."""
    lines = [data.text("event_definition_description"), *_list_fields(event.get("fields"))]
    return "\n".join(filter(None, [*lines, data.text("backlog.0.message")]))


def _list_fields(found: object) -> list[str]:
    known = found if isinstance(found, dict) else {}
    return [f"{name}={to_text(known[name])}" for name in sorted(known)[:MAX_FIELDS]]


def _read_condition(data: Fields) -> ParsedAlert:
    """Return the alert of an alarm callback. Its condition of a stream is the problem; it has no level."""
    result = data.within("check_result")
    condition = result.within("triggered_condition")
    entity = join_entity(data.text("stream.id"), condition.text("id"))
    message = f"{data.text('stream.title') or 'Graylog'}: {condition.text('title') or 'alert'}"
    if result.get("triggered") is False:
        return build_note(data.value, message=message, entity=entity)
    return build_alert(
        data.value,
        read_optional_level(""),
        message=message,
        summary=result.text("result_description"),
        entity=entity,
        links=[("Stream", data.text("stream_url"))],
        at=result.get("triggered_at"),
    )


parse = as_parser(KIND, _is_known, _read)
