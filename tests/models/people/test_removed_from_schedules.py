"""Removal of a user from schedules."""

from datetime import timedelta

import pytest

from models.domain.effects import Author
from models.domain.enums import AuthorKind
from models.people import offboarding
from models.store.ids import make_uuid
from models.store.store import store
from models.tables.schedules import Schedule, ScheduleOverride


@pytest.fixture
def schedule_of(world, now):
    """schedule_of(team, "alice", "bob"): create a schedule with one layer and an override for each person."""

    def make(team, *names):
        people = [getattr(world, name) for name in names]
        users = [
            {"user": person.username, "position": place, "unique_id": make_uuid()}
            for place, person in enumerate(people, start=1)
        ]
        layer = {"name": "Layer-1", "users": users, "unique_id": make_uuid()}
        schedule = Schedule.create(
            unique_id=make_uuid(), team=team, name="Nights", layers=[layer], creation_date=now
        )
        for person in people:
            ScheduleOverride.create(
                unique_id=make_uuid(),
                schedule=schedule,
                user=person,
                start_time=now,
                end_time=now + timedelta(hours=1),
                creation_date=now,
            )
        return schedule

    return make


def remove(user):
    with store().write_transaction():
        at = store().now()
        offboarding.remove(
            user, Author(AuthorKind.USER, "Alice"), at, names_user=lambda action, username: False
        )


def list_turns(schedule):
    users = Schedule.get_by_id(schedule.id).layers[0]["users"]
    return [(turn["user"], turn["position"]) for turn in users]


def test_a_removed_user_has_no_turns_and_no_overrides(world, schedule_of):
    schedule = schedule_of(world.team, "bob", "alice", "bob", "charlie")

    remove(world.bob)

    assert list_turns(schedule) == [(world.alice.username, 1), (world.charlie.username, 2)]
    overriding = {override.user_id for override in ScheduleOverride.select()}
    assert overriding == {world.alice.id, world.charlie.id}


def test_a_user_is_removed_from_the_schedules_of_all_teams(world, schedule_of):
    ours, theirs = schedule_of(world.team, "bob"), schedule_of(world.charlies_team, "bob", "charlie")

    remove(world.bob)

    assert list_turns(ours) == []
    assert list_turns(theirs) == [(world.charlie.username, 1)]


def test_schedules_of_other_accounts_stay_unchanged(world, schedule_of):
    schedule_of(world.team, "bob")
    schedule_kept = schedule_of(world.mallorys_team, "mallory")
    before = Schedule.get_by_id(schedule_kept.id).layers

    remove(world.bob)

    assert Schedule.get_by_id(schedule_kept.id).layers == before
    assert [override.schedule_id for override in ScheduleOverride.select()] == [schedule_kept.id]
