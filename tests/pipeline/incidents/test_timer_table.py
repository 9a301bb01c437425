"""Which timers an incident has and what they do, after any changes in any order."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.domain.effects import Author, ReconcileTimers, SaveIncident
from models.domain.enums import AuthorKind, IncidentStatus, TimerKind
from models.domain.facts import IncidentContext
from models.domain.reasons import describe
from models.domain.values import replace
from pipeline import incidents
from pipeline.incidents.decide_timer import decide_timer
from pipeline.incidents.timer_table import get_expected_timers
from tests.support.facts import ALICE, BOB, MINUTE, NOON, build_config, incident, service, sla

AUTHOR = Author(AuthorKind.USER, "Bob", user=BOB.row)
BECAUSE = describe("because")
T, A, R = IncidentStatus.TRIGGERED, IncidentStatus.ACKNOWLEDGED, IncidentStatus.RESOLVED
CONFIG = build_config((0, "alice"), (5, "bob"))
SERVICE = service(auto_resolve_s=3600, acknowledgement_timeout_s=900)
PARENT = incident(unique_id="parent", row=9, number=9)
GOLD = sla((1, -5, "alice"), (1, 10, "bob"), (2, -15, "bob"), acknowledge=20, resolve=90)
SILVER = sla((2, 0, "alice"), resolve=120, row=2, name="Silver")
CONFIG_WITH_SLAS = replace(CONFIG, slas={1: GOLD, 2: SILVER})


def list_kinds(state, timer_service=SERVICE):
    return {timer.kind for timer in get_expected_timers(state, timer_service, CONFIG)}


def build_snoozed(**changes):
    return incident(
        status=A, acknowledged_date=NOON, snoozed_at=NOON, snoozed_till=NOON + 30 * MINUTE, **changes
    )


def test_a_snooze_replaces_only_the_acknowledgement_timeout():
    assert list_kinds(build_snoozed()) == {TimerKind.SNOOZE, TimerKind.AUTO_RESOLVE}
    assert list_kinds(incident(status=A, acknowledged_date=NOON)) == {
        TimerKind.ACKNOWLEDGEMENT_TIMEOUT,
        TimerKind.AUTO_RESOLVE,
    }


def test_a_merged_incident_has_no_timers():
    for state in (
        incident(parent=9),
        incident(status=A, acknowledged_date=NOON, parent=9),
        build_snoozed(parent=9),
    ):
        assert list_kinds(state) == set()


def test_the_next_snooze_has_another_timer_key():
    first, second = build_snoozed(), build_snoozed().with_changes(snoozed_at=NOON + MINUTE)
    keys = [timer.key for state in (first, second) for timer in get_expected_timers(state, service(), CONFIG)]

    assert len(set(keys)) == 2


def at(state, now):
    return IncidentContext(state, SERVICE, CONFIG_WITH_SLAS, AUTHOR, now)


def decide(kind, state, now, timer_service=SERVICE, key=""):
    return decide_timer(IncidentContext(state, timer_service, CONFIG, AUTHOR, now), kind, key)


def test_the_end_of_a_snooze_triggers_the_incident_and_notifies_people():
    decision = decide(TimerKind.SNOOZE, build_snoozed(), NOON + 30 * MINUTE)

    after = [effect.incident for effect in decision.effects if isinstance(effect, SaveIncident)][-1]
    assert decision.outcome.code == "triggered_again"
    assert (after.status, after.snoozed_till, after.escalation_run) == (T, None, 2)
    assert [notification.user for notification in list_notifications(decision.effects)] == [ALICE.row]


def list_notifications(effects):
    return [effect.notification for effect in effects if hasattr(effect, "notification")]


@pytest.mark.parametrize(
    ("kind", "state", "code"),
    [
        (TimerKind.SNOOZE, incident(status=A), "is_not_snoozed"),
        (TimerKind.SNOOZE, build_snoozed(), "snoozed_longer"),
        (TimerKind.ACKNOWLEDGEMENT_TIMEOUT, build_snoozed(), "is_snoozed"),
        (TimerKind.AUTO_RESOLVE, incident(parent=9), "is_merged"),
        (TimerKind.ACKNOWLEDGEMENT_TIMEOUT, build_snoozed(parent=9), "is_merged"),
    ],
)
def test_a_timer_that_no_longer_applies_does_nothing_and_says_why(kind, state, code):
    decision = decide(kind, state, NOON + 20 * MINUTE)

    assert decision.outcome.code == code
    assert list_notifications(decision.effects) == []
    assert {e.incident.status for e in decision.effects if isinstance(e, SaveIncident)} <= {state.status}


def test_auto_resolve_also_resolves_the_children():
    child = incident(unique_id="child", row=2, parent=1, status=A)
    context = IncidentContext(incident(number=1), SERVICE, CONFIG, AUTHOR, NOON + 60 * MINUTE, (child,))
    decision = decide_timer(context, TimerKind.AUTO_RESOLVE, "")

    saved = {e.incident.unique_id: e.incident.status for e in decision.effects if isinstance(e, SaveIncident)}
    assert decision.outcome.code == "auto_resolved"
    assert saved == {"incident-1": R, "child": R}


def snooze(state, now):
    if incidents.check_snooze(state):
        return ()
    return incidents.snooze(at(state, now), now + 20 * MINUTE)


def merge(state, now):
    return () if incidents.check_merge(PARENT, [state]) else incidents.merge(PARENT, [state], [], AUTHOR, now)


def unmerge(state, now):
    return () if state.parent is None else incidents.unmerge(at(state, now), PARENT)


def fire(pending, state, now):
    """Fire the timers that are due in order.

    Return their effects, and the keys of timers that fire only once.
    """
    effects, done = (), set()
    for timer in sorted(pending, key=lambda timer: timer.due_at):
        if timer.due_at <= now:
            decision = decide_timer(at(incidents.get_saved(state, effects), now), timer.kind, timer.key)
            effects += decision.effects
            done |= {timer.key} if decision.fired else set()
    return effects, done


def change_sla_to(row):
    return lambda state, now: incidents.change_sla(at(state, now), row, BECAUSE)


def move_to(to):
    return lambda state, now: incidents.change_status(at(state, now), to, BECAUSE)


ACTIONS = {
    "trigger": move_to(T),
    "acknowledge": move_to(A),
    "resolve": move_to(R),
    "to alice": lambda state, now: incidents.assign(at(state, now), ALICE),
    "to nobody": lambda state, now: incidents.assign(at(state, now), None),
    "by the policy": lambda state, now: incidents.change_policy(at(state, now), 1),
    "by none": lambda state, now: incidents.change_policy(at(state, now), None),
    "snooze": snooze,
    "unsnooze": lambda state, now: incidents.unsnooze(at(state, now)),
    "merge": merge,
    "unmerge": unmerge,
    "to gold": change_sla_to(1),
    "to silver": change_sla_to(2),
    "to no SLA": change_sla_to(None),
}
ACTIONS_AND_TIMERS = sorted([*ACTIONS, "time passes"])
ACTION_LISTS = st.lists(st.tuples(st.sampled_from(ACTIONS_AND_TIMERS), st.integers(0, 40)), max_size=25)


@given(ACTION_LISTS)
def test_stored_timers_equal_expected_timers_after_any_changes(actions):
    """A timer that fires only once does not exist and does not fire again afterwards."""
    now, state, done = NOON, incident(number=1, sla_started_at=NOON, sla=1), set()
    pending = set(get_expected_timers(state, SERVICE, CONFIG_WITH_SLAS))
    for name, minutes in actions:
        now += timedelta(minutes=minutes)
        if name == "time passes":
            effects, fired = fire(pending, state, now)
            assert not fired & done
            done |= fired
        else:
            effects = ACTIONS[name](state, now)
        state = incidents.get_saved(state, effects)
        for reconcile in effects:
            if isinstance(reconcile, ReconcileTimers) and reconcile.incident == state.unique_id:
                pending = set(reconcile.expected)
        pending = {timer for timer in pending if timer.key not in done}

        expected = {
            timer for timer in get_expected_timers(state, SERVICE, CONFIG_WITH_SLAS) if timer.key not in done
        }
        assert pending == expected, name
        assert state.snoozed_till is None or (state.status is A and state.parent is None)
        assert state.parent is None or state.status is not T


@given(ACTION_LISTS)
def test_an_open_incident_without_parent_always_has_a_timer(actions):
    """The service has timeouts, so a timer will notify somebody of the incident again."""
    now, state = NOON, incident(number=1, sla_started_at=NOON, sla=1)
    for name, minutes in actions:
        now += timedelta(minutes=minutes)
        move = ACTIONS.get(
            name,
            lambda state, now: fire(get_expected_timers(state, SERVICE, CONFIG_WITH_SLAS), state, now)[0],
        )
        state = incidents.get_saved(state, move(state, now))
        if state.is_open and state.parent is None:
            assert list_kinds(state) >= {TimerKind.AUTO_RESOLVE}
        if state.status is A and state.parent is None:
            assert list_kinds(state) & {TimerKind.SNOOZE, TimerKind.ACKNOWLEDGEMENT_TIMEOUT}
