"""CloudEvents 1.0 (cloudevents.io): one event in JSON, a batch, or an event whose fields are in headers.

The subject in its source is the problem. Without a subject, the event is alone, as its id is never the same.
The last word of the type, such as `resolved`, is the level, unless the event or its data names one.
"""

from collections.abc import Mapping
from contextlib import suppress

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading import generic
from pipeline.sources.reading.body import BadBody, RequestBody, check_payload
from pipeline.sources.reading.fields import (
    LEVELS,
    Fields,
    Level,
    build_alert,
    clean_items,
    join_entity,
    read_items,
    read_level,
    read_other,
)

KIND = "cloudevents"

ATTRIBUTES = ("specversion", "id", "source", "type", "subject", "time", "severity", "dataschema")
PREFIX = "ce-"
HEADERS = ("content-type", *(f"{PREFIX}{name}" for name in ATTRIBUTES))
ENDED = {**LEVELS, "ended": AlertType.RESOLVED, "fixed": AlertType.RESOLVED, "normal": AlertType.RESOLVED}


def parse(body: RequestBody) -> list[ParsedAlert]:
    """Return the alerts of an event, or of a batch. Raises BadBody."""
    attributes = {name: body.headers[PREFIX + name] for name in ATTRIBUTES if PREFIX + name in body.headers}
    if "specversion" in attributes:
        return [_read(Fields({**attributes, "data": _read_data(body)}))]
    data = body.decode_json()
    if isinstance(data, list):
        return read_items(KIND, clean_items(data), _read)
    fields = Fields(generic.decode_object(body))
    if not fields.has("specversion", "type") or not fields.has("source"):
        return [read_other(KIND, fields.value)]
    return [_read(fields)]


def _read_data(body: RequestBody) -> object:
    """Return the body of an event in headers: JSON if it is, else nothing that rules could read."""
    with suppress(BadBody):
        return check_payload({"data": body.decode_json()})["data"]
    return None


def _read(event: Fields) -> ParsedAlert:
    data = event.within("data")
    entity, named = data.text("entity_id"), (event.text("source"), event.text("subject"))
    if not entity and all(named):
        entity = join_entity(*named)
    subject = event.text("subject", "source")
    return build_alert(
        event.value,
        _read_level(event, data),
        message=data.text("message", "title", "summary") or f"{event.text('type')}: {subject}",
        summary=data.text("description", "summary"),
        entity=entity,
        links=[("Link", data.text("url"))],
        at=event.get("time"),
    )


def _read_level(event: Fields, data: Fields) -> Level:
    sent = data.text("alert_type", "severity", "level") or event.text("severity")
    return read_level(sent or _find_word(event.text("type"), ENDED), ENDED)


def _find_word(text: str, table: Mapping[str, AlertType]) -> str:
    """Return the last word of a type with dots if it is a level; else ""."""
    word = text.rpartition(".")[2].lower()
    return word if word in table else ""
