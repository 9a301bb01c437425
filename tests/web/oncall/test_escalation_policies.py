"""The targets of the steps of a policy, and the forms in which clients send steps."""

import itertools

import pytest

from models.store.ids import make_uuid
from models.tables.notifications import Notification
from models.tables.schedules import Schedule
from models.tables.teams import Team
from tests.support.offenders import list_offenders
from tests.support.scenarios.timers import open_incident
from tests.support.web.unknown_ids import NO_SUCH_ID

USER, SCHEDULE = 2, 1


@pytest.fixture
def path(world) -> str:
    return f"/api/account/teams/{world.team.unique_id}/escalation_policies/"


@pytest.fixture
def schedule_of(now):
    """schedule_of(team): the ID of a new schedule of the team."""
    return lambda team: (
        Schedule.create(unique_id=make_uuid(), team=team, name="x", creation_date=now).unique_id
    )


@pytest.fixture
def get_status(ask, path):
    """get_status((kind, id), ...): the HTTP status of a new policy with one step with these targets."""

    def post_policy(*target_ids):
        targets = [{"target_type": kind, "target_id": target} for kind, target in target_ids]
        rules = [{"delay": 0, "targets": targets}]
        return ask("POST", path, {"name": "Night", "rules": rules}).status_code

    return post_policy


def allow_attach(team):
    Team.update(account_permissions=["schedule_attach"]).where(Team.id == team.id).execute()


def test_steps_name_people_and_schedules(get_status, schedule_of, world):
    schedule = schedule_of(world.team)

    assert get_status((SCHEDULE, schedule), (USER, world.bob.username)) == 201
    assert get_status((SCHEDULE, schedule.upper())) == 201


def test_a_user_id_is_not_accepted_as_a_schedule_and_vice_versa(get_status, schedule_of, world):
    assert get_status((USER, schedule_of(world.team))) == 400
    assert get_status((SCHEDULE, world.bob.username)) == 400


def test_unknown_users_and_schedules_are_refused(get_status):
    def check(case):
        target, kind = case
        assert get_status((kind, target)) == 400

    targets = [NO_SUCH_ID, "x", "", None, "\x00"]
    assert list_offenders(check, itertools.product(targets, [USER, SCHEDULE])) == []


def test_a_step_can_use_a_schedule_of_another_team_that_lets_others_attach(get_status, schedule_of, world):
    schedule = schedule_of(world.charlies_team)

    assert get_status((SCHEDULE, schedule)) == 400
    allow_attach(world.charlies_team)
    assert get_status((SCHEDULE, schedule)) == 201


def test_a_step_cannot_use_a_schedule_of_another_account(get_status, schedule_of, world):
    allow_attach(world.mallorys_team)

    assert get_status((SCHEDULE, schedule_of(world.mallorys_team))) == 400


def test_present_targets_of_a_policy_can_be_sent_back(ask, path, schedule_of, world):
    """This holds for a schedule that is deleted or may not be attached any more, not for other schedules."""
    allow_attach(world.charlies_team)
    schedule = schedule_of(world.charlies_team)
    rules = [{"delay": 0, "targets": [{"target_type": SCHEDULE, "target_id": schedule}]}]
    policy = ask("POST", path, {"name": "Night", "rules": rules}).json
    Team.update(account_permissions=[]).where(Team.id == world.charlies_team.id).execute()
    mine = f"{path}{policy['unique_id']}/"

    assert ask("PUT", mine, {**policy, "name": "Day"}).json["name"] == "Day"
    rules[0]["targets"][0]["target_id"] = schedule_of(world.charlies_team)
    assert ask("PUT", mine, {**policy, "rules": rules}).status_code == 400


def test_a_step_in_the_form_of_the_published_builder_is_accepted(ask, path, world):
    """The builder calls the delays seconds and misspells the position: they are minutes in list order."""
    rules = [
        {"delay": delay, "postition": 1, "targets": [{"target_type": USER, "target_id": world.bob.username}]}
        for delay in (0.0, 300.0)
    ]

    made = ask("POST", path, {"name": "Night", "rules": rules}).json["rules"]

    assert [(rule["delay"], rule["position"]) for rule in made] == [(0, 1), (300, 2)]
    assert all(isinstance(rule["delay"], int) for rule in made)


@pytest.mark.parametrize("delay", [0.5, -1.0, "x", 1e300])
def test_delays_are_whole_minutes(ask, path, delay):
    assert ask("POST", path, {"name": "Night", "rules": [{"delay": delay}]}).status_code == 400


def test_more_targets_need_no_more_queries(ask, path, schedule_of, world, statements):
    def count(number):
        targets = [{"target_type": SCHEDULE, "target_id": schedule_of(world.team)} for _ in range(number)]
        targets += [{"target_type": USER, "target_id": world.bob.username}] * number
        with statements() as seen:
            ask("POST", path, {"name": "Night", "rules": [{"delay": 0, "targets": targets}]})
        return len(seen)

    ask("GET", path)

    assert count(20) == count(1)


def test_a_policy_with_only_an_empty_schedule_notifies_the_last_resort(ask, path, schedule_of, world, now):
    targets = [{"target_type": SCHEDULE, "target_id": schedule_of(world.team)}]
    mine = f"{path}{world.policy.unique_id}/"
    assert ask("PATCH", mine, {"rules": [{"delay": 0, "targets": targets}]}).status_code == 200

    open_incident(world, now)

    assert [notification.user for notification in Notification.select()] == [world.alice]


def test_a_policy_shows_the_next_target_and_a_change_resets_the_round_robin(ask, path, world, now):
    people = [{"target_type": USER, "target_id": one.username} for one in (world.alice, world.bob)]
    settings = {"assignee_strategy": 2, "call_rr_assignee": True, "assignment_index": 7}
    body = {"name": "Night", "rules": [{"delay": 0, "targets": people}], "assignment_settings": settings}
    made = ask("POST", path, body).json
    service = {"name": "Search", "escalation_policy": made["unique_id"], "team_priority": "", "sla": ""}
    team = f"/api/account/teams/{world.team.unique_id}"
    watched = ask("POST", f"{team}/services/", service).json

    opened = ask("POST", "/api/incidents/", {"title": "Slow", "service": watched["unique_id"]}).json
    assert opened["assigned_to"] == world.alice.username
    shown = ask("GET", f"{path}{made['unique_id']}/").json["assignment_settings"]
    assert {**shown, "unique_id": ""} == {**settings, "assignment_index": 1, "unique_id": ""}
    assert ask("GET", path).json[-1]["assignment_settings"] == shown

    changed = ask("PATCH", f"{path}{made['unique_id']}/", {"name": "Nights"}).json
    assert changed["assignment_settings"] == {**shown, "assignment_index": 0}


@pytest.fixture
def charlies_policy(ask, path, world):
    """The ID of a policy with a step that notifies Charlie."""
    rules = [{"delay": 0, "targets": [{"target_type": USER, "target_id": world.charlie.username}]}]
    return ask("POST", path, {"name": "Night", "rules": rules}).json["unique_id"]


def test_a_new_policy_assigns_the_incident(ask, charlies_policy, world, now):
    address = f"/api/incidents/{open_incident(world, now).incident_number}/"

    moved = ask("PATCH", address, {"escalation_policy": charlies_policy}).json

    assert moved["assigned_to"] == world.charlie.username


def test_an_assignee_sent_back_with_a_new_policy_stays_and_the_policy_notifies_once(
    ask, charlies_policy, world, now
):
    address = f"/api/incidents/{open_incident(world, now).incident_number}/"
    change = {"escalation_policy": charlies_policy, "assigned_to": world.alice.username}

    assignees = [ask("PATCH", address, change).json["assigned_to"] for _ in range(2)]

    assert assignees == [world.alice.username] * 2
    (notification,) = Notification.select().where(Notification.user == world.charlie)
    assert (notification.kind, notification.state) == ("escalation", 0)
