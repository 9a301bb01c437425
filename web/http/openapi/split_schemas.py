"""Give requests and answers schemas of their own, where one schema describes both.

A request has no fields that only answers have, and says which fields it must have. An answer always has all
of its fields.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy

Json = dict[str, object]
# The end of the name of a schema for requests, if answers have a schema of the same name.
SUFFIX = "Body"
REFERENCE = "#/components/schemas/"
# Fields that an answer has only sometimes, by schema and field; their descriptions say when.
MAY_BE_MISSING = frozenset(
    {
        "Accepted.assumed",
        "Accepted.incident",
        "Accepted.incident_created",
        "Difference.added",
        "Difference.after",
        "Difference.after_order",
        "Difference.before",
        "Difference.before_order",
        "Difference.element",
        "Difference.place",
        "Difference.removed",
        "Difference.secret",
        "Error.errors",
        "Event.assumed",
        "Event.payload",
        "Status.error",
    }
)


def split(description: Json) -> None:
    """Replace the schemas of a description that requests and answers share by two, in place."""
    components = _get_object(description, "components")
    schemas = _get_object(components, "schemas")
    bodies = list(_list_values(description["paths"], "requestBody"))
    responses = [*_list_values(description["paths"], "responses"), components.get("responses")]
    in_bodies, in_responses = find_schemas(bodies, schemas), find_schemas(responses, schemas)
    names = {name: f"{name}{SUFFIX}" for name in in_bodies & in_responses}
    assert schemas.keys().isdisjoint(names.values())
    schemas |= {new: deepcopy(schemas[old]) for old, new in names.items()}
    _rename(bodies, names)
    for name in in_bodies:
        schema = _get_object(schemas, names.get(name, name))
        _rename(schema, names)
        _remove(schema, "readOnly")
    for name in in_responses:
        schema = _get_object(schemas, name)
        _remove(schema, "writeOnly")
        fields = _get_object(schema, "properties")
        always = [field for field in fields if f"{name}.{field}" not in MAY_BE_MISSING]
        if always:
            schema["required"] = always


def find_schemas(within: object, schemas: Mapping[str, object]) -> set[str]:
    """Return the names of the schemas that a value refers to, directly or through other schemas."""
    found: set[str] = set()
    unread = [within]
    while unread:
        for value in list_objects(unread.pop()):
            name = str(value.get("$ref", "")).rpartition("/")[2]
            if name in schemas and name not in found:
                found.add(name)
                unread.append(schemas[name])
    return found


def list_objects(value: object) -> Iterator[Json]:
    """Yield a value and the values inside it, as far as they are objects."""
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from list_objects(inner)


def _list_values(paths: object, name: str) -> Iterator[object]:
    """Yield what the operations of all paths have under this name."""
    for operations in paths.values() if isinstance(paths, dict) else ():
        yield from (operation[name] for operation in operations.values() if name in operation)


def _get_object(within: Json, name: str) -> Json:
    """Return an inner object; an empty one if it is missing."""
    value = within.get(name, {})
    assert isinstance(value, dict)
    return value


def _rename(within: object, names: Mapping[str, str]) -> None:
    for value in list_objects(within):
        name = str(value.get("$ref", "")).removeprefix(REFERENCE)
        if name in names:
            value["$ref"] = f"{REFERENCE}{names[name]}"


def _remove(schema: Json, mark: str) -> None:
    """Remove the properties with this mark from a schema."""
    properties = _get_object(schema, "properties")
    for name in [name for name in properties if _get_object(properties, name).get(mark)]:
        del properties[name]
