"""What the documentation page shows of an OpenAPI description."""

import shlex
from typing import Any

import orjson
import pytest

from tests.support.offenders import list_offenders
from web.http.openapi import document, outline
from web.http.openapi.outline import Field, Operation
from web.routes import ROUTES

URL = "https://tocsin.example.org"


def build_one(schema: dict[str, Any], example: Any = None, **schemas: Any) -> Operation:
    """Build the outline of one operation with this body, which it also answers with."""
    content = {"application/json": {"schema": schema, "examples": {"A": {"$ref": "#/components/examples/A"}}}}
    operation = {
        "operationId": "change_team",
        "summary": "Update some fields of a team",
        "description": "",
        "tags": ["Teams"],
        "parameters": [],
        "responses": {"200": {"description": "", "content": content}},
        "security": [{"bearerAuth": []}],
        "requestBody": {"content": content},
    }
    description = {
        "info": {"x-tocsin-version": "1", "description": ""},
        "tags": [{"name": "Teams"}],
        "paths": {"/teams/{team_id}/": {"patch": operation}},
        "components": {"schemas": schemas, "responses": {}, "examples": {"A": {"value": example}}},
    }
    (section,) = outline.build(orjson.dumps(description)).sections
    (built,) = section.operations
    return built


def build_field(schema: dict[str, Any], **schemas: Any) -> Field:
    (field,) = build_one({"type": "object", "properties": {"it": schema}}, **schemas).body
    return field


TEAM = {"$ref": "#/components/schemas/Team"}
UUID_TEXT = {"type": "string", "format": "uuid"}
TYPES = {
    "text": ({"type": "string"}, "string"),
    "format": (UUID_TEXT, "string (uuid)"),
    "or null": ({"type": ["string", "null"]}, "string or null"),
    "object": (TEAM, "object"),
    "object or null": ({"anyOf": [TEAM, {"type": "null"}]}, "object or null"),
    "one of two": ({"oneOf": [{"type": "integer"}, UUID_TEXT]}, "integer or string (uuid)"),
    "list": ({"type": "array", "items": UUID_TEXT}, "list of strings (uuid)"),
    "list of objects": ({"type": ["array", "null"], "items": {"allOf": [TEAM]}}, "list of objects or null"),
}


@pytest.mark.parametrize(("schema", "expected"), TYPES.values(), ids=TYPES)
def test_a_type_is_described(schema, expected):
    assert build_field(schema, Team={"type": "object"}).type == expected


LIMITS = {
    "none": ({"type": "string"}, ""),
    "length": ({"type": "string", "minLength": 1, "maxLength": 255}, "1 to 255 characters"),
    "longest": ({"type": "string", "maxLength": 16384}, "at most 16384 characters"),
    "shortest": ({"type": "string", "minLength": 1}, "at least 1 character"),
    "range": ({"type": "integer", "minimum": 0, "maximum": 3600}, "0 to 3600"),
    "items": ({"type": "array", "items": {"type": "string"}, "minItems": 2}, "at least 2 items"),
    "values": ({"type": "integer", "enum": [1, 2]}, "one of 1, 2"),
    "values with names": ({"type": "integer", "enum": [1, 2], "description": "1 = on, 2 = off."}, ""),
    "values of a list": ({"type": "array", "items": {"type": "string", "enum": ["a"]}}, "one of a"),
    "pattern": ({"type": "string", "pattern": "^a$"}, "pattern ^a$"),
}


@pytest.mark.parametrize(("schema", "expected"), LIMITS.values(), ids=LIMITS)
def test_the_limits_of_a_field_are_described(schema, expected):
    assert build_field(schema).limits == expected


def test_a_body_has_the_fields_that_may_be_sent_and_an_answer_those_that_are_returned():
    fields = {
        "unique_id": {"type": "string", "readOnly": True},
        "name": {"type": "string", "maxLength": 9},
        "secret": {"type": "string", "writeOnly": True},
    }
    operation = build_one({"type": "object", "required": ["name"], "properties": fields}, {"name": "Search"})

    assert [field.name for field in operation.body] == ["name", "secret"]
    assert [field.name for field in operation.answer] == ["unique_id", "name"]
    assert (operation.body[0].is_required, operation.answer[1].is_required) == (True, False)
    assert (operation.body[0].limits, operation.answer[1].limits) == ("at most 9 characters", "")
    assert operation.body[0].example == '"Search"'


def test_fields_of_objects_in_a_list_are_shown_with_their_examples():
    member = {"type": "object", "properties": {"role": {"type": "integer", "description": "1 = manager."}}}
    items = {"type": "array", "items": {"$ref": "#/components/schemas/Member"}}
    operation = build_one(
        {"type": "object", "properties": {"members": items}}, {"members": [{"role": 1}]}, Member=member
    )

    assert operation.body[0].fields == (Field("role", "integer", "1 = manager.", "", "1"),)
    assert operation.body[0].example == ""


def test_an_object_inside_itself_is_not_repeated():
    node = {"type": "object", "properties": {"inner": {"$ref": "#/components/schemas/Node"}}}

    (inner,) = build_one({"$ref": "#/components/schemas/Node"}, Node=node).body

    assert inner.fields == ()


def test_a_command_has_the_required_fields_and_variables_for_ids():
    fields = {"title": {"type": "string"}, "summary": {"type": "string"}}
    example = {"summary": "x", "title": "It's"}
    command = build_one({"type": "object", "required": ["title"], "properties": fields}, example).command

    assert command.startswith('curl -X PATCH "$URL/teams/$TEAM_ID/"')
    assert '-H "Authorization: Bearer $TOKEN"' in command
    assert shlex.split(command)[-1] == '{"title": "It\'s"}'


@pytest.mark.parametrize(
    ("example", "sent"),
    [({"summary": "x", "name": "A"}, '{"name": "A"}'), ({"summary": "x", "note": "y"}, '{"summary": "x"}')],
)
def test_a_command_without_required_fields_has_the_name_or_the_first_field(example, sent):
    fields = {name: {"type": "string"} for name in example}
    command = build_one({"type": "object", "properties": fields}, example).command

    assert shlex.split(command)[-1] == sent


@pytest.fixture(scope="module")
def commands() -> dict[str, list[str]]:
    """Return the words of the command of each operation."""
    built = outline.build(document.serialize(ROUTES, URL))
    return {
        operation.name: shlex.split(operation.command)
        for section in built.sections
        for operation in section.operations
    }


SENDING = [route for route in ROUTES if route.documented and (route.body or route.doc_body)]


def test_the_body_of_each_command_is_accepted(commands):
    def check(route: Any) -> None:
        schema = route.body or route.doc_body
        schema = type(schema)(partial=True) if route.method == "PATCH" else schema
        assert schema.load(orjson.loads(commands[route.name][-1]))

    assert list_offenders(check, SENDING, lambda route: route.name) == []


def test_only_operations_with_a_token_name_it(commands):
    with_token = {name for name, words in commands.items() if "Authorization: Bearer $TOKEN" in words}

    assert with_token == {route.name for route in ROUTES if route.documented and route.auth}
