"""Every status against every wanted status, and what comes with a move."""

import itertools
from dataclasses import replace

import pytest

from models.effects import (
    Actor,
    ArmTimers,
    OweNotice,
    ReclaimEntities,
    RecordLog,
    ReleaseEntities,
    SaveIncident,
    TakeTurn,
    VoidNotices,
)
from models.enums import ActorKind, IncidentStatus, NoticeKind, Urgency
from models.facts import ForwardingFacts
from pipeline import moves
from tests.facts import ALICE, BOB, CHARLIE, MINUTE, NOON, directory, incident, service

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


def test_taken_from_whom_the_chain_was_stopped_for_and_given_to_nobody_it_begins_anew():
    stopped = at(T).but(assigned_to=BOB.row, escalating=False, reached=True, chain=2)
    effects = moves.assign(stopped, None, service(), BOOK, ACTOR, NOON + MINUTE)

    after = last(effects)
    assert (after.assigned_to, after.escalating, after.chain, after.next_step) == (None, True, 3, 1)
    assert {e.notice.user for e in effects if isinstance(e, OweNotice)} == {ALICE.row}


@pytest.mark.parametrize(
    "state",
    [at(T).but(assigned_to=ALICE.row), at(A).but(assigned_to=BOB.row, escalating=False)],
    ids=["its chain goes on", "somebody has answered"],
)
def test_given_to_nobody_it_tells_nobody_who_need_not_hear_of_it(state):
    effects = moves.assign(state, None, service(), BOOK, ACTOR, NOON + MINUTE)

    assert (last(effects).assigned_to, last(effects).chain) == (None, state.chain)
    assert OweNotice not in kinds(effects)


def test_another_policy_begins_its_chain_anew():
    book = directory((0, "bob"))
    moved = at(T).but(escalation_policy=None)
    effects = moves.change_policy(moved, 1, service(), book, ACTOR, NOON + MINUTE)

    assert last(effects).chain == 2
    assert {e.notice.user for e in effects if isinstance(e, OweNotice)} == {BOB.row}


def test_another_policy_assigns_what_nobody_has_acknowledged_to_its_own_people():
    book = directory((0, "bob"))

    waiting = moves.change_policy(at(T).but(escalation_policy=None), 1, service(), book, ACTOR, NOON)
    taken = moves.change_policy(
        at(A).but(escalation_policy=None, assigned_to=ALICE.row), 1, service(), book, ACTOR, NOON
    )

    assert (last(waiting).assigned_to, last(taken).assigned_to) == (BOB.row, ALICE.row)


def test_another_policy_takes_a_turn_of_its_own():
    book = replace(directory((0, "alice", "bob"), round_robin=True), turns={1: 1})
    effects = moves.change_policy(at(T).but(escalation_policy=None), 1, service(), book, ACTOR, NOON)

    assert (last(effects).assigned_to, TakeTurn(1, 1, 0) in effects) == (BOB.row, True)


def test_an_acknowledged_incident_can_be_handed_to_somebody_who_is_told():
    effects = moves.assign(at(A), BOB, service(), BOOK, ACTOR, NOON + 2 * MINUTE)

    assert {e.notice.user for e in effects if isinstance(e, OweNotice)} == {BOB.row}


UNTIL = NOON + 60 * MINUTE


def asleep(**changes):
    """Acknowledged, and put off for an hour."""
    return at(A).but(snoozed_at=NOON + 2 * MINUTE, snoozed_till=UNTIL, **changes)


def sleeps(state):
    return (state.snoozed_at, state.snoozed_till) != (None, None)


def logged(effects):
    return [effect.what for effect in effects if isinstance(effect, RecordLog)]


@pytest.mark.parametrize(
    ("state", "against"),
    [
        (at(T), "Only an acknowledged incident can be snoozed."),
        (at(R), "Only an acknowledged incident can be snoozed."),
        (at(A), None),
        (asleep(), None),
        (at(A).but(parent=9), "It is merged into another one, and silent already."),
    ],
    ids=["triggered", "resolved", "acknowledged", "asleep already", "a child"],
)
def test_only_what_is_acknowledged_and_can_be_heard_is_put_to_sleep(state, against):
    assert moves.against_snoozing(state) == against


def test_a_sleep_is_silent_and_written_down():
    effects = moves.snooze(at(A), UNTIL, service(), BOOK, ACTOR, NOON + 2 * MINUTE)

    assert (last(effects).snoozed_at, last(effects).snoozed_till) == (NOON + 2 * MINUTE, UNTIL)
    assert VoidNotices in kinds(effects)
    assert [effect.reason for effect in effects if isinstance(effect, RecordLog)] == [
        "until 2026-03-04 13:00:00 UTC by Bob"
    ]


ENDS = {
    "triggered": lambda state: moves.move(state, T, service(), BOOK, ACTOR, NOON, "because"),
    "resolved": lambda state: moves.move(state, R, service(), BOOK, ACTOR, NOON, "because"),
    "assigned": lambda state: moves.assign(state, ALICE, service(), BOOK, ACTOR, NOON),
    "assigned to nobody": lambda state: moves.assign(state, None, service(), BOOK, ACTOR, NOON),
    "rerouted": lambda state: moves.change_policy(state, None, service(), BOOK, ACTOR, NOON),
    "woken": lambda state: moves.wake(state, service(), BOOK, ACTOR, NOON),
    "merged": lambda state: moves.merge(incident(unique_id="p", row=9), [state], [], ACTOR, NOON),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_sleep_ends_with_whatever_happens_to_the_incident(how):
    effects = ENDS[how](asleep(assigned_to=BOB.row))

    assert not sleeps(last(effects))
    (armed,) = [effect for effect in effects if isinstance(effect, ArmTimers)][-1:]
    assert "snooze" not in [timer.kind for timer in armed.wanted]


@pytest.mark.parametrize("how", ["assigned", "assigned to nobody", "woken"])
def test_what_a_sleep_put_off_is_not_all_over_at_once(how):
    watch = service(acknowledgement_timeout_s=900)
    later = NOON + 50 * MINUTE
    state = asleep(assigned_to=BOB.row)
    effects = {
        "assigned": lambda: moves.assign(state, ALICE, watch, BOOK, ACTOR, later),
        "assigned to nobody": lambda: moves.assign(state, None, watch, BOOK, ACTOR, later),
        "woken": lambda: moves.wake(state, watch, BOOK, ACTOR, later),
    }[how]()

    (armed,) = [effect for effect in effects if isinstance(effect, ArmTimers)]
    assert [timer.due_at for timer in armed.wanted] == [later + 15 * MINUTE]


def test_waking_what_is_awake_changes_nothing():
    assert moves.wake(at(A), service(), BOOK, ACTOR, NOON) == ()


def test_a_reason_stands_in_the_history_of_what_was_handed_on():
    effects = moves.assign(at(T), BOB, service(), BOOK, ACTOR, NOON, "knows databases")

    reasons = [effect.reason for effect in effects if isinstance(effect, RecordLog)]
    assert reasons == ["assigned to Bob by Bob: knows databases"]


PARENT = incident(unique_id="parent", row=9, number=9)


def child(number=1, **changes):
    return at(T).but(unique_id=f"child-{number}", row=number, number=number, **changes)


@pytest.mark.parametrize(
    ("parent", "children", "against"),
    [
        (PARENT, [child()], None),
        (PARENT, [child(status=A), child(2)], None),
        (PARENT.but(status=R), [child()], "#9 is resolved."),
        (PARENT.but(parent=5), [child()], "#9 is merged into another one."),
        (PARENT, [child(), PARENT], "An incident cannot be merged into itself."),
        (PARENT, [child(), child(2, status=R)], "#2 is resolved."),
        (PARENT, [child(parent=5)], "#1 is merged into another one, or into this, already."),
        (PARENT, [child(parent=9)], "#1 is merged into another one, or into this, already."),
    ],
)
def test_only_open_incidents_that_stand_alone_are_merged(parent, children, against):
    assert moves.against_merging(parent, children) == against


def said_last(effects):
    return {
        effect.incident.unique_id: effect.incident for effect in effects if isinstance(effect, SaveIncident)
    }


def test_a_child_is_acknowledged_silent_and_gathers_nothing_more():
    effects = moves.merge(PARENT, [child(collecting=True)], [], ACTOR, NOON)

    after = said_last(effects)["child-1"]
    assert (after.status, after.parent, after.collecting) == (A, 9, False)
    assert (after.acknowledged_date, after.assigned_to) == (NOON, BOB.row)
    assert VoidNotices in kinds(effects)
    assert [armed.wanted for armed in effects if isinstance(armed, ArmTimers)] == [(), ()]
    assert logged(effects) == ["merged", "acknowledged", "merged"]


def test_who_had_a_child_keeps_it():
    before = child(status=A, acknowledged_date=NOON - MINUTE, assigned_to=ALICE.row)
    after = said_last(moves.merge(PARENT, [before], [], ACTOR, NOON))["child-1"]

    assert (after.acknowledged_date, after.assigned_to) == (NOON - MINUTE, ALICE.row)


def test_families_have_two_generations():
    of_child = child(2, status=R, parent=1)
    effects = moves.merge(PARENT, [child()], [of_child], ACTOR, NOON)

    assert {name: state.parent for name, state in said_last(effects).items()} == {"child-1": 9, "child-2": 9}
    assert said_last(effects)["child-2"].status is R


def test_children_are_resolved_with_their_parent_and_those_that_were_before_are_left_alone():
    children = [child(1, status=A, parent=9), child(2, status=R, parent=9)]
    effects = moves.move(PARENT, R, service(), BOOK, ACTOR, NOON, "because", children)

    assert {name: state.status for name, state in said_last(effects).items()} == {"parent": R, "child-1": R}
    assert said_last(effects)["child-1"].parent == 9
    assert {e.incident for e in effects if isinstance(e, ReleaseEntities)} == {"parent", "child-1"}
    assert "merged into #9, which is resolved" in [e.reason for e in effects if isinstance(e, RecordLog)]


@pytest.mark.parametrize("to", [T, A])
def test_acknowledging_or_triggering_a_parent_moves_no_child(to):
    parent = PARENT.but(status=A if to is T else T)
    effects = moves.move(parent, to, service(), BOOK, ACTOR, NOON, "because", [child(status=A, parent=9)])

    assert set(said_last(effects)) == {"parent"}


@pytest.mark.parametrize(("status", "to"), [(A, T), (R, T), (R, A)])
def test_a_child_that_needs_somebody_again_stands_alone(status, to):
    before = at(status).but(parent=9)
    effects = moves.move(before, to, service(), BOOK, ACTOR, NOON, "because")

    assert last(effects).parent is None
    assert "unmerged" in logged(effects)


def test_a_child_that_is_resolved_alone_stays_one():
    effects = moves.move(at(A).but(parent=9), R, service(), BOOK, ACTOR, NOON, "because")

    assert last(effects).parent == 9
    assert logged(effects) == ["resolved"]


@pytest.mark.parametrize("status", [A, R])
def test_unmerged_it_is_what_it_was_and_its_time_outs_have_their_whole_time(status):
    watch = service(auto_resolve_s=600, acknowledgement_timeout_s=900)
    later = NOON + 60 * MINUTE
    effects = moves.unmerge(at(status).but(parent=9), PARENT, watch, BOOK, ACTOR, later)

    assert (last(effects).status, last(effects).parent) == (status, None)
    (armed,) = [effect for effect in effects if isinstance(effect, ArmTimers)]
    due = [later + 10 * MINUTE, later + 15 * MINUTE] if status is A else []
    assert sorted(timer.due_at for timer in armed.wanted) == due


CHAIN = {NoticeKind.ESCALATION, NoticeKind.ASSIGNMENT, NoticeKind.NOBODY_REACHED}
OF_HELP = NoticeKind.RESPONDER
OF_ANSWER, OF_END = NoticeKind.SLA_ACKNOWLEDGE, NoticeKind.SLA_RESOLVE
BOBS = at(T).but(assigned_to=BOB.row, escalating=False)
HANDED_TO_NOBODY = moves.assign(BOBS, None, service(), BOOK, ACTOR, NOON)


def kept_by_bob(*steps, bob=BOB):
    """Of another policy, with these steps."""
    around = (service(), directory(*steps, people=(ALICE, bob, CHARLIE)), ACTOR, NOON)
    return moves.change_policy(BOBS.but(escalation_policy=None), 1, *around, keeps_assignee=True)


AWAY = replace(BOB, forwarding=(ForwardingFacts(NOON, NOON + MINUTE, CHARLIE),))
KEPT, KEPT_BY_WHO_IS_NAMED = kept_by_bob((0, "alice")), kept_by_bob((0, "bob"))
KEPT_BY_WHO_IS_AWAY = kept_by_bob((0, "bob"), bob=AWAY)


@pytest.mark.parametrize(
    ("effects", "void"),
    [
        (move(T, A), {*CHAIN, OF_HELP, OF_ANSWER}),
        (move(T, R), {*CHAIN, OF_HELP, OF_ANSWER, OF_END}),
        (moves.assign(at(T), ALICE, service(), BOOK, ACTOR, NOON), CHAIN),
        (HANDED_TO_NOBODY, {NoticeKind.ASSIGNMENT}),
        (moves.change_policy(at(T), None, service(), BOOK, ACTOR, NOON), CHAIN),
        (KEPT, CHAIN - {NoticeKind.ASSIGNMENT}),
        (KEPT_BY_WHO_IS_NAMED, CHAIN),
        (KEPT_BY_WHO_IS_AWAY, CHAIN),
        (moves.snooze(at(A), NOON + MINUTE, service(), BOOK, ACTOR, NOON), {*CHAIN, OF_HELP}),
        (moves.merge(PARENT, [at(T)], [], ACTOR, NOON), {*CHAIN, OF_HELP, OF_ANSWER, OF_END}),
        (moves.change_sla(at(T), 2, service(), BOOK, NOON, "because"), {OF_ANSWER, OF_END}),
        (moves.change_urgency(at(T), Urgency.LOW, [], ACTOR, NOON), {*CHAIN, OF_HELP}),
        (move(A, T), set()),
    ],
    ids=[
        "acknowledged", "resolved", "assigned", "assigned to nobody", "re-routed",
        "re-routed and kept", "re-routed to who keeps it",
        "re-routed to who keeps it and is away", "snoozed", "merged", "another SLA",
        "another urgency", "reopened",
    ],
)  # fmt: skip
def test_a_move_voids_what_it_concerns_and_nothing_else(effects, void):
    kinds = (effect.kinds for effect in effects if isinstance(effect, VoidNotices))

    assert set().union(*kinds) - {NoticeKind.TEST} == void
