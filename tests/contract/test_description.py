"""The served description tells the truth: what each operation really answers is what it declares."""

import re
from copy import deepcopy
from typing import Any

import pytest
from openapi_schema_validator import OAS31Validator

from tests.contract.operations import OPERATIONS
from tests.contract.test_operations import body_of, free, path_of, with_alert
from web.openapi import document
from web.routes import ROUTES

__all__ = ["with_alert"]


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    """The description, without the leeway of unnamed keys in its objects."""
    whole = deepcopy(document(ROUTES, "https://tocsin.example.org"))
    for schema in whole["components"]["schemas"].values():
        schema["additionalProperties"] = False
    return whole


def problems(described: dict[str, Any], schema: dict[str, Any], answer: Any) -> list[str]:
    whole = {**schema, "components": described["components"]}
    checker = OAS31Validator(whole, format_checker=OAS31Validator.FORMAT_CHECKER)
    return [f"{error.json_path}: {error.message[-200:]}" for error in checker.iter_errors(answer)]


@pytest.mark.usefixtures("with_alert")
@pytest.mark.parametrize("row", OPERATIONS, ids=lambda row: f"{row.method} {row.path}")
def test_answers_are_as_described(ask, stock, described, row):
    free(row, ask, stock)
    operation = described["paths"][re.sub("<([a-z_]+)>", r"{\1}", row.path)][row.method.lower()]

    answer = ask(row.method, path_of(row, stock), body_of(row, stock))

    content = operation["responses"][str(row.status)].get("content")
    if content is None:
        assert answer.data == b""
        return
    assert problems(described, content["application/json"]["schema"], answer.json) == []


# What is answered in another shape to published clients (contract 1.6).
FOR_CLIENTS = [
    row for row in OPERATIONS if row.client is not None or re.search("/(tags|priority)/", row.path)
]


@pytest.mark.usefixtures("with_alert")
@pytest.mark.parametrize("row", FOR_CLIENTS, ids=lambda row: f"{row.method} {row.path}")
def test_so_are_those_to_published_clients(ask, stock, described, row):
    operation = described["paths"][re.sub("<([a-z_]+)>", r"{\1}", row.path)][row.method.lower()]

    answer = ask(row.method, path_of(row, stock), body_of(row, stock), word="Token")

    if row.keys is not None:
        schema = operation["responses"][str(row.status)]["content"]["application/json"]["schema"]
        assert problems(described, schema, answer.json) == []


@pytest.mark.usefixtures("with_alert")
@pytest.mark.parametrize("path", ["/api/incidents/{incident}/", "/api/alert/status/{trace_id}/"])
def test_what_is_absent_is_as_described(ask, stock, described, path):
    nothing = {"sla": "", "team_priority": "", "escalation_policy": "", "assigned_to": ""}
    ask("PATCH", "/api/incidents/1/", nothing)
    schema = described["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]

    assert problems(described, schema, ask("GET", path.format(**stock.ids)).json) == []


@pytest.mark.parametrize("path", ["/api/nowhere/", "/api/account/teams/x/"])
def test_refusals_are_as_described(ask, described, path):
    refused = ask("GET", path).json

    assert problems(described, {"$ref": "#/components/schemas/Error"}, refused) == []
