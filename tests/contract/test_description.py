"""The description is also right for absent values and errors; test_operations.py compares other answers."""

import pytest

from tests.support.contract.operations import OPERATIONS
from tests.support.contract.requests import get_path, with_alert

__all__ = ["with_alert"]


READ = {row.path: row for row in OPERATIONS if row.method == "GET"}


@pytest.mark.usefixtures("with_alert")
@pytest.mark.parametrize("path", ["/api/incidents/<incident>/", "/api/alert/status/<trace_id>/"])
def test_absent_values_match_the_description(ask, samples, described, path):
    nothing = {"sla": "", "team_priority": "", "escalation_policy": "", "assigned_to": ""}
    ask("PATCH", "/api/incidents/1/", nothing)

    answer = ask("GET", get_path(READ[path], samples)).json

    assert described.find_mismatches(described.schema(READ[path]), answer) == []


@pytest.mark.parametrize("path", ["/api/nowhere/", "/api/account/teams/x/"])
def test_errors_match_the_description(ask, described, path):
    refused = ask("GET", path).json

    assert described.find_mismatches({"$ref": "#/components/schemas/Error"}, refused) == []
