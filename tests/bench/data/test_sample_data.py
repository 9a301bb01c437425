"""The questions of `make bench-lists` get the expected answers."""

import pytest

from bench.data.sample_data import ALERTS, NOTES, write_sample_data
from bench.lists import QUESTIONS
from models.tables.events import Event
from models.tables.incidents import Incident, IncidentNote
from runtime.settings import load
from tests.support.web.apps import get_app

INCIDENTS = 600


@pytest.fixture
def data(world):
    return write_sample_data(INCIDENTS, world.account.account_identifier)


def test_each_question_finds_its_rows(world, data, home):
    client = get_app(load({"TOCSIN_HOME": str(home)})).test_client()
    found = {}
    for question in QUESTIONS:
        path, body = question.build_request(data, 0)
        word, token = ("Token" if question.client else "Bearer"), world.tokens["alice"]
        headers = {"Authorization": f"{word} {data.member_token if question.as_member else token}"}
        answer = client.open(path, method="GET" if body is None else "POST", json=body, headers=headers)
        assert answer.status_code == 200, question.name
        found[question.name] = answer.json.get("results") if isinstance(answer.json, dict) else answer.json

    nothing = {name for name, rows in found.items() if rows == []}
    assert {"filter: with a postmortem", "filter: finds nothing"} <= nothing
    assert len(found["filter: all, last page of 100"]) == 100
    assert {row["service_object"]["team"] for row in found["member: all"]} <= {
        team.unique_id for team in data.teams[::10]
    }


def test_the_sample_data_has_the_requested_size(world, data):
    assert Incident.select().count() == INCIDENTS
    assert Event.select().count() == INCIDENTS + ALERTS
    assert IncidentNote.select().count() == NOTES
