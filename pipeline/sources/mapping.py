"""JSON of any program, whose fields the user of the integration declares.

A mapping names the path of each field in the body, such as `check.status`, and what the words of the level
mean. Without a mapping, the body is read in the generic form.
"""

from collections.abc import Mapping

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading import generic
from pipeline.sources.reading.body import RequestBody
from pipeline.sources.reading.fields import LEVELS, Fields, build_alert, join_entity, read_level

KIND = "json"

# What a mapping may name. `entity_id` may be several paths, which together name the problem.
PATHS = ("message", "summary", "alert_type", "url", "at")
ENTITY, LEVELS_FIELD = "entity_id", "levels"
MAX_ENTITY_PATHS, MAX_LEVELS, MAX_PATH = 5, 50, 200


def parse(body: RequestBody) -> list[ParsedAlert]:
    """Return the one alert of a JSON object, by the mapping of its integration. Raises BadBody."""
    mapping = body.setup.mapping
    if mapping is None:
        return [generic.parse_any(body)]
    return [read(mapping, generic.decode_object(body))]


def read(mapping: Mapping[str, object], data: Mapping[str, object]) -> ParsedAlert:
    """Return an object as an alert by this mapping."""
    fields = Fields(data)
    values = {name: fields.text(path) for name in PATHS if isinstance(path := mapping.get(name), str)}
    entity = mapping.get(ENTITY)
    paths = [path for path in entity if isinstance(path, str)] if isinstance(entity, list) else []
    at = mapping.get("at")
    return build_alert(
        data,
        read_level(values.get("alert_type", ""), _read_levels(mapping.get(LEVELS_FIELD))),
        message=values.get("message", ""),
        summary=values.get("summary", ""),
        entity=join_entity(*map(fields.text, paths)),
        links=[("Source", values.get("url", ""))],
        at=fields.get(at) if isinstance(at, str) else None,
    )


def _read_levels(declared: object) -> Mapping[str, AlertType]:
    """Return the declared words of levels, besides the words that tools usually send."""
    known = declared if isinstance(declared, dict) else {}
    own = {
        str(word).lower(): AlertType[str(level).upper()]
        for word, level in known.items()
        if str(level).upper() in AlertType.__members__
    }
    return {**LEVELS, **own}
