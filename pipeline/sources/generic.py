"""The generic body of the event operations: contract section 3.9."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from models.enums import AlertType
from pipeline.alert import Parsed
from pipeline.sources.body import BadBody, decode, payload_of
from pipeline.sources.cleaning import clean_entity_id, clean_line, clean_text, clean_url

EXTENSION = "generic"

WISHES = ("sla", "escalation_policy", "priority", "tags", "stakeholders")


class Body(msgspec.Struct):
    message: str
    summary: str | None = None
    alert_type: str | int | None = None
    suppressed: bool | None = None
    entity_id: str | int | None = None
    # "" is what some clients send for nothing, and no page is refused for it.
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


_DECODER = msgspec.json.Decoder(Body, strict=False)


def parse(body: bytes) -> list[Parsed]:
    """One alert a body. A missing level is info (contract 4.1, row 10); a blank message is refused."""
    said = decode(body, _DECODER)
    message = clean_line(said.message)
    if not message:
        raise BadBody("message", "may not be blank")
    entity_id = clean_entity_id("" if said.entity_id is None else str(said.entity_id))
    return [
        Parsed(
            message=message,
            summary=clean_text(said.summary or ""),
            alert_type=level(said.alert_type),
            entity_id=entity_id or None,
            payload=payload_of(_whole("payload", said.payload) or {}),
            urls=tuple(link for link in map(_url, _several("urls", said.urls)) if link),
            images=tuple(link for link in map(_image, _several("images", said.images)) if link),
            notes=tuple(map(_note, _several("notes", said.notes))),
            suppressed=bool(said.suppressed),
            wishes=_wishes(said),
        )
    ]


def _whole(field: str, said: Any) -> Any:
    if isinstance(said, str) and said.strip():
        raise BadBody(field, "may not be text")
    return None if isinstance(said, str) else said


def _several(field: str, said: Any) -> list[Any]:
    return [one for one in _whole(field, said) or [] if one is not None]


_OBJECT = msgspec.json.Decoder(dict[str, Any], strict=False)

NO_MESSAGE = "alert without a message"


def posted(body: bytes) -> Mapping[str, Any]:
    """Any JSON object, made fit to keep. BadBody for anything else."""
    return dict(payload_of(decode(body, _OBJECT), "body"))


def any_form(body: bytes) -> Parsed:
    """Any JSON object as an alert: as `parse` reads it, else by the names that most tools use.

    The payload is the whole body, unless it has one in it, so that rules can make more of it. BadBody for
    what is no object.
    """
    said = posted(body)
    try:
        parsed = parse(body)[0]
    except BadBody:
        return _guessed(said)
    return parsed if parsed.payload else replace(parsed, payload=said)


def _guessed(said: Mapping[str, Any]) -> Parsed:
    entity_id = said.get("entity_id")
    known = isinstance(entity_id, str | int) and not isinstance(entity_id, bool)
    return Parsed(
        message=_text(said, "message", "title", "subject", "name") or NO_MESSAGE,
        summary=clean_text(_text(said, "summary", "description", "text", "body")),
        alert_type=_level_or_info(said.get("alert_type")),
        entity_id=(clean_entity_id(str(entity_id)) or None) if known else None,
        payload=said,
        suppressed=said.get("suppressed") is True,
    )


def _level_or_info(said: Any) -> AlertType:
    try:
        return level(said if isinstance(said, str | int) else None)
    except BadBody:
        return AlertType.INFO


def level(said: str | int | None) -> AlertType:
    """Names in any case, or the digits of responses; nothing means info."""
    if said is None or said == "":
        return AlertType.INFO
    text = str(said).strip()
    try:
        return AlertType(int(text)) if text.isdecimal() else AlertType[text.upper()]
    except (KeyError, ValueError):
        names = ", ".join(kind.name.lower() for kind in AlertType)
        raise BadBody("alert_type", f"must be one of {names}") from None


def _text(said: Mapping[str, Any], *names: str) -> str:
    return next((clean_line(said[name]) for name in names if isinstance(said.get(name), str)), "")


def _url(said: str | dict[str, Any]) -> dict[str, str] | None:
    given = {"link_url": said, "link_text": said} if isinstance(said, str) else said
    url = clean_url(str(given.get("link_url") or ""))
    return (url and {"link_url": url, "link_text": _text(given, "link_text") or url}) or None


def _image(said: str | dict[str, Any]) -> dict[str, str] | None:
    given = {"image_src": said} if isinstance(said, str) else said
    source = clean_url(str(given.get("image_src") or given.get("image_url") or ""))
    if not source:
        return None
    target = clean_url(str(given.get("image_url") or "")) or source
    return {"image_src": source, "image_url": target, "image_text": _text(given, "image_text")}


def _note(said: str | dict[str, Any]) -> dict[str, str]:
    given = {"note_text": said} if isinstance(said, str) else said
    return {"note_title": _text(given, "note_title"), "note_text": _text(given, "note_text")}


def _wishes(said: Body) -> dict[str, Any]:
    wishes = {name: getattr(said, name) for name in WISHES}
    wishes["stakeholder_comms"] = said.stakeholder_comms or said.stakeholders_comms
    wanted = {name: value for name, value in wishes.items() if value not in (None, "", [], {})}
    return dict(payload_of(wanted, "wishes"))
