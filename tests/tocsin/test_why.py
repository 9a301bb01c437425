"""`tocsin why` tells the story for a terminal and for machines."""

import json

import pytest
from click.testing import CliRunner

from models import recorder
from tests.alerts import accept
from tocsin.why import lines, why
from workers import road


@pytest.fixture
def receipt(world, now):
    receipt = accept(world, now, message="Disk full", alert_type="critical", entity_id="db1")
    road.run(world.service.id)
    return receipt


def test_it_tells_every_stage_the_incident_and_the_people(receipt):
    text = "\n".join(lines(recorder.story(recorder.receipt_of(receipt.trace_id))))

    assert "alert critical: Disk full  [db1]" in text
    assert "dedupe     its entity has no open incident" in text
    assert "opened incident #1" in text
    assert "Alice by Primary Email: named by step 1" in text


@pytest.fixture
def run(home, monkeypatch):
    monkeypatch.setenv("TOCSIN_HOME", str(home))
    return lambda *arguments: CliRunner().invoke(why, arguments)


def test_it_speaks_json_to_machines(receipt, run):
    result = run(receipt.trace_id, "--json")

    assert result.exit_code == 0
    assert json.loads(result.output)["incidents"][0]["incident_number"] == 1


def test_an_unknown_trace_id_is_one_clear_line(world, run):
    result = run("00000000-0000-4000-8000-999999999999")

    assert result.exit_code == 1
    assert result.output.startswith("no alert with the trace_id")
