"""The events of PagerDuty's Events API, version 2 (`routing_key`) and version 1 (`service_key`).

The keys of the two versions have different names, so a body shows its version. A trigger without a severity
is critical: version 1 has none, and there every trigger notifies people.
"""

from collections.abc import Iterator, Mapping

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.body import BadBody, RequestBody, parse_time
from pipeline.sources.reading.cleaning import clean_entity_id, clean_line
from pipeline.sources.reading.fields import Level, read_optional_level
from pipeline.sources.reading.generic import decode_object
from pipeline.sources.reading.values import (
    Values,
    build_image,
    build_link,
    get_object,
    get_text,
    list_objects,
)

EXTENSION = "pagerduty"
# The fields with the key of the integration. Alerts do not show them.
KEYS = ("routing_key", "service_key")

SEVERITIES = {
    "critical": AlertType.CRITICAL,
    "error": AlertType.ERROR,
    "warning": AlertType.WARNING,
    "info": AlertType.INFO,
}
# None: the severity decides.
ACTIONS: dict[str, AlertType | None] = {
    "trigger": None,
    "acknowledge": AlertType.ACKNOWLEDGED,
    "resolve": AlertType.RESOLVED,
}


def parse(body: RequestBody) -> list[ParsedAlert]:
    """Return the one alert of an event. Raises BadBody for an event that the API refuses too."""
    data = decode_object(body)
    return [_parse_version_1(data) if is_version_1(data) else _parse_version_2(data)]


def is_version_1(data: Values) -> bool:
    return "event_type" in data and not get_text(data, "event_action")


def get_key(data: Values) -> str:
    """Return the deduplication key of an event of either version; "" if the sender gave none."""
    return clean_entity_id(get_text(data, "incident_key" if is_version_1(data) else "dedup_key"))


def _parse_version_2(data: Values) -> ParsedAlert:
    action = _read_action(data, "event_action", "dedup_key")
    payload = get_object(data, "payload")
    summary = clean_line(get_text(payload, "summary"))
    if action is None and not summary:
        raise BadBody("payload.summary", "is missing or blank")
    level = (
        read_optional_level(get_text(payload, "severity").strip(), SEVERITIES) if action is None else action
    )
    return ParsedAlert(
        message=summary or _describe(data),
        summary=_describe_source(payload),
        alert_type=level.alert_type,
        entity_id=get_key(data) or None,
        payload=_remove_keys(data),
        urls=tuple(_list_links(data)),
        images=tuple(
            image
            for item in list_objects(data, "images")
            for image in build_image(get_text(item, "src"), get_text(item, "href"), get_text(item, "alt"))
        ),
        source_at=parse_time(payload.get("timestamp")),
        remarks=level.remarks,
        has_default_level=level.is_default,
    )


def _parse_version_1(data: Values) -> ParsedAlert:
    action = _read_action(data, "event_type", "incident_key")
    description = clean_line(get_text(data, "description"))
    if action is None and not description:
        raise BadBody("description", "is missing or blank")
    contexts = list(list_objects(data, "contexts"))
    level = read_optional_level("") if action is None else action
    return ParsedAlert(
        message=description or _describe(data),
        alert_type=level.alert_type,
        has_default_level=level.is_default,
        entity_id=get_key(data) or None,
        payload=_remove_keys(data),
        urls=(
            *_list_links(data),
            *(link for one in contexts for link in build_link(get_text(one, "href"), get_text(one, "text"))),
        ),
        images=tuple(
            image
            for item in contexts
            for image in build_image(get_text(item, "src"), get_text(item, "href"), get_text(item, "text"))
        ),
    )


def _read_action(data: Values, field: str, key: str) -> Level | None:
    """Return the level that an action means; None: the severity decides. Raises BadBody."""
    name = get_text(data, field).strip().lower()
    if name not in ACTIONS:
        raise BadBody(field, f"must be one of {', '.join(ACTIONS)}")
    found = ACTIONS[name]
    if found is not None and not get_key(data):
        raise BadBody(key, f"is required to {name}")
    return None if found is None else Level(found)


def _describe(data: Values) -> str:
    return clean_line(f"{get_text(data, 'event_action', 'event_type').strip().lower()} {get_key(data)}")


def _describe_source(payload: Values) -> str:
    named = ((name, get_text(payload, name)) for name in ("source", "component", "group", "class"))
    return "\n".join(f"{name}: {clean_line(text)}" for name, text in named if text)


def _remove_keys(data: Values) -> Mapping[str, object]:
    return {name: value for name, value in data.items() if name not in KEYS}


def _list_links(data: Values) -> Iterator[Mapping[str, str]]:
    for item in list_objects(data, "links"):
        yield from build_link(get_text(item, "href"), get_text(item, "text"))
    yield from build_link(get_text(data, "client_url"), get_text(data, "client"))
