"""An alert notifies the person whom the interface shows as on call, after each kind of change."""

from datetime import timedelta

import pytest

from models.store.store import store
from models.tables.incidents import Incident
from models.tables.notifications import Notification
from tests.support.alerts import accept
from workers.alerts import process_lane

DAY = 86_400


@pytest.fixture
def team(world) -> str:
    return f"/api/account/teams/{world.team.unique_id}"


@pytest.fixture
def on_call_schedule(ask, team, world):
    """A schedule with Charlie on call all the time; the policy of the team notifies the person on call."""
    layer = {
        "name": "Always",
        "shift_length": DAY,
        "rotation_start_time": "2026-01-05T09:00:00Z",
        "users": [{"user": world.charlie.username}],
    }
    made = ask("POST", f"{team}/schedules/", {"name": "Primary", "layers": [layer]}).json
    rules = [{"delay": 0, "targets": [{"target_type": 1, "target_id": made["unique_id"]}]}]
    policy = {"name": "Default", "rules": rules}
    ask("PUT", f"{team}/escalation_policies/{world.policy.unique_id}/", policy)
    return made


@pytest.fixture
def alert_and_list_notified(world):
    """Return who is notified of an alert at this time, and the assignee of its incident."""

    def alert():
        accept(
            world, store().now(), message="m", alert_type="critical", entity_id=str(Incident.select().count())
        )
        process_lane.run(world.service.id)
        incident = Incident.select().order_by(Incident.id.desc()).get()
        notifications = (
            Notification.select().where(Notification.incident == incident).order_by(Notification.id)
        )
        return [notification.user.username for notification in notifications], incident.assigned_to

    return alert


@pytest.fixture
def list_on_call(ask, team, world):
    """Return who is on call, after a check that all four operations agree."""

    def ask_all():
        by_team = ask("GET", f"{team}/oncall/").json[0]["users"]
        v2 = team.replace("/api/", "/api/v2/")
        paths = ("", f"escalation_policies/{world.policy.unique_id}/", f"services/{world.service.unique_id}/")
        others = [ask("GET", f"{v2}/{path}oncall/").json[0]["oncalls"][0]["oncalls"] for path in paths]
        assert others == [by_team] * 3
        return [user["username"] for user in by_team]

    return ask_all


def hours(count):
    return (store().now() + timedelta(hours=count)).isoformat()


def test_a_layer_and_an_override_select_the_notified_person(
    ask, team, world, on_call_schedule, alert_and_list_notified, list_on_call
):
    path = (
        f"/api/v2/account/teams/{world.team.unique_id}/schedules/{on_call_schedule['unique_id']}/overrides/"
    )
    assert alert_and_list_notified() == (list_on_call(), world.charlie)
    assert list_on_call() == [world.charlie.username]

    override = {"name": "x", "user": world.bob.username, "start_time": hours(-1), "end_time": hours(1)}
    assert ask("POST", path, override).status_code == 201
    assert alert_and_list_notified() == (list_on_call(), world.bob)
    assert list_on_call() == [world.bob.username]

    ask("PATCH", f"{team}/schedules/{on_call_schedule['unique_id']}/", {"name": "Primary", "overrides": []})
    assert alert_and_list_notified() == (list_on_call(), world.charlie)


def test_an_inactive_layer_leaves_the_alert_to_the_managers(
    ask, team, world, on_call_schedule, alert_and_list_notified, list_on_call
):
    layers = [{**on_call_schedule["layers"][0], "is_active": False}]
    ask("PATCH", f"{team}/schedules/{on_call_schedule['unique_id']}/", {"name": "Primary", "layers": layers})

    assert list_on_call() == []
    assert alert_and_list_notified() == ([world.alice.username], None)


def test_a_deleted_schedule_leaves_the_alert_to_the_managers(
    ask, team, world, on_call_schedule, alert_and_list_notified, list_on_call
):
    ask("DELETE", f"{team}/schedules/{on_call_schedule['unique_id']}/")

    assert list_on_call() == []
    assert alert_and_list_notified() == ([world.alice.username], None)


def test_a_removed_user_is_not_on_call(
    ask, team, world, on_call_schedule, alert_and_list_notified, list_on_call
):
    layers = [
        {
            **on_call_schedule["layers"][0],
            "users": [{"user": world.charlie.username}, {"user": world.bob.username}],
        }
    ]
    ask("PATCH", f"{team}/schedules/{on_call_schedule['unique_id']}/", {"name": "Primary", "layers": layers})
    ask("POST", "/api/account/deleteuser/", {"username": world.charlie.username})

    assert list_on_call() == [world.bob.username]
    assert alert_and_list_notified() == ([world.bob.username], world.bob)


def test_a_forwarding_rule_notifies_another_person_who_is_not_on_call(
    ask, world, on_call_schedule, alert_and_list_notified, list_on_call
):
    path = f"/api/account/users/{world.charlie.username}/forwarding_rules/"
    rule = {"from_date": hours(-1), "to_date": hours(1), "to_user": world.bob.username}
    made = ask("POST", path, rule)
    assert made.status_code == 201
    assert list_on_call() == [world.charlie.username]
    assert alert_and_list_notified() == ([world.bob.username], world.charlie)

    ask("DELETE", f"{path}{made.json['unique_id']}/")
    assert alert_and_list_notified() == ([world.charlie.username], world.charlie)
