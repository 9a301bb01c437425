"""The OpenAPI description, which is generated from the routes."""

import json
import re
from importlib.metadata import version
from typing import Any

import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.support.offenders import list_offenders
from web.http import permissions, xml
from web.http.openapi import descriptions, document, examples
from web.http.openapi.tags import TAGS
from web.routes import ROUTES

DOCUMENTED = [route for route in ROUTES if route.documented]
JSON, XML = "application/json", "application/xml"


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return document.document(ROUTES, "https://tocsin.example.org")


def operation(described: dict[str, Any], route: Any) -> dict[str, Any]:
    found: dict[str, Any] = described["paths"][re.sub("<([a-z_]+)>", r"{\1}", route.path)][
        route.method.lower()
    ]
    return found


def get_title(route: Any) -> str:
    return f"{route.method} {route.path}"


def test_the_description_is_public_and_valid(ask):
    served = ask("GET", "/api/openapi.json", who=None)

    assert (served.status_code, served.mimetype) == (200, JSON)
    OpenAPIV31SpecValidator(served.json).validate()


def test_the_description_has_the_version_of_the_program_and_that_of_the_interface(described):
    info = described["info"]

    assert (described["openapi"], info["version"]) == ("3.1.0", "1.1.0")
    assert info["x-tocsin-version"] == version("tocsin")
    assert "version 1.1.0 of the interface" in info["description"]


def test_the_description_has_the_scheme_of_the_interface(described):
    assert described["components"]["securitySchemes"]["bearerAuth"] == {"type": "http", "scheme": "bearer"}
    assert described["paths"]["/api/events/{integration_key}/"]["post"]["deprecated"] is True


def test_the_description_has_exactly_the_documented_operations(described):
    there = {(method, path) for path, methods in described["paths"].items() for method in methods}

    assert there == {
        (route.method.lower(), re.sub("<([a-z_]+)>", r"{\1}", route.path)) for route in DOCUMENTED
    }


def test_each_operation_describes_its_parameters_and_errors(described):
    def check(route: Any) -> None:
        operation_doc = operation(described, route)

        places = [one["name"] for one in operation_doc["parameters"] if one["in"] == "path"]
        assert places == re.findall("<([a-z_]+)>", route.path)
        assert all(one["description"] for one in operation_doc["parameters"])
        assert ("requestBody" in operation_doc) == (route.body is not None or route.doc_body is not None)
        refused = {int(status) for status in operation_doc["responses"]} - {route.status}
        assert refused >= ({400, 401, 403, 404, 503} if route.auth else {400, 404, 503})
        # Each operation with a token gets 429 after many invalid tokens of one address.
        assert (413 in refused, 429 in refused) == ("requestBody" in operation_doc, route.auth is not None)
        assert operation_doc["security"] == ([{"bearerAuth": []}] if route.auth else [])
        assert operation_doc["x-needs"] == route.permission
        assert operation_doc["description"]

    assert list_offenders(check, DOCUMENTED, get_title) == []


def test_an_operation_with_its_own_limit_is_one_with_a_token():
    """Else its 429 would not be declared."""
    limited = [r for r in DOCUMENTED if r.rate_limits or r.concurrency_limit or r.min_interval]

    assert limited
    assert all(route.auth for route in limited)


@pytest.mark.parametrize("name", ["Alert", "Event"])
def test_the_incident_of_an_alert_may_be_null(described, name):
    assert described["components"]["schemas"][name]["properties"]["incident"]["type"] == ["integer", "null"]


@pytest.mark.parametrize("name", ["PolicySummary", "OnCallTeam", "OnCallStep", "User"])
def test_texts_of_who_is_on_call_have_no_limit(described, name):
    """A summary of a policy may be much longer than a name."""
    fields = described["components"]["schemas"][name]["properties"].values()

    assert not any(limit in field for field in fields for limit in document.LIMITS)


def test_the_description_explains_permissions_in_words(described):
    operation_doc = {route.permission: operation(described, route)["description"] for route in DOCUMENTED}

    assert set(operation_doc) <= {"", *permissions.REQUIRED_ROLES, *permissions.ACCOUNT_PERMISSIONS}
    assert "Needs the permission `incident_write`" in operation_doc["incident_write"]
    assert operation_doc[permissions.ADMIN] == "Owners and admins may use this."


PAGED = (
    ("/api/incidents/filter/", "post"),
    ("/api/incidents/", "get"),
    ("/api/incidents/{incident}/note/", "get"),
    ("/api/incidents/{incident}/alerts/", "get"),
    ("/api/tocsin/incidents/{incident}/timeline/", "get"),
)


@pytest.mark.parametrize(("path", "method"), PAGED)
def test_lists_with_pages_describe_the_page_parameters(described, path, method):
    asked = {one["name"]: one["schema"] for one in described["paths"][path][method]["parameters"]}

    assert asked["page"]["minimum"] == 1
    assert (asked["page_size"]["maximum"], asked["page_size"]["default"]) == (100, 10)


@pytest.mark.parametrize("path", ["/api/incidents/{incident}/note/", "/api/incidents/{incident}/alerts/"])
def test_the_description_has_both_forms_of_a_list(described, path):
    answer = described["paths"][path]["get"]["responses"]["200"]

    array, page = answer["content"][JSON]["schema"]["oneOf"]
    assert array["type"] == "array"
    assert page["properties"]["results"]["items"] == array["items"]
    assert set(answer["content"][JSON]["examples"]) == {"List", "Page"}


def test_tags_and_priorities_name_their_team_in_two_ways(described):
    for schema in ("Tag", "Priority"):
        team = described["components"]["schemas"][schema]["properties"]["team"]
        assert [one["type"] for one in team["oneOf"]] == ["integer", "string"]


def test_every_route_has_a_tag_and_the_description_lists_all_tags(described):
    assert [get_title(route) for route in ROUTES if not route.tag.strip()] == []
    used = {get_title(route): operation(described, route)["tags"] for route in DOCUMENTED}

    assert used == {get_title(route): [route.tag] for route in DOCUMENTED}
    assert [tag["name"] for tag in described["tags"]] == sorted({route.tag for route in DOCUMENTED})


def test_each_tag_has_a_sentence(described):
    assert set(TAGS) == {tag["name"] for tag in described["tags"]}
    assert all(tag["description"].endswith(".") for tag in described["tags"])


def get_properties(described: dict[str, Any], schema: str) -> dict[str, Any]:
    found: dict[str, Any] = described["components"]["schemas"][schema]["properties"]
    return found


def test_an_alert_without_an_incident_is_described(described):
    assert "null" in get_properties(described, "Alert")["incident"]["type"]


@pytest.mark.parametrize("schema", ["PolicySummary", "OnCallTeam", "OnCallStep", "OnCallPolicy"])
def test_a_schema_of_responses_states_no_limits(described, schema):
    """The summary of a policy has up to 16 KiB, a name up to 255 characters."""
    stated = {key for value in get_properties(described, schema).values() for key in value}

    assert stated & set(document.LIMITS) == set()


def test_an_alert_states_no_longest_text(described):
    """Longer texts are truncated (docs/api.md, Limits)."""
    assert '"maxLength"' not in json.dumps(get_properties(described, "AlertBody"))


def test_a_link_of_an_alert_is_text_or_an_object(described):
    items = get_properties(described, "AlertBody")["urls"]["items"]

    assert [one["type"] for one in items["oneOf"]] == ["string", "object"]
    assert set(items["oneOf"][1]["properties"]) == {"link_url", "link_text"}


def test_a_schema_of_requests_states_limits(described):
    assert get_properties(described, "ServiceBody")["name"]["maxLength"] == 255


def test_a_request_has_no_fields_that_only_responses_have(described):
    body, response = get_properties(described, "ServiceBody"), get_properties(described, "Service")

    assert response.keys() - body.keys() == {"creation_date", "unique_id", "created_by", "team"}
    assert "maxLength" not in response["name"]


def test_a_schema_of_requests_names_the_required_fields_and_one_of_responses_all(described):
    schemas = described["components"]["schemas"]

    assert schemas["ServiceBody"]["required"] == ["escalation_policy", "sla", "team_priority"]
    assert schemas["Service"]["required"] == [*schemas["Service"]["properties"]]
    assert schemas["Error"]["required"] == ["detail"]


def test_the_schema_of_a_request_refers_to_schemas_of_requests(described):
    layers = get_properties(described, "ScheduleBody")["layers"]

    assert layers["items"]["allOf"] == [{"$ref": "#/components/schemas/LayerBody"}]


@pytest.mark.parametrize(
    ("path", "method", "required"),
    [
        ("/api/incidents/{incident}/", "put", False),
        ("/api/account/teams/", "post", True),
        ("/api/account/teams/{team_id}/", "patch", False),
        ("/api/incidents/filter/", "post", False),
    ],
)
def test_a_body_is_required_if_one_of_its_fields_is(described, path, method, required):
    """Clients send an empty body for no changes (contract 1.1)."""
    assert described["paths"][path][method]["requestBody"]["required"] is required


def test_a_reference_that_must_not_be_blank_is_not_null(described):
    contact = get_properties(described, "NotificationRuleBody")["contact"]

    assert (contact["type"], contact["minLength"], contact["maxLength"]) == ("string", 1, 64)


def test_a_text_that_must_not_be_blank_has_a_character(described):
    assert get_properties(described, "IncidentNoteBody")["note"]["minLength"] == 1
    assert get_properties(described, "IncidentChange")["title"]["minLength"] == 1


def test_formats_of_text_are_described(described):
    assert get_properties(described, "Schedule")["time_zone"]["format"] == "time-zone"
    assert get_properties(described, "AlertRule")["rule_json"]["format"] == "json-logic"
    assert re.fullmatch(get_properties(described, "Restriction")["start_time_of_day"]["pattern"], "9:00")


def test_each_list_says_what_its_items_are(described):
    def find(value, place=""):
        if isinstance(value, dict):
            if value.get("type") == "array" and "items" not in value:
                yield place
            for key, inner in value.items():
                yield from find(inner, f"{place}/{key}")

    assert list(find(described["components"]["schemas"])) == []


def test_the_form_of_lists_in_xml_is_described(described):
    layers = get_properties(described, "Schedule")["layers"]

    assert layers["xml"] == {"wrapped": True}
    assert layers["items"]["xml"] == {"name": "list-item"}


def test_the_types_of_query_parameters_are_described(described):
    def get_types(path: str) -> dict[str, Any]:
        return {one["name"]: one["schema"] for one in described["paths"][path]["get"]["parameters"]}

    assert get_types("/api/tocsin/calendar/")["months"]["type"] == "integer"
    at = get_types("/api/tocsin/schedules/{schedule_id}/oncall/")["at"]
    assert (at["type"], at["format"]) == ("string", "date-time")


def list_objects(value: Any, place: str = "") -> Any:
    """Yield the objects in a part of the description, each with its place."""
    if isinstance(value, dict):
        yield place, value
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from list_objects(inner, f"{place}/{key}")


def list_members(described: dict[str, Any]) -> Any:
    """Yield all properties, also those of nested objects, and all parameters: place, text and schema."""
    parts = {"paths": described["paths"], "schemas": described["components"]["schemas"]}
    for place, value in list_objects(parts):
        for name, schema in value.get("properties", {}).items():
            yield f"{place}/{name}", schema.get("description", ""), schema
        for parameter in value.get("parameters", ()):
            yield f"{place}/{parameter['name']}", parameter.get("description", ""), parameter["schema"]


def test_every_property_and_parameter_has_a_sentence(described):
    """That of its field, or that of its name (web/http/openapi/descriptions.py)."""
    mute = [place for place, text, _ in list_members(described) if not text.rstrip().endswith(".")]

    assert mute == []


def test_every_sentence_of_a_name_is_used(described):
    texts = [text for _, text, _ in list_members(described)]

    unused = [
        name
        for name, sentence in descriptions.SENTENCES.items()
        if not any(text.startswith(sentence) for text in texts)
    ]

    assert unused == []


def test_every_number_of_an_enumeration_has_a_name(described):
    unnamed = [
        f"{place}: {number}"
        for place, text, schema in list_members(described)
        for number in schema.get("enum", ())
        if isinstance(number, int) and not re.search(rf"(^| ){number} = \w", text)
    ]

    assert unnamed == []


def test_the_names_of_numbers_are_those_of_errors(described):
    contact_type = get_properties(described, "Contact")["contact_type"]

    assert "1 = e-mail, 2 = SMS, 3 = phone call" in contact_type["description"]
    assert get_properties(described, "Incident")["status"]["enum"] == [1, 2, 3]


def test_operation_ids_are_unique(described):
    names = [operation(described, route)["operationId"] for route in DOCUMENTED]

    assert len(names) == len(set(names))


def list_contents(operation_doc: dict[str, Any], described: dict[str, Any]) -> Any:
    """Yield the bodies and answers of an operation: (name, media type, schema, examples)."""
    bodies = {"body": operation_doc.get("requestBody", {}), **operation_doc["responses"]}
    for part_name, body in bodies.items():
        if "$ref" in body:
            body = described["components"]["responses"][body["$ref"].rpartition("/")[2]]
        for kind, content in body.get("content", {}).items():
            shown = [described["components"]["examples"][one["$ref"].rpartition("/")[2]]["value"]
                     for one in content.get("examples", {}).values()] or [content["example"]]  # fmt: skip
            yield part_name, kind, content["schema"], shown


def test_each_body_and_answer_has_a_valid_example(described):
    def check(route: Any) -> None:
        for part_name, kind, schema, shown in list_contents(operation(described, route), described):
            checker = OAS31Validator(
                {**schema, "components": described["components"]},
                format_checker=OAS31Validator.FORMAT_CHECKER,
            )
            assert shown, part_name
            for example in shown:
                if kind == XML:
                    assert xml.parse(example.encode())
                else:
                    assert [
                        f"{one.json_path}: {one.message}" for one in checker.iter_errors(example)
                    ] == [], part_name

    assert list_offenders(check, DOCUMENTED, get_title) == []


TAKING = {type(route.body): route.body for route in DOCUMENTED if route.body is not None}


def test_the_example_of_a_body_can_be_sent():
    def check(schema: Any) -> None:
        assert schema.load(examples.build_example(schema, for_request=True))

    assert list_offenders(check, TAKING.values(), lambda schema: type(schema).__name__) == []


def test_every_value_has_a_type(described):
    """Every field has a type, except the contents of a sender's payload."""
    free = {
        (name, field)
        for name, schema in described["components"]["schemas"].items()
        for field, operation_doc in schema.get("properties", {}).items()
        if not set(operation_doc) - {"description", "readOnly"}
    }

    assert free == set()
