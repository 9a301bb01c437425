"""Every status against every wanted status, and what comes with a move."""

import itertools

import pytest

from models.effects import (
    Actor,
    ArmTimers,
    OweNotice,
    ReclaimEntities,
    RecordLog,
    ReleaseEntities,
    SaveIncident,
    VoidNotices,
)
from models.enums import ActorKind, IncidentStatus, NoticeKind
from pipeline import moves
from tests.facts import ALICE, BOB, MINUTE, NOON, directory, incident, service

ACTOR = Actor(ActorKind.USER, "Bob", user=BOB.row)
T, A, R = IncidentStatus.TRIGGERED, IncidentStatus.ACKNOWLEDGED, IncidentStatus.RESOLVED
BOOK = directory((0, "alice"), (5, "bob"))


def at(status):
    """An incident that got into this status a minute after it began."""
    return incident(
        status=status,
        acknowledged_date=NOON + MINUTE if status is A else None,
        resolved_date=NOON + MINUTE if status is R else None,
        next_step=1,
    )


def move(status, to):
    return moves.move(at(status), to, service(), BOOK, ACTOR, NOON + 2 * MINUTE, "because")


def last(effects):
    return [effect.incident for effect in effects if isinstance(effect, SaveIncident)][-1]


def kinds(effects):
    return {type(effect) for effect in effects}


@pytest.mark.parametrize("status", list(IncidentStatus))
def test_moving_to_where_it_is_changes_nothing(status):
    assert move(status, status) == ()


@pytest.mark.parametrize(("status", "to"), list(itertools.permutations(IncidentStatus, 2)))
def test_every_other_move_is_possible_logged_and_replans_the_timers(status, to):
    effects = move(status, to)

    assert last(effects).status is to
    assert {RecordLog, ArmTimers} <= kinds(effects)


@pytest.mark.parametrize(
    ("status", "to", "acknowledged", "resolved"),
    [
        (T, A, NOON + 2 * MINUTE, None),
        (T, R, None, NOON + 2 * MINUTE),
        (A, R, NOON + MINUTE, NOON + 2 * MINUTE),
        (A, T, None, None),
        (R, T, None, None),
        (R, A, NOON + 2 * MINUTE, None),
    ],
)
def test_dates_follow_the_status(status, to, acknowledged, resolved):
    after = last(move(status, to))

    assert (after.acknowledged_date, after.resolved_date) == (acknowledged, resolved)


@pytest.mark.parametrize("to", [A, R])
def test_acknowledging_and_resolving_void_what_is_owed_and_stop_the_chain(to):
    effects = move(T, to)

    assert VoidNotices in kinds(effects)
    assert OweNotice not in kinds(effects)
    (armed,) = [effect for effect in effects if isinstance(effect, ArmTimers)]
    assert armed.wanted == ()


@pytest.mark.parametrize(
    ("status", "to", "kind"), [(T, R, ReleaseEntities), (R, T, ReclaimEntities), (R, A, ReclaimEntities)]
)
def test_entities_are_released_by_a_resolve_and_reclaimed_by_reopening(status, to, kind):
    assert kind in kinds(move(status, to))


@pytest.mark.parametrize("status", [A, R])
def test_triggering_again_begins_a_new_chain_from_the_first_step(status):
    effects = move(status, T)

    after = last(effects)
    assert (after.chain, after.chain_started_at, after.next_step) == (2, NOON + 2 * MINUTE, 1)
    assert [effect.notice.user for effect in effects if isinstance(effect, OweNotice)] == [ALICE.row]


def test_reopening_as_acknowledged_gives_the_time_outs_their_whole_time():
    later = NOON + 60 * MINUTE
    watch = service(auto_resolve_s=600, acknowledgement_timeout_s=900)
    closed = incident(status=R, acknowledged_date=NOON + MINUTE, resolved_date=NOON + 2 * MINUTE)
    effects = moves.move(closed, A, watch, BOOK, ACTOR, later, "because")

    (armed,) = [effect for effect in effects if isinstance(effect, ArmTimers)]
    assert sorted(timer.due_at for timer in armed.wanted) == [later + 10 * MINUTE, later + 15 * MINUTE]


def test_acknowledging_takes_over_what_nobody_has():
    assert last(move(T, A)).assigned_to == BOB.row


def test_assigning_stops_the_chain_and_tells_that_person():
    effects = moves.assign(at(T), BOB, service(), BOOK, ACTOR, NOON)

    after = last(effects)
    assert (after.assigned_to, after.escalating) == (BOB.row, False)
    assert {e.notice.kind for e in effects if isinstance(e, OweNotice)} == {NoticeKind.ASSIGNMENT}


def test_another_policy_begins_its_chain_anew():
    book = directory((0, "bob"))
    moved = at(T).but(escalation_policy=None)
    effects = moves.change_policy(moved, 1, service(), book, ACTOR, NOON + MINUTE)

    assert last(effects).chain == 2
    assert {e.notice.user for e in effects if isinstance(e, OweNotice)} == {BOB.row}


def test_an_acknowledged_incident_can_be_handed_to_somebody_who_is_told():
    effects = moves.assign(at(A), BOB, service(), BOOK, ACTOR, NOON + 2 * MINUTE)

    assert {e.notice.user for e in effects if isinstance(e, OweNotice)} == {BOB.row}
