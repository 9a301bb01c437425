"""The generic body of the event operations: contract section 3.9."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from models.domain.enums import AlertType
from models.domain.reasons import Reason, make_reason
from models.domain.values import replace
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.body import BadBody, RequestBody, check_payload
from pipeline.sources.reading.cleaning import clean_entity_id, clean_line, clean_text, clean_url
from pipeline.sources.reading.levels import LEVEL_FIELDS, PRIORITY, STATE_FIELDS, assume_level

EXTENSION = "generic"

T = TypeVar("T")
# A link, an image or a note, as its text or as an object.
Item = str | Mapping[str, object]

OPTION_FIELDS = ("sla", "escalation_policy", "priority", "tags", "stakeholders")


class Body(msgspec.Struct):
    message: str | msgspec.UnsetType = msgspec.UNSET
    summary: str | None = None
    alert_type: str | int | None = None
    suppressed: bool | None = None
    entity_id: str | int | None = None
    # Some clients send "" for an empty value, and no alert is refused because of that.
    payload: dict[str, Any] | str | None = None
    urls: list[str | dict[str, Any] | None] | str | None = None
    images: list[str | dict[str, Any] | None] | str | None = None
    notes: list[str | dict[str, Any] | None] | str | None = None
    sla: Any = None
    escalation_policy: Any = None
    priority: Any = None
    tags: Any = None
    stakeholders: Any = None
    stakeholder_comms: Any = None
    stakeholders_comms: Any = None
    # Names of other forms, for fields that are missing above.
    title: Any = None
    severity: Any = None
    level: Any = None
    status: Any = None
    state: Any = None


_DECODER = msgspec.json.Decoder(Body, strict=False)


# Of a request by GET, one of these must be there.
KNOWN_FIELDS = frozenset((
    "message", "title", "summary", "alert_type", "entity_id", *LEVEL_FIELDS, *STATE_FIELDS,
))  # fmt: skip
NO_FIELD = "must have the field message"


def parse(body: RequestBody) -> list[ParsedAlert]:
    """Return the one alert of a body.

    Without a message, the title of other forms counts; without a level, their words for it. `body.assumed`
    says so. A missing level is info (contract 4.1, row 10). An empty message is refused.
    """
    data = body.decode(_DECODER)
    title = data.title if data.message is msgspec.UNSET and isinstance(data.title, str) else None
    remarks = [] if title is None else [make_reason("message_assumed", field="title")]
    assumed = None
    if data.alert_type is None or data.alert_type == "":
        # With a message, `priority` names a priority of the team.
        others = {name: getattr(data, name) for name in _OTHER_LEVELS}
        assumed = assume_level(others, with_priority=title is not None)
    if assumed is not None:
        remarks.append(make_reason("level_assumed", field=assumed[0], level=assumed[1].name.lower()))
    body.assumed = tuple(remarks)
    alert = _build(data, data.message if title is None else title)
    if not remarks:
        return [alert]
    level = alert.alert_type if assumed is None else assumed[1]
    is_default = alert.has_default_level and assumed is None
    return [replace(alert, alert_type=level, has_default_level=is_default, remarks=body.assumed)]


_OTHER_LEVELS = (*LEVEL_FIELDS, *STATE_FIELDS, PRIORITY)


def _build(data: Body, text: str | msgspec.UnsetType) -> ParsedAlert:
    """Return the alert of a body with this message. Raises BadBody."""
    if isinstance(text, msgspec.UnsetType):
        raise BadBody("", NO_FIELD)
    message = clean_line(text)
    if not message:
        raise BadBody("message", "may not be blank")
    entity_id = clean_entity_id("" if data.entity_id is None else str(data.entity_id))
    return ParsedAlert(
        message=message,
        summary=clean_text(data.summary or ""),
        alert_type=parse_level(data.alert_type),
        entity_id=entity_id or None,
        payload=check_payload(_check_not_text("payload", data.payload) or {}),
        urls=tuple(link for link in map(_parse_url, _list_items("urls", data.urls)) if link),
        images=tuple(link for link in map(_parse_image, _list_items("images", data.images)) if link),
        notes=tuple(map(_parse_note, _list_items("notes", data.notes))),
        suppressed=bool(data.suppressed),
        has_default_level=data.alert_type is None or data.alert_type == "",
        requested_options=_get_options(data),
    )


def _check_not_text(field: str, data: T | str | None) -> T | None:
    if isinstance(data, str) and data.strip():
        raise BadBody(field, "may not be text")
    return None if isinstance(data, str) else data


def _list_items(field: str, data: Sequence[Item | None] | str | None) -> Sequence[Item]:
    if not data:
        return ()
    items: Sequence[Item | None] | None = _check_not_text(field, data)
    return [one for one in items or [] if one is not None]


_OBJECT = msgspec.json.Decoder(dict[str, Any], strict=False)

NO_MESSAGE = "alert without a message"


def decode_object(body: RequestBody) -> Mapping[str, object]:
    """Return any JSON object, ready to store. Raises BadBody for anything else."""
    body.decode_json()
    data: dict[str, object] = body.decode(_OBJECT)
    return check_payload(data, "body")


def parse_any(body: RequestBody) -> ParsedAlert:
    """Return any JSON object as an alert: as `parse` reads it, or else by the field names that most tools
    use.

    If the body has no payload, the payload is the whole body, so that rules can use it. Raises BadBody if the
    body is not an object.
    """
    data = decode_object(body)
    try:
        (parsed,) = parse(body)
    except BadBody:
        return build_other(data, _find_text(data, *_TITLES) or NO_MESSAGE)
    return parsed if parsed.payload else replace(parsed, payload=data)


# The names of a title in most tools.
_TITLES = ("message", "title", "subject", "name")


def read(data: Mapping[str, object]) -> ParsedAlert | None:
    """Return an object in the generic form as an alert; None: it does not have this form.

    Nothing is assumed. Without a payload of its own, its payload is the whole object.
    """
    try:
        decoded = RequestBody(msgspec.json.encode(data)).decode(_DECODER)
        parsed = _build(decoded, decoded.message)
    except BadBody:
        return None
    return parsed if parsed.payload else replace(parsed, payload=data)


def build_other(data: Mapping[str, object], title: str, remark: Reason | None = None) -> ParsedAlert:
    """Return an object in another form as an alert with this title. Its level is info, or its alert_type."""
    entity_id = data.get("entity_id")
    known = isinstance(entity_id, str | int) and not isinstance(entity_id, bool)
    level = _find_level(data.get("alert_type"))
    return ParsedAlert(
        message=title,
        summary=clean_text(_find_text(data, "summary", "description", "text", "body")),
        alert_type=AlertType.INFO if level is None else level,
        has_default_level=level is None,
        entity_id=(clean_entity_id(str(entity_id)) or None) if known else None,
        payload=data,
        suppressed=data.get("suppressed") is True,
        remarks=() if remark is None else (remark,),
    )


def _find_level(data: object) -> AlertType | None:
    """Return a level; None: there is none, or it is unknown."""
    try:
        return parse_level(data) if data != "" and isinstance(data, str | int) else None
    except BadBody:
        return None


def parse_level(data: str | int | None) -> AlertType:
    """Return the level for a name in any case or for the digits used in responses. None and "" mean info."""
    if data is None or data == "":
        return AlertType.INFO
    text = str(data).strip()
    try:
        return AlertType(int(text)) if text.isdecimal() else AlertType[text.upper()]
    except (KeyError, ValueError):
        names = ", ".join(kind.name.lower() for kind in AlertType)
        raise BadBody("alert_type", f"must be one of {names}") from None


def _find_text(data: Mapping[str, object], *names: str) -> str:
    for name in names:
        text = data.get(name)
        if isinstance(text, str):
            return clean_line(text)
    return ""


def _parse_url(data: Item) -> dict[str, str] | None:
    item = {"link_url": data, "link_text": data} if isinstance(data, str) else data
    url = clean_url(str(item.get("link_url") or ""))
    return (url and {"link_url": url, "link_text": _find_text(item, "link_text") or url}) or None


def _parse_image(data: Item) -> dict[str, str] | None:
    item = {"image_src": data} if isinstance(data, str) else data
    source = clean_url(str(item.get("image_src") or item.get("image_url") or ""))
    if not source:
        return None
    target = clean_url(str(item.get("image_url") or "")) or source
    return {"image_src": source, "image_url": target, "image_text": _find_text(item, "image_text")}


def _parse_note(data: Item) -> dict[str, str]:
    item = {"note_text": data} if isinstance(data, str) else data
    return {"note_title": _find_text(item, "note_title"), "note_text": _find_text(item, "note_text")}


_get_option_values = attrgetter(*OPTION_FIELDS, "stakeholder_comms", "stakeholders_comms")
_NO_OPTIONS = (None,) * (len(OPTION_FIELDS) + 2)


def _get_options(data: Body) -> dict[str, object]:
    values = _get_option_values(data)
    if values == _NO_OPTIONS:
        # Most alerts request nothing.
        return {}
    *others, comms, comms_by_other_name = values
    options = dict(
        zip((*OPTION_FIELDS, "stakeholder_comms"), (*others, comms or comms_by_other_name), strict=True)
    )
    present = {name: value for name, value in options.items() if value not in (None, "", [], {})}
    return check_payload(present, "requested_options")
