"""What the steps of a policy may name, and how clients write them."""

import pytest

from models.store.ids import new_uuid
from models.tables.notifications import Notification
from models.tables.schedules import Schedule
from models.tables.teams import Team
from tests.web.services.test_services import NO_SUCH_ID
from tests.workers.timers.test_fire import open_incident

USER, SCHEDULE = 2, 1


@pytest.fixture
def path(world) -> str:
    return f"/api/account/teams/{world.team.unique_id}/escalation_policies/"


@pytest.fixture
def schedule_of(now):
    """schedule_of(team): the id of a new schedule."""
    return lambda team: (
        Schedule.create(unique_id=new_uuid(), team=team, name="x", creation_date=now).unique_id
    )


@pytest.fixture
def get_status(ask, path):
    """status((kind, id), ...): what a policy is answered with whose one step names these."""

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


def test_ids_of_the_one_kind_are_none_of_the_other(get_status, schedule_of, world):
    assert get_status((USER, schedule_of(world.team))) == 400
    assert get_status((SCHEDULE, world.bob.username)) == 400


@pytest.mark.parametrize("target", [NO_SUCH_ID, "x", "", None, "\x00"])
@pytest.mark.parametrize("kind", [USER, SCHEDULE])
def test_nobody_and_nothing_cannot_be_named(get_status, kind, target):
    assert get_status((kind, target)) == 400


def test_a_schedule_of_another_team_may_be_named_where_that_team_lets_others_attach(
    get_status, schedule_of, world
):
    schedule = schedule_of(world.charlies_team)

    assert get_status((SCHEDULE, schedule)) == 400
    allow_attach(world.charlies_team)
    assert get_status((SCHEDULE, schedule)) == 201


def test_that_never_crosses_accounts(get_status, schedule_of, world):
    allow_attach(world.mallorys_team)

    assert get_status((SCHEDULE, schedule_of(world.mallorys_team))) == 400


def test_what_a_policy_says_already_may_be_sent_back(ask, path, schedule_of, world):
    """Though the schedule is gone meanwhile, or not to be attached any more; nothing else of that kind."""
    allow_attach(world.charlies_team)
    schedule = schedule_of(world.charlies_team)
    rules = [{"delay": 0, "targets": [{"target_type": SCHEDULE, "target_id": schedule}]}]
    policy = ask("POST", path, {"name": "Night", "rules": rules}).json
    Team.update(account_permissions=[]).where(Team.id == world.charlies_team.id).execute()
    mine = f"{path}{policy['unique_id']}/"

    assert ask("PUT", mine, {**policy, "name": "Day"}).json["name"] == "Day"
    rules[0]["targets"][0]["target_id"] = schedule_of(world.charlies_team)
    assert ask("PUT", mine, {**policy, "rules": rules}).status_code == 400


def test_a_step_as_the_published_builder_writes_it(ask, path, world):
    """It calls its floats seconds and misspells the position: they are minutes, in the order of the list."""
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


def test_naming_many_takes_as_many_queries_as_naming_one(ask, path, schedule_of, world, statements):
    def count(number):
        targets = [{"target_type": SCHEDULE, "target_id": schedule_of(world.team)} for _ in range(number)]
        targets += [{"target_type": USER, "target_id": world.bob.username}] * number
        with statements() as seen:
            ask("POST", path, {"name": "Night", "rules": [{"delay": 0, "targets": targets}]})
        return len(seen)

    ask("GET", path)

    assert count(20) == count(1)


def test_a_chain_that_names_only_a_schedule_without_anybody_still_tells_somebody(
    ask, path, schedule_of, world, now
):
    targets = [{"target_type": SCHEDULE, "target_id": schedule_of(world.team)}]
    mine = f"{path}{world.policy.unique_id}/"
    assert ask("PATCH", mine, {"rules": [{"delay": 0, "targets": targets}]}).status_code == 200

    open_incident(world, now)

    assert [notification.user for notification in Notification.select()] == [world.alice]


def test_a_policy_says_whose_turn_it_is_and_begins_anew_when_it_changes(ask, path, world, now):
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
    """The id of a policy that names Charlie."""
    rules = [{"delay": 0, "targets": [{"target_type": USER, "target_id": world.charlie.username}]}]
    return ask("POST", path, {"name": "Night", "rules": rules}).json["unique_id"]


def test_an_incident_is_assigned_by_its_new_policy(ask, charlies_policy, world, now):
    address = f"/api/incidents/{open_incident(world, now).incident_number}/"

    moved = ask("PATCH", address, {"escalation_policy": charlies_policy}).json

    assert moved["assigned_to"] == world.charlie.username


def test_an_assignee_that_is_sent_back_stays_and_the_new_policys_people_are_told_however_often_it_is_sent(
    ask, charlies_policy, world, now
):
    address = f"/api/incidents/{open_incident(world, now).incident_number}/"
    change = {"escalation_policy": charlies_policy, "assigned_to": world.alice.username}

    answers = [ask("PATCH", address, change).json["assigned_to"] for _ in range(2)]

    assert answers == [world.alice.username] * 2
    (notification,) = Notification.select().where(Notification.user == world.charlie)
    assert (notification.kind, notification.state) == ("escalation", 0)
