"""Priorities and SLAs."""

import pytest

from models.store.ids import make_uuid
from models.tables.services import Service
from models.tables.teams import Priority
from tests.support.offenders import list_offenders


@pytest.fixture
def slas(world) -> str:
    return f"/api/account/teams/{world.team.unique_id}/sla/"


@pytest.mark.parametrize("name", ["responder", "responders"])
def test_both_names_of_the_list_of_responders_are_accepted_and_answered(ask, slas, world, name):
    escalation = {"time": "-60", "type": 1, name: [{"user": world.bob.username}]}

    made = ask("POST", slas, {"escalations": [escalation]}).json["escalations"][0]

    assert (made["time"], made["type"]) == (-60, 1)
    assert [one["user"] for one in made["responders"]] == [world.bob.username]
    assert made["responder"] == made["responders"]


def test_ids_chosen_by_a_client_are_kept(ask, slas, world):
    ids = [make_uuid(), make_uuid()]
    responders = [{"user": world.bob.username, "unique_id": ids[1]}]
    escalation = {"unique_id": ids[0], "time": 60, "type": 2, "responders": responders}

    made = ask("POST", slas, {"escalations": [escalation]}).json["escalations"][0]

    assert [made["unique_id"], made["responders"][0]["unique_id"]] == ids


def test_a_duplicate_id_is_kept_only_for_the_first_escalation(ask, slas):
    twice = {"unique_id": make_uuid(), "time": 60, "type": 2}
    first, second = ask("POST", slas, {"escalations": [twice, twice]}).json["escalations"]

    assert first["unique_id"] == twice["unique_id"] != second["unique_id"]


def test_escalations_without_ids_keep_their_stored_ids(ask, slas):
    """An escalation that has notified of an incident must not notify again."""
    ids = [make_uuid(), make_uuid()]
    escalations_sent = [{"time": 60, "type": 2}, {"time": -60, "type": 1}]
    path = f"{slas}{ask('POST', slas, {'escalations': _with_ids(escalations_sent, ids)}).json['unique_id']}/"

    made = ask("PUT", path, {"escalations": [*escalations_sent, {"time": 60, "type": 2}]}).json["escalations"]
    assert [each["unique_id"] for each in made[:2]] == ids
    assert made[2]["unique_id"] not in ids

    (stored,) = ask("PATCH", path, {"escalations": [{**escalations_sent[0], "unique_id": ids[1]}]}).json[
        "escalations"
    ]
    assert stored["unique_id"] == ids[1]


def _with_ids(escalations, ids):
    return [{**each, "unique_id": one} for each, one in zip(escalations, ids, strict=True)]


@pytest.mark.parametrize("nothing", [None, "", []])
def test_an_sla_target_may_have_an_empty_list_of_escalations_but_needs_the_list(ask, slas, nothing):
    made = ask("POST", slas, {"name": "Gold", "escalations": nothing, "acknowledge_time": ""})

    assert (made.status_code, made.json["escalations"], made.json["acknowledge_time"]) == (201, [], None)
    assert (made.json["is_active"], made.json["conditions"]) == (True, "{}")
    assert ask("POST", slas, {"name": "Gold"}).status_code == 400


WRONG_SLAS = [
    {"acknowledge_time": -1}, {"resolve_time": 432_001}, {"escalations": [{"time": 1, "type": 3}]},
    {"escalations": [{"type": 1}]}, {"escalations": [{"time": 10**7, "type": 1}]}, {"escalations": {}},
    {"escalations": [{"time": 1, "type": 1, "responders": [{"user": ""}]}]}, {"is_active": 2},
    {"escalations": [{"time": 1, "type": 1, "responders": [{"user": "x", "unique_id": "x"}]}]},
]  # fmt: skip


def test_an_invalid_sla_is_refused(ask, slas):
    def check(wrong):
        assert ask("POST", slas, {"escalations": [], **wrong}).status_code == 400

    assert list_offenders(check, WRONG_SLAS, str) == []


def test_a_deletion_of_a_priority_removes_it_from_services(ask, world):
    path = f"/api/account/teams/{world.team.unique_id}/priority/"
    made = ask("POST", path, {"name": "P1"}).json["unique_id"]
    Service.update(team_priority=Priority.get()).execute()

    assert ask("DELETE", f"{path}{made}/").status_code == 204
    assert Service.get().team_priority_id is None


@pytest.mark.parametrize("nothing", [0, "0", "", None])
def test_an_sla_target_of_zero_seconds_is_none(ask, world, nothing):
    body = {"name": "x", "escalations": [], "acknowledge_time": nothing, "resolve_time": 60}

    made = ask("POST", f"/api/account/teams/{world.team.unique_id}/sla/", body)

    assert (made.json["acknowledge_time"], made.json["resolve_time"]) == (None, 60)
