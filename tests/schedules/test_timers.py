"""Which timers an incident has, and what they do: after whatever moves, in whatever order."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.effects import Actor, ArmTimers, SaveIncident
from models.enums import ActorKind, IncidentStatus, TimerKind
from models.facts import Surroundings
from pipeline import moves
from schedules import due
from schedules.timers import wanted
from tests.facts import ALICE, BOB, MINUTE, NOON, directory, incident, service

ACTOR = Actor(ActorKind.USER, "Bob", user=BOB.row)
T, A, R = IncidentStatus.TRIGGERED, IncidentStatus.ACKNOWLEDGED, IncidentStatus.RESOLVED
BOOK = directory((0, "alice"), (5, "bob"))
WATCH = service(auto_resolve_s=3600, acknowledgement_timeout_s=900)
PARENT = incident(unique_id="parent", row=9, number=9)


def kinds(state, watch=WATCH):
    return {timer.kind for timer in wanted(state, watch, BOOK)}


def asleep(**changes):
    return incident(
        status=A, acknowledged_date=NOON, snoozed_at=NOON, snoozed_till=NOON + 30 * MINUTE, **changes
    )


def test_a_sleep_overrides_the_acknowledgement_time_out_and_nothing_else():
    assert kinds(asleep()) == {TimerKind.SNOOZE, TimerKind.AUTO_RESOLVE}
    assert kinds(incident(status=A, acknowledged_date=NOON)) == {
        TimerKind.ACKNOWLEDGEMENT_TIMEOUT,
        TimerKind.AUTO_RESOLVE,
    }


def test_a_child_waits_for_nothing():
    for state in (incident(parent=9), incident(status=A, acknowledged_date=NOON, parent=9), asleep(parent=9)):
        assert kinds(state) == set()


def test_the_next_sleep_is_another_wait():
    first, second = asleep(), asleep().but(snoozed_at=NOON + MINUTE)
    keys = [timer.key for state in (first, second) for timer in wanted(state, service(), BOOK)]

    assert len(set(keys)) == 2


def decide(kind, state, at, watch=WATCH):
    return due.decide(kind, Surroundings(state, watch, BOOK), at)


def test_when_the_sleep_is_over_it_is_triggered_again_and_people_are_told():
    outcome, effects = decide(TimerKind.SNOOZE, asleep(), NOON + 30 * MINUTE)

    after = [effect.incident for effect in effects if isinstance(effect, SaveIncident)][-1]
    assert outcome == "triggered again"
    assert (after.status, after.snoozed_till, after.chain) == (T, None, 2)
    assert [notice.user for notice in notices(effects)] == [ALICE.row]


def notices(effects):
    return [effect.notice for effect in effects if hasattr(effect, "notice")]


@pytest.mark.parametrize(
    ("kind", "state", "outcome"),
    [
        (TimerKind.SNOOZE, incident(status=A), "the incident is awake"),
        (TimerKind.SNOOZE, asleep(), "asleep until later"),
        (TimerKind.ACKNOWLEDGEMENT_TIMEOUT, asleep(), "the incident is asleep"),
        (TimerKind.AUTO_RESOLVE, incident(parent=9), "the incident is merged into another"),
        (TimerKind.ACKNOWLEDGEMENT_TIMEOUT, asleep(parent=9), "the incident is merged into another"),
    ],
)
def test_a_timer_that_comes_when_all_has_changed_does_nothing_and_says_why(kind, state, outcome):
    said, effects = decide(kind, state, NOON + 20 * MINUTE)

    assert said == outcome
    assert notices(effects) == []
    assert {e.incident.status for e in effects if isinstance(e, SaveIncident)} <= {state.status}


def test_an_incident_that_resolves_itself_takes_its_children_with_it():
    child = incident(unique_id="child", row=2, parent=1, status=A)
    _, effects = due.decide(
        TimerKind.AUTO_RESOLVE, Surroundings(incident(number=1), WATCH, BOOK, (child,)), NOON + 60 * MINUTE
    )

    saved = {e.incident.unique_id: e.incident.status for e in effects if isinstance(e, SaveIncident)}
    assert saved == {"incident-1": R, "child": R}


def snooze(state, now):
    if moves.against_snoozing(state):
        return ()
    return moves.snooze(state, now + 20 * MINUTE, WATCH, BOOK, ACTOR, now)


def merge(state, now):
    return () if moves.against_merging(PARENT, [state]) else moves.merge(PARENT, [state], [], ACTOR, now)


def unmerge(state, now):
    return () if state.parent is None else moves.unmerge(state, PARENT, WATCH, ACTOR, now)


def fire(state, now):
    """What is due by now, one after the other."""
    effects = ()
    for timer in sorted(wanted(state, WATCH, BOOK), key=lambda timer: timer.due_at):
        if timer.due_at <= now:
            effects += decide(timer.kind, moves.after(state, effects), now)[1]
    return effects


def moving(to):
    return lambda state, now: moves.move(state, to, WATCH, BOOK, ACTOR, now, "because")


MOVES = {
    "trigger": moving(T),
    "acknowledge": moving(A),
    "resolve": moving(R),
    "to alice": lambda state, now: moves.assign(state, ALICE, WATCH, BOOK, ACTOR, now),
    "to nobody": lambda state, now: moves.assign(state, None, WATCH, BOOK, ACTOR, now),
    "by the policy": lambda state, now: moves.change_policy(state, 1, WATCH, BOOK, ACTOR, now),
    "by none": lambda state, now: moves.change_policy(state, None, WATCH, BOOK, ACTOR, now),
    "snooze": snooze,
    "wake": lambda state, now: moves.wake(state, WATCH, BOOK, ACTOR, now),
    "merge": merge,
    "unmerge": unmerge,
    "time passes": fire,
}
HISTORY = st.lists(st.tuples(st.sampled_from(sorted(MOVES)), st.integers(0, 40)), max_size=25)


@given(HISTORY)
def test_after_any_moves_exactly_the_wanted_timers_wait(history):
    now, state = NOON, incident(number=1)
    pending = set(wanted(state, WATCH, BOOK))
    for name, minutes in history:
        now += timedelta(minutes=minutes)
        effects = MOVES[name](state, now)
        state = moves.after(state, effects)
        for armed in effects:
            if isinstance(armed, ArmTimers) and armed.incident == state.unique_id:
                pending = set(armed.wanted)

        assert pending == set(wanted(state, WATCH, BOOK)), name
        assert state.snoozed_till is None or (state.status is A and state.parent is None)
        assert state.parent is None or state.status is not T


@given(HISTORY)
def test_what_is_open_and_no_child_is_never_forgotten(history):
    """Where the service has its time-outs, something waits for it: somebody hears of it again."""
    now, state = NOON, incident(number=1)
    for name, minutes in history:
        now += timedelta(minutes=minutes)
        state = moves.after(state, MOVES[name](state, now))
        if state.is_open and state.parent is None:
            assert kinds(state) >= {TimerKind.AUTO_RESOLVE}
        if state.status is A and state.parent is None:
            assert kinds(state) & {TimerKind.SNOOZE, TimerKind.ACKNOWLEDGEMENT_TIMEOUT}
