"""Overrides as single objects: the same rules as for the list of the schedule."""

from datetime import UTC, datetime

import pytest

from models.tables.schedules import Schedule, ScheduleOverride
from tests.support.offenders import list_offenders
from tests.support.schedules import stored
from web.oncall import overrides

START, END = "2026-03-06T09:00:00Z", "2026-03-06T11:00:00Z"


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """Remove the request limits, which have their own tests."""
    monkeypatch.setattr(overrides.Overrides, "rate_limits", ((1000, 1.0),))


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


def test_an_override_is_added_to_those_of_the_schedule(ask, path, body, world, schedule):
    first = ask("POST", path, body).json
    second = ask("POST", path, {**body, "name": ""}).json

    assert first == {**body, "unique_id": first["unique_id"]}
    assert second["name"] == "Override-2"
    within = ask("GET", f"/api/account/teams/{world.team.unique_id}/schedules/{schedule}/").json
    assert within["overrides"] == [first, second]
    assert ask("GET", path).json == [{**one, "overridden_details": {}} for one in (first, second)]


WRONG_OVERRIDES = [
    {"user": None}, {"user": ""}, {"user": "x"}, {"user": []}, {"user": "\x00"}, {"start_time": None},
    {"start_time": "x"}, {"start_time": 7}, {"end_time": START}, {"end_time": "2026-03-06T08:59:59Z"},
    {"end_time": "9999-12-31T23:59:59-12:00"}, {"name": {}}, {"name": "x" * 256},
]  # fmt: skip


def test_a_refused_override_is_not_stored(ask, path, body):
    def check(wrong):
        refused = ask("POST", path, {**body, **wrong}, scheme="Token")

        assert (refused.status_code, list(refused.json["errors"])) == (400, list(wrong))
        assert ScheduleOverride.select().count() == 0

    assert list_offenders(check, WRONG_OVERRIDES, str) == []


@pytest.mark.parametrize("missing", ["user", "start_time", "end_time"])
def test_an_override_without_a_required_field_is_refused(ask, path, body, missing):
    del body[missing]

    assert ask("POST", path, body).status_code == 400


def test_people_of_another_account_and_removed_users_are_refused(ask, path, body, world, now):
    assert ask("POST", path, {**body, "user": world.mallory.username}).status_code == 400
    assert ask("POST", path, {**body, "user": world.charlie.username}).status_code == 201
    world.charlie.removed_at = now
    world.charlie.save()
    assert ask("POST", path, {**body, "user": world.charlie.username}).status_code == 400


def test_an_id_from_the_client_is_ignored(ask, path, body):
    chosen = "0b6ae9a4-5c5e-4b9e-8a3a-3f6d1c2b4a59"

    assert ask("POST", path, {**body, "unique_id": chosen}).json["unique_id"] != chosen


def test_a_schedule_is_found_only_under_its_team(ask, path, body, world, schedule):
    other_team_path = path.replace(world.team.unique_id, world.charlies_team.unique_id)

    assert ask("GET", other_team_path).status_code == 404
    assert ask("POST", other_team_path, body).status_code == 404
    assert ask("GET", path.replace(schedule, "x")).status_code == 404


def test_the_number_of_overrides_is_limited(ask, path, body, monkeypatch):
    monkeypatch.setattr(overrides, "MAX_OVERRIDES", 1)
    assert ask("POST", path, body).status_code == 201

    assert ask("POST", path, body).status_code == 400


def list_spans(*hours):
    """Return spans of the day of the overrides in the form of answers."""
    times = [int(datetime(2026, 3, 6, hour, tzinfo=UTC).timestamp()) for hour in hours]
    return [
        {"start_time": start, "end_time": end} for start, end in zip(times[::2], times[1::2], strict=True)
    ]


def test_an_override_lists_the_people_that_it_replaces_and_when(ask, path, body, world, schedule):
    start = datetime(2026, 3, 6, 10, tzinfo=UTC)
    rotation = [stored.layer(world.alice, world.bob, start=start, shift_length=3600), stored.layer(world.bob)]
    Schedule.update(layers=rotation).where(Schedule.unique_id == schedule).execute()

    ask("POST", path, {**body, "user": world.charlie.username, "end_time": "2026-03-06T13:00:00Z"})
    ask("POST", path, {**body, "start_time": "2026-03-06T12:00:00Z", "end_time": "2026-03-06T14:00:00Z"})

    first, second = ask("GET", path).json
    assert first["overridden_details"] == {
        world.alice.username: list_spans(10, 11, 12, 13), world.bob.username: list_spans(9, 12),
    }  # fmt: skip
    assert second["overridden_details"] == {world.alice.username: list_spans(12, 13)}


def test_a_very_long_override_lists_only_the_first_spans(ask, path, body, world, schedule):
    start = datetime(2026, 3, 6, 9, tzinfo=UTC)
    hourly = stored.layer(world.alice, world.charlie, start=start, shift_length=3600)
    Schedule.update(layers=[hourly]).where(Schedule.unique_id == schedule).execute()
    ask("POST", path, {**body, "end_time": "9999-12-31T00:00:00Z"})

    (shown,) = ask("GET", path).json
    assert {name: len(spans) for name, spans in shown["overridden_details"].items()} == {
        world.alice.username: 500, world.charlie.username: 500,
    }  # fmt: skip


def test_a_longer_list_needs_no_more_queries(ask, path, body, world, schedule, statements):
    Schedule.update(layers=[stored.layer(world.alice)]).where(Schedule.unique_id == schedule).execute()

    def count():
        with statements() as seen:
            assert ask("GET", path).status_code == 200
        return len(seen)

    ask("POST", path, body)
    count()
    query_count = count()
    for _ in range(20):
        ask("POST", path, body)

    assert count() == query_count
