"""Who is on call, in the four operations of the interface."""

from datetime import timedelta

import pytest

from models.domain.enums import TargetType
from models.people import provisioning
from models.store.ids import make_uuid
from models.store.store import store
from models.tables.schedules import Schedule, ScheduleOverride
from models.tables.services import Service
from models.tables.teams import EscalationPolicy
from tests.support.schedules import stored

USER, SCHEDULE = TargetType.USER, TargetType.SCHEDULE


@pytest.fixture
def team(world) -> str:
    return f"account/teams/{world.team.unique_id}"


@pytest.fixture
def schedule(world, now):
    """A schedule of the team that has only overrides."""
    return stored.schedule(world.team, name="Nights")


@pytest.fixture
def override(schedule):
    """override(person, start, end): an override; start and end are hours from now, by the store's clock."""

    def make(get_key, start, end, of=schedule):
        at = store().now()
        return ScheduleOverride.create(
            unique_id=make_uuid(), schedule=of, user=get_key, creation_date=at,
            start_time=at + timedelta(hours=start), end_time=at + timedelta(hours=end),
        )  # fmt: skip

    return make


@pytest.fixture
def steps(world):
    """steps([(USER, "x"), ...], ...): replace the steps of the team's policy."""

    def give(*targets, policy=world.policy):
        rules = [
            {
                "unique_id": make_uuid(), "delay": place * 5, "position": place + 1,
                "targets": [
                    {"target_type": int(kind), "target_id": name, "position": position}
                    for position, (kind, name) in enumerate(named)
                ],
            }
            for place, named in enumerate(targets)
        ]  # fmt: skip
        EscalationPolicy.update(rules=rules).where(EscalationPolicy.id == policy.id).execute()
        return rules

    return give


def get_key(user):
    return {name: getattr(user, name) for name in ("username", "first_name", "last_name", "email")}


def named(listed):
    return [user["first_name"] for user in listed]


def test_version_1_lists_all_people_of_a_policy_once(ask, team, world, steps):
    bob, alice = (USER, world.bob.username), (USER, world.alice.username)
    steps([bob], [alice, bob], [])

    (answer,) = ask("GET", f"/api/{team}/oncall/").json

    policy = world.policy
    assert answer == {
        "escalation_policy": {
            "name": policy.name, "summary": policy.summary, "description": "", "repeat_policy": 0,
            "unique_id": policy.unique_id, "move_to_next": True, "global_ep": False,
        },
        "team": {"unique_id": world.team.unique_id, "name": "Payments"},
        "users": [get_key(world.bob), get_key(world.alice)],
    }  # fmt: skip


def test_version_2_lists_the_people_of_each_step(ask, team, world, steps, schedule):
    rules = steps([(USER, world.bob.username)], [(SCHEDULE, schedule.unique_id)], [])

    (answer,) = ask("GET", f"/api/v2/{team}/oncall/").json

    assert (answer["unique_id"], answer["name"]) == (world.policy.unique_id, world.policy.name)
    assert answer["oncalls"] == [
        {"ep_rule": rule["unique_id"], "position": place, "delay": rule["delay"], "oncalls": users}
        for place, (rule, users) in enumerate(
            zip(rules, ([get_key(world.bob)], [], []), strict=True), start=1
        )
    ]


def test_a_policy_and_a_service_have_the_same_steps_as_the_team(ask, team, world):
    listed = ask("GET", f"/api/v2/{team}/oncall/").json

    policy = ask("GET", f"/api/v2/{team}/escalation_policies/{world.policy.unique_id}/oncall/")
    service = ask("GET", f"/api/v2/{team}/services/{world.service.unique_id}/oncall/")

    assert policy.json == service.json == listed
    assert len(listed) == 1


@pytest.mark.parametrize(
    ("hours", "on_call"),
    [((-1, 1), ["Bob"]), ((0, 1), ["Bob"]), ((-2, -1), []), ((-1, 0), []), ((1, 2), [])],
    ids=str,
)
def test_an_override_holds_from_its_start_to_its_end_exclusive(
    ask, team, world, steps, schedule, override, hours, on_call
):
    steps([(SCHEDULE, schedule.unique_id)])
    override(world.bob, *hours)

    (answer,) = ask("GET", f"/api/v2/{team}/oncall/").json

    assert named(answer["oncalls"][0]["oncalls"]) == on_call
    assert named(ask("GET", f"/api/{team}/oncall/").json[0]["users"]) == on_call


def test_all_people_with_overrides_are_on_call_once(ask, team, world, steps, schedule, override):
    steps([(SCHEDULE, schedule.unique_id), (USER, world.bob.username), (USER, world.alice.username)])
    for listed_user in (world.bob, world.charlie, world.bob):
        override(listed_user, -1, 1)

    (answer,) = ask("GET", f"/api/v2/{team}/oncall/").json

    assert named(answer["oncalls"][0]["oncalls"]) == ["Bob", "Charlie", "Alice"]


def test_a_layer_puts_the_person_of_the_present_turn_on_call(ask, team, world, steps, override):
    always = stored.schedule(world.team, stored.layer(world.charlie), stored.layer(world.alice))
    over = stored.schedule(world.team, stored.layer(world.bob, rotation_end_time=stored.MONDAY.isoformat()))
    steps([(SCHEDULE, over.unique_id)], [(SCHEDULE, always.unique_id)])

    oncalls = ask("GET", f"/api/v2/{team}/oncall/").json[0]["oncalls"]
    assert [named(step["oncalls"]) for step in oncalls] == [[], ["Charlie", "Alice"]]

    override(world.bob, -1, 1, of=always)
    assert named(ask("GET", f"/api/{team}/oncall/").json[0]["users"]) == ["Bob"]


def test_a_removed_user_is_not_on_call(ask, team, world, steps, schedule, override, now):
    steps([(SCHEDULE, schedule.unique_id), (USER, world.bob.username)])
    override(world.bob, -1, 1)
    world.bob.removed_at = now
    world.bob.save()

    assert ask("GET", f"/api/{team}/oncall/").json[0]["users"] == []


def test_a_deleted_schedule_has_nobody_on_call(ask, team, world, steps, schedule, override):
    steps([(SCHEDULE, schedule.unique_id)])
    override(world.bob, -1, 1)
    schedule.delete_instance()

    assert ask("GET", f"/api/v2/{team}/oncall/").json[0]["oncalls"][0]["oncalls"] == []


def test_people_of_another_account_are_never_listed(ask, team, world, steps, override, now):
    theirs = Schedule.create(unique_id=make_uuid(), team=world.mallorys_team, name="x", creation_date=now)
    override(world.mallory, -1, 1, of=theirs)
    steps([(SCHEDULE, theirs.unique_id), (USER, world.mallory.username)])

    assert ask("GET", f"/api/{team}/oncall/").json[0]["users"] == []


def test_a_schedule_of_another_team_of_the_account_is_used(ask, team, world, steps, override, now):
    shared = Schedule.create(unique_id=make_uuid(), team=world.charlies_team, name="x", creation_date=now)
    override(world.charlie, -1, 1, of=shared)
    steps([(SCHEDULE, shared.unique_id)])

    assert named(ask("GET", f"/api/{team}/oncall/").json[0]["users"]) == ["Charlie"]


def test_the_answer_for_a_service_is_that_of_its_policy(ask, team, world):
    theirs = EscalationPolicy.get(EscalationPolicy.team == world.charlies_team)
    path = f"/api/v2/{team}/services/{world.service.unique_id}/oncall/"

    Service.update(escalation_policy=theirs).where(Service.id == world.service.id).execute()
    assert [one["unique_id"] for one in ask("GET", path).json] == [theirs.unique_id]

    Service.update(escalation_policy=None).where(Service.id == world.service.id).execute()
    assert ask("GET", path).json == []


def test_policies_and_services_are_found_only_under_their_team(ask, world):
    other = f"/api/v2/account/teams/{world.charlies_team.unique_id}"

    for noun, row in (("escalation_policies", world.policy), ("services", world.service)):
        assert ask("GET", f"{other}/{noun}/{row.unique_id}/oncall/").status_code == 404


@pytest.mark.parametrize("version", ["", "v2/"])
def test_more_policies_need_no_more_queries(
    ask, team, world, steps, schedule, override, statements, now, version
):
    def count():
        with statements() as seen:
            assert ask("GET", f"/api/{version}{team}/oncall/").status_code == 200
        return len(seen)

    both = [(SCHEDULE, schedule.unique_id), (USER, world.alice.username)]
    steps(both)
    override(world.bob, -1, 1)
    ask("GET", f"/api/{version}{team}/oncall/")
    one = count()
    for _ in range(20):
        settings = provisioning.build_assignment_settings()
        more = EscalationPolicy.create(
            unique_id=make_uuid(), team=world.team, name="x", creation_date=now, assignment_settings=settings
        )
        steps(both, both, policy=more)

    assert count() == one
