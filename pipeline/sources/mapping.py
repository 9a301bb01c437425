"""JSON or a form of any program, whose fields the user of the integration declares.

A mapping names the path of each field in the body, such as `check.status`, and what the words of the level
mean. Several paths of the message are joined. A field can have a default for bodies without it, and all
alerts can have one level. Without a mapping, the body is read in the generic form.
"""

from collections.abc import Mapping

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading import generic
from pipeline.sources.reading.body import RequestBody
from pipeline.sources.reading.fields import (
    LEVELS,
    Fields,
    Level,
    build_alert,
    join_entity,
    read_level,
    to_text,
)

KIND = "json"

# What a mapping may name. `message` and `entity_id` may be several paths; those of entity_id together name
# the problem.
PATHS = ("message", "summary", "alert_type", "url", "at")
ENTITY, LEVELS_FIELD, FIXED_LEVEL, DEFAULTS = "entity_id", "levels", "level", "defaults"
# The fields that can have a default.
WITH_DEFAULT = ("message", "summary", "alert_type", "url", "entity_id")
MAX_ENTITY_PATHS, MAX_MESSAGE_PATHS, MAX_LEVELS, MAX_PATH, MAX_DEFAULT = 5, 5, 50, 200, 1_000
BETWEEN = ": "


def parse(body: RequestBody) -> list[ParsedAlert]:
    """Return the one alert of a JSON object, by the mapping of its integration. Raises BadBody."""
    mapping = body.setup.mapping
    if mapping is None:
        return [generic.parse_any(body)]
    return [read(mapping, generic.decode_object(body))]


def read(mapping: Mapping[str, object], data: Mapping[str, object]) -> ParsedAlert:
    """Return an object as an alert by this mapping."""
    at = mapping.get("at")
    declared = mapping.get(DEFAULTS)
    defaults = declared if isinstance(declared, dict) else {}

    def find(name: str) -> str:
        texts = (_get_text(data, path) for path in _list_paths(mapping.get(name)))
        return BETWEEN.join(filter(None, texts)) or to_text(defaults.get(name))

    entity = [_get_text(data, path) for path in _list_paths(mapping.get(ENTITY))]
    return build_alert(
        data,
        _find_level(mapping, find("alert_type")),
        message=find("message"),
        summary=find("summary"),
        entity=join_entity(*entity) or to_text(defaults.get(ENTITY)),
        links=[("Source", find("url"))],
        at=_get(data, at) if isinstance(at, str) else None,
    )


def has_known_field(mapping: Mapping[str, object], data: Mapping[str, object]) -> bool:
    """Return whether an object has a value at one of the paths of a mapping."""
    paths = [path for name in (*PATHS, ENTITY) for path in _list_paths(mapping.get(name))]
    return any(_get(data, path) is not None for path in paths)


def _list_paths(declared: object) -> list[str]:
    paths = declared if isinstance(declared, list) else [declared]
    return [path for path in paths if isinstance(path, str) and path]


def _get(data: Mapping[str, object], path: str) -> object:
    """Return the value at a path. A form has no objects: there, a name with dots is that of one field."""
    found = data.get(path)
    return Fields(data).get(path) if found is None else found


def _get_text(data: Mapping[str, object], path: str) -> str:
    return to_text(_get(data, path))


def _find_level(mapping: Mapping[str, object], sent: str) -> Level:
    """Return the level that all alerts have, or that of the word that was sent. An end stays an end."""
    words = _read_levels(mapping.get(LEVELS_FIELD))
    fixed = AlertType.__members__.get(str(mapping.get(FIXED_LEVEL)).upper())
    known = words.get(sent.lower())
    if fixed is None or known in (AlertType.RESOLVED, AlertType.ACKNOWLEDGED):
        return read_level(sent, words)
    return Level(fixed)


def _read_levels(declared: object) -> Mapping[str, AlertType]:
    """Return the declared words of levels, besides the words that tools usually send."""
    known = declared if isinstance(declared, dict) else {}
    own = {
        str(word).lower(): AlertType[str(level).upper()]
        for word, level in known.items()
        if str(level).upper() in AlertType.__members__
    }
    return {**LEVELS, **own}
