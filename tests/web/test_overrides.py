"""Overrides one at a time: as the schedule has them, and no other way."""

import pytest

from models.schedules import ScheduleOverride
from web import overrides

START, END = "2026-03-06T09:00:00Z", "2026-03-06T11:00:00Z"


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """The limits have tests of their own."""
    monkeypatch.setattr(overrides.Overrides, "limits", ((1000, 1.0),))


@pytest.fixture
def schedule(ask, world) -> str:
    path = f"/api/account/teams/{world.team.unique_id}/schedules/"
    return ask("POST", path, {"name": "Nights"}).json["unique_id"]


@pytest.fixture
def path(world, schedule) -> str:
    return f"/api/v2/account/teams/{world.team.unique_id}/schedules/{schedule}/overrides/"


@pytest.fixture
def body(world) -> dict:
    return {"name": "Dentist", "user": world.bob.username, "start_time": START, "end_time": END}


def test_one_is_added_to_those_that_the_schedule_has(ask, path, body, world, schedule):
    first = ask("POST", path, body).json
    second = ask("POST", path, {**body, "name": ""}).json

    assert first == {**body, "unique_id": first["unique_id"]}
    assert second["name"] == "Override-2"
    within = ask("GET", f"/api/account/teams/{world.team.unique_id}/schedules/{schedule}/").json
    assert within["overrides"] == [first, second]
    assert ask("GET", path).json == [{**one, "overridden_details": {}} for one in (first, second)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"user": None}, {"user": ""}, {"user": "x"}, {"user": []}, {"user": "\x00"}, {"start_time": None},
        {"start_time": "x"}, {"start_time": 7}, {"end_time": START}, {"end_time": "2026-03-06T08:59:59Z"},
        {"end_time": "9999-12-31T23:59:59-12:00"}, {"name": {}}, {"name": "x" * 256},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_refused_leaves_nothing(ask, path, body, wrong):
    refused = ask("POST", path, {**body, **wrong}, word="Token")

    assert (refused.status_code, list(refused.json["errors"])) == (400, list(wrong))
    assert ScheduleOverride.select().count() == 0


@pytest.mark.parametrize("missing", ["user", "start_time", "end_time"])
def test_what_it_needs(ask, path, body, missing):
    del body[missing]

    assert ask("POST", path, body).status_code == 400


def test_nobody_of_another_account_and_nobody_who_left(ask, path, body, world, now):
    assert ask("POST", path, {**body, "user": world.mallory.username}).status_code == 400
    assert ask("POST", path, {**body, "user": world.charlie.username}).status_code == 201
    world.charlie.removed_at = now
    world.charlie.save()
    assert ask("POST", path, {**body, "user": world.charlie.username}).status_code == 400


def test_its_id_is_ours(ask, path, body):
    chosen = "0b6ae9a4-5c5e-4b9e-8a3a-3f6d1c2b4a59"

    assert ask("POST", path, {**body, "unique_id": chosen}).json["unique_id"] != chosen


def test_the_schedule_is_of_the_team_in_the_path(ask, path, body, world, schedule):
    others = path.replace(world.team.unique_id, world.charlies_team.unique_id)

    assert ask("GET", others).status_code == 404
    assert ask("POST", others, body).status_code == 404
    assert ask("GET", path.replace(schedule, "x")).status_code == 404


def test_there_is_an_end_to_them(ask, path, body, monkeypatch):
    monkeypatch.setattr(overrides, "MOST_OVERRIDES", 1)
    assert ask("POST", path, body).status_code == 201

    assert ask("POST", path, body).status_code == 400
