"""Each operation answers with the status and exactly the keys of the contract, in both profiles."""

import re
from typing import Any

import pytest

from models.domain.identity import ALPHABET
from tests.support.contract.matrix import group_by_table, name, tried
from tests.support.contract.operations import ALERT, INCIDENT, INTEGRATION_OBJECT, NESTED, OPERATIONS, Row
from tests.support.contract.requests import build_body, free_policy, get_path, with_alert
from tests.support.offenders import list_offenders
from web.routes import ROUTES

__all__ = ["with_alert"]


WORDS = ("Bearer", "Token")


def test_each_served_operation_has_a_row():
    """Our own operations may have a row, too. The others have tests of their own."""
    served = {(route.method, route.path) for route in ROUTES if route.documented}
    of_the_contract = {each for each in served if not each[1].startswith("/api/tocsin/")}

    assert of_the_contract <= {(row.method, row.path) for row in OPERATIONS} <= served


@pytest.mark.usefixtures("with_alert")
@pytest.mark.parametrize("scheme", WORDS)
@pytest.mark.parametrize("rows", group_by_table(OPERATIONS))
def test_each_response_has_its_status_and_keys_and_is_as_described(ask, samples, described, rows, scheme):
    for row in rows:
        free_policy(row, ask, samples)

        answer = ask(row.method, get_path(row, samples), build_body(row, samples), scheme=scheme)

        assert answer.status_code == row.status, (name(row), answer.text)
        assert_number(row, answer)
        if row.keys is None:
            assert (answer.data, described.schema(row)) == (b"", None), name(row)
            continue
        assert_keys(row, answer.json, for_client=scheme == "Token")
        assert described.find_mismatches(described.schema(row), answer.json) == [], name(row)


def test_head_is_answered_as_get_where_get_only_reads(ask, samples):
    def check(row):
        path = get_path(row, samples)
        head, got = ask("HEAD", path), ask("GET", path)
        if row.path.endswith("heartbeat/<integration_key>/"):
            assert (head.status_code, "HEAD" in head.headers["Allow"]) == (405, False)
        else:
            assert (head.status_code, head.data) == (got.status_code, b"")
            assert head.headers["Content-Type"] == got.headers["Content-Type"]

    read = [row for row in tried(OPERATIONS) if row.method == "GET"]
    assert list_offenders(check, read, name) == []


def assert_number(row: Row, answer: Any) -> None:
    """Exactly answers with one object of the configuration have its number as their ETag."""
    has_number = re.fullmatch('"[1-9][0-9]*"', answer.headers.get("ETag", "")) is not None
    assert has_number == SERVED[row.method, row.path].is_numbered, name(row)


def assert_keys(row: Row, answer: Any, *, for_client: bool) -> None:
    paged = row.client is not None and for_client
    item = answer[0] if row.is_list and not paged else answer
    assert set(item) == (row.client if paged else row.keys), name(row)
    for place, inner in NESTED.get(row.noun, ()):
        assert set(get_at(item, place)) == inner, (name(row), place)


def get_at(value: Any, place: str) -> Any:
    for step in place.split("."):
        value = value[int(step) if step.isdigit() else step]
    return value


SERVED = {(route.method, route.path): route for route in ROUTES}
READ = {row.path for row in OPERATIONS if row.method == "GET" and not row.is_list}
UPDATES = [row for row in OPERATIONS if row.method in ("PUT", "PATCH") and row.path in READ]
# Values that every write changes.
DATED = {"updated_at", "expected_at", "is_missing"}
# Fields of an answer that depend on a reference in another field.
SHOWN_FIELDS = {"team_tag": {"tag_id", "name", "color"}}


@pytest.mark.parametrize("rows", group_by_table(UPDATES))
def test_an_update_keeps_missing_fields(ask, samples, rows):
    """PUT sends only the required fields, PATCH sends none."""
    for row in rows:
        path, taken = get_path(row, samples), SERVED[row.method, row.path].body.load_fields
        must = [field_name for field_name, field in taken.items() if field.required and row.method == "PUT"]
        required_values = {name: build_body(row, samples)[name] for name in must}
        before = ask("GET", path).json

        assert ask(row.method, path, required_values).status_code == 200, name(row)
        after = ask("GET", path).json

        shown = set().union(*(SHOWN_FIELDS.get(name, ()) for name in required_values))
        left = before.keys() - required_values.keys() - shown - DATED
        assert {name: after[name] for name in left} == {name: before[name] for name in left}, name(row)


def test_a_listed_incident_is_complete_and_names_its_parent(ask, samples):
    listed = ask("POST", "/api/incidents/filter/", {}).json["results"][0]
    plain = ask("GET", "/api/incidents/").json["results"][0]

    assert set(listed) == INCIDENT | {"is_child_incident"}
    assert set(plain) == (INCIDENT | {"is_child_incident"}) - {"team_priority_object"}


@pytest.mark.usefixtures("with_alert")
def test_alerts_come_as_an_array_or_as_a_page(ask):
    array = ask("GET", "/api/incidents/1/alerts/").json
    page = ask("GET", "/api/incidents/1/alerts/", scheme="Token").json

    assert page == {"count": 1, "next": None, "previous": None, "results": array}
    assert set(array[0]) == ALERT
    assert set(array[0]["integration_object"]) == INTEGRATION_OBJECT
    assert (array[0]["incident"], array[0]["alert_type"]) == (1, "3")


def test_the_team_of_a_priority_is_a_number_unless_a_client_reads_it(ask, samples):
    path = f"/api/account/teams/{samples.ids['team_id']}/priority/"

    assert isinstance(ask("GET", path).json[0]["team"], int)
    assert ask("GET", path, scheme="token").json[0]["team"] == samples.ids["team_id"]
    assert isinstance(ask("POST", path, samples.bodies["priority"], scheme="Token").json["team"], int)
    assert isinstance(ask("GET", path.replace("priority", "sla"), scheme="Token").json[0]["team"], int)


UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
SHORT = re.compile(f"[{ALPHABET}]{{22}}")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def test_ids_and_dates_are_in_the_clients_formats(ask, samples):
    read = [row for row in tried(OPERATIONS) if row.method == "GET"]
    wrong = [
        (row.path, named, value)
        for row in read
        for named, value in list_named_values(ask("GET", get_path(row, samples)).json)
        if not in_format(row, named, value)
    ]

    assert len(read) > 5
    assert wrong == []


def in_format(row: Row, named: Any, value: Any) -> bool:
    if named == "creation_date":
        return bool(MOMENT.fullmatch(value) or re.fullmatch(r"\d{4}-\d\d-\d\d", value))
    if named not in ("unique_id", "team", "service", "sla", "escalation_policy", "team_priority"):
        return True
    if value is None or isinstance(value, int):
        return True
    may_be_short = named == "unique_id" and re.search("/(incidents|postmortem|changes)/", row.path)
    return bool(UUID4.fullmatch(value) or (may_be_short and SHORT.fullmatch(value)))


def list_named_values(value: Any) -> Any:
    """Yield all named values of an answer, at every depth."""
    for named, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(inner, dict | list):
            yield from list_named_values(inner)
        else:
            yield named, inner
