"""What the interface accepts although the description does not state it: contract sections 1.1, 1.6 and 1.8.

The description states what a client should send. `read_leniently` reads a value as the contract wants a
server to read it, so that the rest can be compared with the description.
"""

import re
from collections.abc import Mapping
from typing import Any

from pipeline.sources.reading.cleaning import clean_name

_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,18}\s*")
_FRACTION = re.compile(r"\s*[+-]?[0-9]+([.][0-9]+)?(e[+-]?[0-9]{1,2})?\s*")
# What marshmallow reads as true and false.
_TRUE = {"t", "T", "true", "True", "TRUE", "on", "On", "ON", "y", "Y", "yes", "Yes", "YES", "1", 1}
_FALSE = {"f", "F", "false", "False", "FALSE", "off", "Off", "OFF", "n", "N", "no", "No", "NO", "0", 0}

# The fields in which an object may stand for its id (contract 1.8).
_IDS = ("unique_id", "username")


def read_leniently(value: Any, schema: Any, components: Mapping[str, Any]) -> Any:
    """Return the value as a server reads it that follows the contract."""
    schema = resolve(schema, components)
    branches = schema.get("anyOf", ()) or schema.get("oneOf", ())
    if value in (None, "") and {resolve(each, components).get("type") for each in branches} == {
        "string",
        "array",
    }:
        # A text or several: none is an empty text.
        return ""
    for branch in branches:
        if resolve(branch, components).get("type") != "null":
            return read_leniently(value, branch | {"nullable": True}, components)
    types = schema.get("type", [])
    types = {types} if isinstance(types, str) else set(types)
    if "object" in types or "properties" in schema:
        return _read_object(value, schema, components)
    if "array" in types:
        return _read_array(value, schema, components)
    nullable = bool(schema.get("nullable")) or "null" in types
    return _read_scalar(value, types, nullable=nullable, minimum=schema.get("minimum", 0))


def resolve(schema: Any, components: Mapping[str, Any]) -> dict[str, Any]:
    """Follow the reference of a schema, if it is one. Keep what stands beside the reference."""
    if not isinstance(schema, dict):
        return {}
    if "$ref" in schema:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return resolve(components[schema["$ref"].rpartition("/")[2]], components) | beside
    if "allOf" in schema and len(schema["allOf"]) == 1:
        beside = {key: value for key, value in schema.items() if key != "allOf"}
        return resolve(schema["allOf"][0], components) | beside
    return schema


def _read_object(value: Any, schema: Mapping[str, Any], components: Mapping[str, Any]) -> Any:
    if value == "":
        return None
    if not isinstance(value, dict):
        return value
    read = {}
    for name, inner in value.items():
        described = schema.get("properties", {}).get(name)
        # Unknown and read-only members are ignored, and chosen ids that cannot be used (contract 3).
        if described is None or name == "unique_id" or resolve(described, components).get("readOnly"):
            continue
        read[name] = read_leniently(inner, described, components)
    return read


def _read_array(value: Any, schema: Mapping[str, Any], components: Mapping[str, Any]) -> Any:
    if value in (None, ""):
        return []
    if not isinstance(value, list):
        return value
    return [read_leniently(item, schema.get("items", {}), components) for item in value]


def _read_scalar(value: Any, types: set[str], *, nullable: bool, minimum: float) -> Any:
    if nullable and isinstance(value, str) and not value.strip():
        return None
    if "boolean" in types and isinstance(value, str | int | float):
        return True if value in _TRUE else False if value in _FALSE else value
    if "integer" in types:
        number = _read_number(value)
        # The published clients send 0 for no number.
        return None if nullable and number == 0 < minimum else number
    if "number" in types and isinstance(value, str) and _FRACTION.fullmatch(value):
        return float(value)
    if "string" in types:
        return _read_text(value, nullable=nullable)
    return value


def _read_number(value: Any) -> Any:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _read_text(value: Any, *, nullable: bool) -> Any:
    if value is None and not nullable:
        return ""
    if isinstance(value, dict):
        return next((value[name] for name in _IDS if name in value), value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    # Characters that cannot be shown do not count.
    return clean_name(value).strip() if isinstance(value, str) else value
