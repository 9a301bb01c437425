"""`tocsin note`, `snooze` and `reassign` change an incident, in the name of a user or of the command."""

import json

import pytest
from click.testing import CliRunner

from models.domain.enums import IncidentStatus
from models.reports import incident_timeline
from models.tables.incidents import Incident, IncidentNote
from tests.support.alerts import accept
from tests.support.stores import get_settings
from tocsin.cli import Commands
from workers.alerts import process_lane


@pytest.fixture
def run(home, world, now, monkeypatch, enqueued):
    """run("ack", "1"): run a command for the first of the two accounts, which has the incident #1."""
    for name, value in get_settings(home).items():
        monkeypatch.setenv(name, value)
    accept(world, now, message="db1 is full", alert_type="critical", entity_id="db1")
    process_lane.run(world.service.id)
    own = ("--account", world.account.account_identifier)
    return lambda *arguments, **environment: CliRunner().invoke(
        Commands(), [*arguments, *own], env=environment
    )


def get_incident():
    return Incident.get(Incident.incident_number == 1)


def list_sentences():
    return [str(entry["sentence"]) for entry in incident_timeline.build_timeline(get_incident())]


def test_a_note_is_in_the_name_of_a_user(run, world):
    done = run("note", "1", "restarted it", "--user", "bob@example.org", "--json")

    assert json.loads(done.stdout)["action"] == "noted"
    note = IncidentNote.get()
    assert (note.note, note.user) == ("restarted it", world.bob)


def test_a_note_without_an_author_is_refused(run):
    refused = run("note", "1", "restarted it")

    assert (refused.exit_code, "TOCSIN_USER" in refused.output) == (2, True)
    assert run("note", "1", "restarted it", TOCSIN_USER="bob@example.org").exit_code == 0


@pytest.mark.parametrize("text", [" ", "x" * 16_385])
def test_an_empty_or_long_note_is_refused(run, text):
    assert run("note", "1", text, "--user", "bob@example.org").exit_code == 2


def test_an_acknowledged_incident_is_snoozed(run):
    refused = run("snooze", "1", "2h")
    assert (refused.exit_code, "Only an acknowledged incident" in refused.output) == (1, True)

    run("ack", "1")
    assert run("snooze", "1", "2h").exit_code == 0
    assert get_incident().snoozed_till is not None
    assert run("snooze", "1", "31d").exit_code == 2


def test_an_incident_is_reassigned_to_a_person(run, world):
    done = run("reassign", "1", "--to", "bob@example.org")

    assert (done.exit_code, "is assigned to" in done.output) == (0, True)
    assert get_incident().assigned_to == world.bob


def test_an_incident_is_given_to_another_policy(run, world, now):
    refused = run("reassign", "1", "--policy", "Nights")

    assert (refused.exit_code, f"there are: {world.team.name}/{world.policy.name}" in refused.output) == (
        2,
        True,
    )
    assert run("reassign", "1", "--policy", world.policy.name).exit_code == 0
    assert run("reassign", "1").exit_code == 2


def test_an_acknowledgement_of_a_user_assigns_the_incident(run, world):
    Incident.update(assigned_to=None).execute()
    done = run("ack", "1", "--user", "bob@example.org", "--json")

    assert json.loads(done.stdout)["was_already"] is False
    assert (get_incident().status, get_incident().assigned_to) == (IncidentStatus.ACKNOWLEDGED, world.bob)


def test_my_incidents_are_those_assigned_to_me(run, world):
    def list_mine(*words, **environment):
        done = run("incidents", *words, "--json", **environment)
        return [row["incident_number"] for row in json.loads(done.stdout)["results"]]

    owner = get_incident().assigned_to.email
    assert list_mine("--mine", TOCSIN_USER=owner) == [1]
    assert list_mine("--mine", TOCSIN_USER="bob@example.org") == []
    assert list_mine("--user", owner) == [1]
    refused = run("incidents", "--mine")
    assert (refused.exit_code, "who are you?" in refused.output) == (2, True)
