"""Nights on which somebody puts an alarm off, or makes one of many."""

import pytest

from models.apply import apply
from models.base import store
from models.effects import Actor, Outcome
from models.enums import ActorKind, IncidentStatus
from models.incidents import Incident
from models.loading import lock_families, lock_incident
from models.services import Service
from pipeline import moves
from tests.workers.test_timers import MINUTE, set_policy

ALICE = Actor(ActorKind.USER, "Alice")


@pytest.fixture
def moved(night):
    """moved(moves.snooze, until): Alice moves the newest incident, at this moment of the night."""

    def move(how, *more):
        with store().writing():
            found = lock_incident(night.incident().id)
            around = (found.service, found.directory, ALICE, night.now)
            apply(Outcome(effects=list(how(found.incident, *more, *around))))

    return move


def people(night):
    return [person for person, _ in night.mails()]


@pytest.mark.parametrize("time_out_s", [0, 900], ids=["no time-out", "a time-out of 15 minutes"])
def test_an_alarm_that_was_put_off_until_the_morning_rings_in_the_morning(night, world, moved, time_out_s):
    Service.update(
        acknowledgement_timeout_enabled=bool(time_out_s), acknowledgement_timeout=time_out_s
    ).execute()
    set_policy(world, (0, world.alice), (10, world.bob))
    night.alert("Disk full on db1")
    night.after(minutes=5)
    night.alert("on it", "acknowledged")
    moved(moves.snooze, night.now + 480 * MINUTE)
    assert people(night) == ["alice"]

    night.alert("Disk full on db1")
    night.after(hours=7, minutes=59)
    assert people(night) == []

    night.after(minutes=1)
    assert people(night) == ["alice"]
    night.after(minutes=10)
    assert people(night) == ["bob"]


def test_an_alarm_that_ends_in_its_sleep_rings_no_more(night, world, moved):
    night.alert("Disk full on db1")
    night.alert("on it", "acknowledged")
    moved(moves.snooze, night.now + 60 * MINUTE)
    night.after(minutes=30)
    night.alert("Disk full on db1", "resolved")
    night.after(hours=5)

    assert people(night) == ["alice"]


def test_a_sleeper_that_was_woken_is_not_forgotten(night, world, moved):
    Service.update(acknowledgement_timeout_enabled=True, acknowledgement_timeout=900).execute()
    night.alert("Disk full on db1")
    night.alert("on it", "acknowledged")
    moved(moves.snooze, night.now + 60 * MINUTE)
    night.after(minutes=30)
    moved(moves.wake)
    assert people(night) == ["alice"]

    night.after(minutes=14)
    assert people(night) == []
    night.after(minutes=1)
    assert people(night) == ["alice"]


def test_a_storm_made_one_incident_keeps_nobody_awake_but_for_what_is_new(night, world):
    set_policy(world, (0, world.alice), (10, world.bob))
    for entity in ("db1", "db2", "db3"):
        night.alert(f"Disk full on {entity}", entity=entity)
    assert len(people(night)) == 3
    first, *others = Incident.select().order_by(Incident.id)
    with store().writing():
        found = lock_families([row.id for row in (first, *others)])
        states = list(found.incidents.values())
        effects = moves.merge(states[0], states[1:], [], ALICE, night.now)
        apply(Outcome(effects=list(effects)), {first.unique_id: first.id})

    night.after(minutes=10)
    assert [subject for _, subject in night.mails()] == ["[Checkout] #1 Disk full on db1 (critical)"]
    night.alert("Disk full on db2", entity="db2")
    assert people(night) == []
    night.alert("Disk full on db4", entity="db4")
    assert people(night) == ["alice"]

    night.alert("all is well", "resolved", entity="db1")
    assert [row.status for row in Incident.select().order_by(Incident.id)] == [
        *[IncidentStatus.RESOLVED] * 3,
        IncidentStatus.TRIGGERED,
    ]
