"""The requests of Opsgenie's Alert API: create, close, acknowledge, note, and changes of texts.

What a path says, the alias and the action, is stored in the body (`build_body`). The alias is the entity_id.
"""

from collections.abc import Mapping

import msgspec

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.body import BadBody, RequestBody
from pipeline.sources.reading.cleaning import clean_entity_id, clean_line, clean_text
from pipeline.sources.reading.fields import read_optional_level
from pipeline.sources.reading.generic import decode_object
from pipeline.sources.reading.values import Values, get_text

EXTENSION = "opsgenie"
CREATE = "create"

# No priority means critical: an alert without a level should not be missed.
PRIORITIES = {
    "p1": AlertType.CRITICAL,
    "p2": AlertType.ERROR,
    "p3": AlertType.WARNING,
    "p4": AlertType.INFO,
    "p5": AlertType.INFO,
}
# The actions of a path. None: the request changes no status; it belongs to the open incident of the alias.
ACTIONS: dict[str, AlertType | None] = {
    "close": AlertType.RESOLVED,
    # Nothing is deleted: the alert is over.
    "delete": AlertType.RESOLVED,
    "acknowledge": AlertType.ACKNOWLEDGED,
    "notes": None,
    "message": None,
    "description": None,
}
# The field that a request with this action must have.
REQUIRED = {"notes": "note", "message": "message", "description": "description"}


def build_body(action: str, alias: str, body: bytes) -> bytes:
    """Return the body to store for a request with its action and alias in the path. Raises BadBody."""
    sent = decode_object(RequestBody(body)) if body.strip() else {}
    return msgspec.json.encode({**sent, "action": action, "alias": alias})


def parse(body: RequestBody) -> list[ParsedAlert]:
    """Return the one alert of a request. Raises BadBody for a request that the API refuses too."""
    data = decode_object(body)
    action = get_text(data, "action").strip().lower() or CREATE
    if action not in (CREATE, *ACTIONS):
        raise BadBody("action", f"must be one of {', '.join((CREATE, *ACTIONS))}")
    return [_parse_creation(data) if action == CREATE else _parse_action(data, action)]


def get_alias(data: Values) -> str:
    return clean_entity_id(get_text(data, "alias"))


def _parse_creation(data: Values) -> ParsedAlert:
    message = clean_line(get_text(data, "message"))
    if not message:
        raise BadBody("message", "may not be blank")
    level = read_optional_level(get_text(data, "priority").strip(), PRIORITIES)
    return ParsedAlert(
        message=message,
        summary=clean_text(get_text(data, "description")),
        alert_type=level.alert_type,
        entity_id=get_alias(data) or None,
        payload=_remove_action(data),
        incident_note=clean_text(get_text(data, "note")),
        remarks=level.remarks,
        has_default_level=level.is_default,
    )


def _parse_action(data: Values, action: str) -> ParsedAlert:
    alias, level = get_alias(data), ACTIONS[action]
    if not alias:
        raise BadBody("alias", "may not be blank")
    field = REQUIRED.get(action)
    if field is not None and not get_text(data, field):
        raise BadBody(field, "may not be blank")
    return ParsedAlert(
        message=clean_line(get_text(data, "message") or f"{action} {alias}"),
        summary=clean_text(get_text(data, "description")),
        alert_type=AlertType.INFO if level is None else level,
        entity_id=alias,
        payload=_remove_action(data),
        incident_note=clean_text(get_text(data, "note")),
        is_comment=level is None,
    )


def _remove_action(data: Values) -> Mapping[str, object]:
    return {name: value for name, value in data.items() if name != "action"}
