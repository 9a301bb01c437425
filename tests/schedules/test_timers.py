"""Which timers an incident has, and what they do: after whatever moves, in whatever order."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.effects import DONE_ONCE, Actor, ArmTimers, SaveIncident
from models.enums import ActorKind, IncidentStatus, TimerKind
from models.facts import Surroundings
from pipeline import moves
from schedules import due
from schedules.timers import wanted
from tests.facts import ALICE, BOB, MINUTE, NOON, directory, incident, service, sla

ACTOR = Actor(ActorKind.USER, "Bob", user=BOB.row)
T, A, R = IncidentStatus.TRIGGERED, IncidentStatus.ACKNOWLEDGED, IncidentStatus.RESOLVED
BOOK = directory((0, "alice"), (5, "bob"))
WATCH = service(auto_resolve_s=3600, acknowledgement_timeout_s=900)
PARENT = incident(unique_id="parent", row=9, number=9)
GOLD = sla((1, -5, "alice"), (1, 10, "bob"), (2, -15, "bob"), acknowledge=20, resolve=90)
SILVER = sla((2, 0, "alice"), resolve=120, row=2, name="Silver")
PROMISED = replace(BOOK, slas={1: GOLD, 2: SILVER})


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


def decide(kind, state, at, watch=WATCH, key=""):
    return due.decide(kind, Surroundings(state, watch, BOOK), at, key)


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
        TimerKind.AUTO_RESOLVE,
        Surroundings(incident(number=1), WATCH, BOOK, (child,)),
        NOON + 60 * MINUTE,
        "",
    )

    saved = {e.incident.unique_id: e.incident.status for e in effects if isinstance(e, SaveIncident)}
    assert saved == {"incident-1": R, "child": R}


def snooze(state, now):
    if moves.against_snoozing(state):
        return ()
    return moves.snooze(state, now + 20 * MINUTE, WATCH, PROMISED, ACTOR, now)


def merge(state, now):
    return () if moves.against_merging(PARENT, [state]) else moves.merge(PARENT, [state], [], ACTOR, now)


def unmerge(state, now):
    return () if state.parent is None else moves.unmerge(state, PARENT, WATCH, PROMISED, ACTOR, now)


def fire(pending, state, now):
    """What is due by now, one after the other; the effects, and the keys of what was done for good."""
    effects, done = (), set()
    for timer in sorted(pending, key=lambda timer: timer.due_at):
        if timer.due_at <= now:
            found = Surroundings(moves.after(state, effects), WATCH, PROMISED)
            outcome, more = due.decide(timer.kind, found, now, timer.key)
            effects += more
            done |= {timer.key} if outcome.startswith(DONE_ONCE) else set()
    return effects, done


def to_sla(row):
    return lambda state, now: moves.change_sla(state, row, WATCH, PROMISED, now, "because")


def moving(to):
    return lambda state, now: moves.move(state, to, WATCH, PROMISED, ACTOR, now, "because")


MOVES = {
    "trigger": moving(T),
    "acknowledge": moving(A),
    "resolve": moving(R),
    "to alice": lambda state, now: moves.assign(state, ALICE, WATCH, PROMISED, ACTOR, now),
    "to nobody": lambda state, now: moves.assign(state, None, WATCH, PROMISED, ACTOR, now),
    "by the policy": lambda state, now: moves.change_policy(state, 1, WATCH, PROMISED, ACTOR, now),
    "by none": lambda state, now: moves.change_policy(state, None, WATCH, PROMISED, ACTOR, now),
    "snooze": snooze,
    "wake": lambda state, now: moves.wake(state, WATCH, PROMISED, ACTOR, now),
    "merge": merge,
    "unmerge": unmerge,
    "to gold": to_sla(1),
    "to silver": to_sla(2),
    "to no SLA": to_sla(None),
}
HAPPENINGS = sorted([*MOVES, "time passes"])
HISTORY = st.lists(st.tuples(st.sampled_from(HAPPENINGS), st.integers(0, 40)), max_size=25)


@given(HISTORY)
def test_after_any_moves_exactly_the_wanted_timers_wait(history):
    """Of those that do something once, those that have done it neither wait nor are done again."""
    now, state, done = NOON, incident(number=1, promised_from=NOON, sla=1), set()
    pending = set(wanted(state, WATCH, PROMISED))
    for name, minutes in history:
        now += timedelta(minutes=minutes)
        if name == "time passes":
            effects, fired = fire(pending, state, now)
            assert not fired & done
            done |= fired
        else:
            effects = MOVES[name](state, now)
        state = moves.after(state, effects)
        for armed in effects:
            if isinstance(armed, ArmTimers) and armed.incident == state.unique_id:
                pending = set(armed.wanted)
        pending = {timer for timer in pending if timer.key not in done}

        expected = {timer for timer in wanted(state, WATCH, PROMISED) if timer.key not in done}
        assert pending == expected, name
        assert state.snoozed_till is None or (state.status is A and state.parent is None)
        assert state.parent is None or state.status is not T


@given(HISTORY)
def test_what_is_open_and_no_child_is_never_forgotten(history):
    """Where the service has its time-outs, something waits for it: somebody hears of it again."""
    now, state = NOON, incident(number=1, promised_from=NOON, sla=1)
    for name, minutes in history:
        now += timedelta(minutes=minutes)
        move = MOVES.get(name, lambda state, now: fire(wanted(state, WATCH, PROMISED), state, now)[0])
        state = moves.after(state, move(state, now))
        if state.is_open and state.parent is None:
            assert kinds(state) >= {TimerKind.AUTO_RESOLVE}
        if state.status is A and state.parent is None:
            assert kinds(state) & {TimerKind.SNOOZE, TimerKind.ACKNOWLEDGEMENT_TIMEOUT}
