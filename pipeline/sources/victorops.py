"""The alerts of the REST endpoint of VictorOps, today Splunk On-Call."""

from datetime import UTC, datetime

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.body import BadBody, RequestBody
from pipeline.sources.reading.cleaning import clean_entity_id, clean_line, clean_text
from pipeline.sources.reading.fields import read_level
from pipeline.sources.reading.generic import decode_object
from pipeline.sources.reading.values import Values, get_text

EXTENSION = "victorops"

TYPES = {
    "critical": AlertType.CRITICAL,
    "warning": AlertType.WARNING,
    "info": AlertType.INFO,
    "acknowledgement": AlertType.ACKNOWLEDGED,
    "acknowledgment": AlertType.ACKNOWLEDGED,
    "recovery": AlertType.RESOLVED,
    "ok": AlertType.RESOLVED,
}
# The times of later years have more digits than a number of seconds; they are milliseconds.
MAX_SECONDS = 10_000_000_000


def parse(body: RequestBody) -> list[ParsedAlert]:
    """Return the one alert of a body. Raises BadBody without a message_type: only this field is required.

    An unknown type is critical, since the sender wants to say something.
    """
    data = decode_object(body)
    kind = get_text(data, "message_type").strip().upper()
    if not kind:
        raise BadBody("message_type", "may not be blank")
    level = read_level(kind, TYPES)
    is_acknowledged = level.alert_type is AlertType.ACKNOWLEDGED
    entity_id = clean_entity_id(get_text(data, "entity_id"))
    name = clean_line(get_text(data, "entity_display_name", "entity_id"))
    return [
        ParsedAlert(
            message=name or clean_line(get_text(data, "state_message")) or f"{kind} alert",
            summary=clean_text(get_text(data, "state_message")),
            alert_type=level.alert_type,
            entity_id=entity_id or None,
            payload=data,
            source_at=_parse_seconds(data),
            remarks=level.remarks,
            has_default_level=level.is_default,
            incident_note=clean_text(get_text(data, "ack_msg")) if is_acknowledged else "",
        )
    ]


def _parse_seconds(data: Values) -> datetime | None:
    """Return the time of the change of state; the body has it in seconds since 1970."""
    try:
        seconds = float(get_text(data, "state_start_time"))
    except ValueError:
        return None
    return datetime.fromtimestamp(seconds, UTC) if 0 < seconds < MAX_SECONDS else None
