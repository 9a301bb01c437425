"""The status of a service inside a maintenance window."""

from datetime import UTC, datetime, timedelta

import pytest

from models.domain.enums import WorkState
from models.tables.changes import Change
from models.tables.events import Event
from models.tables.services import Service
from tests.support.alerts import accept
from workers.alerts import process_lane
from workers.periodic import release_maintenance

HOUR = timedelta(hours=1)
STORED = {"under_maintenance": False, "status": 1}
INSIDE = {"under_maintenance": True, "status": 4}


@pytest.fixture
def team(world) -> str:
    return f"/api/account/teams/{world.team.unique_id}"


@pytest.fixture
def service(team, world) -> str:
    return f"{team}/services/{world.service.unique_id}/"


@pytest.fixture
def window(ask, team, world):
    """window(start, end): the path of a new window; all times, also `repeat_until`, are hours from now."""

    def create(start=-1, end=1, repeat_until=None, **more):
        now = datetime.now(UTC)
        times = {"start_time": start, "end_time": end, "repeat_until": repeat_until}
        hours_given = {name: hours for name, hours in times.items() if hours is not None}
        body = {name: (now + hours * HOUR).isoformat() for name, hours in hours_given.items()}
        answer = ask("POST", f"{team}/maintenance/", {**body, "services": [world.service.unique_id], **more})
        assert answer.status_code == 201
        return f"{team}/maintenance/{answer.json['unique_id']}/"

    return create


@pytest.fixture
def end(ask):
    """end(path): let a window that began an hour ago end half an hour ago."""

    def end(path):
        answer = ask("PATCH", path, {"end_time": (datetime.now(UTC) - HOUR / 2).isoformat()})
        assert answer.status_code == 200

    return end


def get_state(answer) -> dict:
    return {name: answer[name] for name in STORED}


def test_every_answer_shows_maintenance_inside_a_window(ask, team, service, window):
    incident = {"title": "x", "service": service.split("/")[-2]}
    number = ask("POST", "/api/incidents/", incident).json["incident_number"]
    path = window()

    def list_states():
        return [
            get_state(ask("GET", service).json),
            *[get_state(one) for one in ask("GET", f"{team}/services/").json],
            get_state(ask("PATCH", service, {"name": "Checkout"}).json),
            get_state(ask("GET", f"/api/incidents/{number}/").json["service_object"]),
            *[
                get_state(one["service_object"])
                for one in ask("POST", "/api/incidents/filter/", {"status": 0}).json["results"]
            ],
            get_state(ask("POST", "/api/incidents/", incident).json["service_object"]),
        ]

    found = list_states()
    assert found == [INSIDE] * len(found)

    assert ask("DELETE", path).status_code == 204
    found = list_states()
    assert found == [STORED] * len(found)


@pytest.mark.parametrize(
    ("start", "end", "more", "expected"),
    [
        (1, 2, {}, STORED),
        (-2, -1, {}, STORED),
        (-25, -23, {"repeat_interval": 1}, INSIDE),
        (-27, -26, {"repeat_interval": 1}, STORED),
        (-25, -23, {"repeat_interval": 1, "repeat_until": -2}, STORED),
    ],
    ids=["later", "over", "again now", "again later", "no more"],
)
def test_a_service_is_under_maintenance_only_during_the_window(
    ask, service, window, start, end, more, expected
):
    window(start, end, **more)

    assert get_state(ask("GET", service).json) == expected


@pytest.mark.parametrize(
    "times",
    [
        {"start_time": "2020-01-01T01:00:00Z", "end_time": "2020-01-01T02:00:00Z", "repeat_interval": 3650},
        {"start_time": "2020-01-01T01:00:00Z", "end_time": "9999-12-31T23:59:59Z", "repeat_interval": 1},
        {"start_time": "0001-01-01T00:00:00Z", "end_time": "0001-01-01T01:00:00Z", "repeat_interval": 1},
    ],
    ids=["every ten years", "one long one", "since the first year"],
)
def test_a_window_that_repeats_for_very_long_is_accepted(ask, world, service, window, times):
    window(**times, repeat_until=None, time_zone="Asia/Tokyo")
    ask("PATCH", window(**times, time_zone="Asia/Tokyo"), {"repeat_until": "9999-12-31T23:59:59Z"})
    accept(world, datetime.now(UTC), message="m", alert_type="critical", entity_id="db1", exactly=True)
    process_lane.run(world.service.id)

    assert ask("GET", service).status_code == 200
    incident = {"title": "x", "service": world.service.unique_id}
    assert ask("POST", "/api/incidents/", incident).status_code == 201
    assert ask("POST", "/api/incidents/filter/", {"status": 0}).status_code == 200
    assert [event.state for event in Event.select()] == [WorkState.DONE]


def test_the_stored_status_is_shown_after_the_window(ask, service, window, end):
    ask("PATCH", service, {"status": 2})
    path = window()
    assert get_state(ask("GET", service).json) == INSIDE

    end(path)

    assert get_state(ask("GET", service).json) == {"under_maintenance": False, "status": 2}


def test_a_status_that_is_written_inside_a_window_is_stored(ask, service, window):
    path = window()
    ask("PATCH", service, {"under_maintenance": True, "status": 3})
    ask("DELETE", path)
    ask("PATCH", service, {"under_maintenance": False})

    assert get_state(ask("GET", service).json) == {"under_maintenance": False, "status": 3}


@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        ({}, {"name": "Till"}, STORED),
        ({}, {"status": 0}, {"under_maintenance": False, "status": 0}),
        ({}, {"status": 2}, {"under_maintenance": False, "status": 2}),
        ({}, {"under_maintenance": False}, STORED),
        ({"status": 0}, {"name": "Till"}, {"under_maintenance": False, "status": 0}),
        ({"status": 0}, {"status": 1}, STORED),
        ({"under_maintenance": True}, {"name": "Till"}, INSIDE),
    ],
    ids=[
        "renamed", "disabled", "another status", "flag cleared", "renamed while disabled", "enabled",
        "renamed while its flag is set",
    ],
)  # fmt: skip
def test_a_service_sent_back_inside_a_window_does_not_stay_under_maintenance(
    ask, service, window, end, before, changes, after
):
    ask("PATCH", service, before)
    path = window()
    answer = ask("PUT", service, {**ask("GET", service).json, **changes})
    assert get_state(answer.json) == {**INSIDE, "status": 4 if after["status"] else 0}

    end(path)
    assert get_state(ask("GET", service).json) == after


def test_a_service_with_its_own_maintenance_shows_status_4_until_the_maintenance_ends(ask, team, service):
    ask("PATCH", service, {"status": 2})

    shown = [
        ask("PATCH", service, {"under_maintenance": True}).json,
        ask("GET", service).json,
        ask("GET", f"{team}/services/").json[0],
        ask("PUT", service, {**ask("GET", service).json, "name": "Till"}).json,
    ]
    ended = ask("PUT", service, {**shown[-1], "under_maintenance": False}).json

    assert [get_state(each) for each in shown] == [INSIDE] * 4
    assert get_state(ended) == {"under_maintenance": False, "status": 2}


def test_a_new_service_under_maintenance_shows_status_4(ask, team, world):
    body = {"escalation_policy": world.policy.unique_id, "sla": "", "team_priority": ""}

    made = ask("POST", f"{team}/services/", {**body, "under_maintenance": True}).json

    assert get_state(made) == INSIDE


@pytest.mark.parametrize(
    ("before", "after"),
    [({}, STORED), ({"status": 0}, {**STORED, "status": 0}), ({"under_maintenance": True}, INSIDE)],
    ids=str,
)
def test_a_service_sent_back_after_a_window_does_not_stay_under_maintenance(
    ask, service, window, end, before, after
):
    ask("PATCH", service, before)
    path = window()
    read = ask("GET", service).json
    end(path)
    answer = ask("PUT", service, {**read, "name": "Till"})

    assert (answer.json["name"], get_state(answer.json)) == ("Till", after)


@pytest.mark.parametrize(
    ("hours_ago", "hours_given", "is_stored"),
    [(1, INSIDE, False), (25, INSIDE, True), (1, {**INSIDE, "status": 1}, True)],
    ids=["what was shown", "what was shown long ago", "one of both"],
)
def test_after_a_window_only_values_that_were_not_shown_are_stored(
    ask, service, window, hours_ago, hours_given, is_stored
):
    window(-30, -hours_ago)
    ask("PUT", service, {**ask("GET", service).json, **hours_given})

    assert get_state(ask("GET", service).json) == (INSIDE if is_stored else STORED)


def test_a_put_without_a_window_sets_both_fields(ask, service):
    read = ask("GET", service).json
    ask("PUT", service, {**read, **INSIDE})

    assert get_state(ask("GET", service).json) == INSIDE


def test_a_disabled_service_is_shown_as_disabled(ask, service, window):
    ask("PATCH", service, {"status": 0})
    window()

    assert get_state(ask("GET", service).json) == {"under_maintenance": True, "status": 0}


def test_more_windows_need_no_more_queries(ask, team, window, statements):
    def count():
        with statements() as seen:
            assert ask("GET", f"{team}/services/").status_code == 200
        return len(seen)

    ask("GET", f"{team}/services/")
    one = count()
    for _ in range(5):
        window()

    assert count() == one


def test_a_window_is_effective_for_every_alert_after_its_creation(ask, world, window):
    """The lane has processed alerts before and has cached the configuration."""

    key = world.integration.integration_key

    def suppressed(entity, send=True):
        body = {"message": "m", "alert_type": "critical", "entity_id": entity}
        if send:
            assert ask("POST", f"/api/events/{key}/", body, who=None).status_code == 201
            process_lane.run(world.service.id)
        return Event.get(Event.entity_id == entity).suppressed

    assert not suppressed("a")
    path = window()
    assert suppressed("b")
    ask("DELETE", path)
    assert not suppressed("c")

    assert release_maintenance.release_deferred() == 1
    process_lane.run(world.service.id)
    assert not suppressed("b", send=False)


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_all_shown_fields_sent_back_inside_a_window_change_only_what_differs(ask, service, window, method):
    window()
    shown = ask("GET", service).json
    assert get_state(shown) == INSIDE

    answer = ask(method, service, {**shown, "name": "Kiosk"})

    assert (answer.status_code, answer.json["name"]) == (200, "Kiosk")
    stored = Service.get(Service.unique_id == shown["unique_id"])
    assert {"under_maintenance": stored.under_maintenance, "status": stored.status} == STORED
    assert Change.select().order_by(Change.id.desc()).get().fields == [
        {"field": "name", "before": "Checkout", "after": "Kiosk"}
    ]


def test_a_patch_of_one_field_inside_a_window_means_it(ask, service, window):
    window()
    assert ask("PATCH", service, {"under_maintenance": True}).status_code == 200

    stored = Service.get(Service.unique_id == service.split("/")[-2])
    assert (stored.under_maintenance, stored.status) == (True, 1)
    assert Change.select().order_by(Change.id.desc()).get().fields == [
        {"field": "under_maintenance", "before": False, "after": True}
    ]


def test_a_service_deleted_inside_a_window_comes_back_as_it_was_stored(ask, service, window):
    window()
    assert ask("DELETE", service).status_code == 204
    change = Change.select().order_by(Change.id.desc()).get()
    assert ask("POST", f"/api/tocsin/changes/{change.unique_id}/undo/").status_code == 200

    stored = Service.get(Service.unique_id == service.split("/")[-2])
    assert {"under_maintenance": stored.under_maintenance, "status": stored.status} == STORED
