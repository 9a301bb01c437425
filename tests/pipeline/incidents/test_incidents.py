"""Every status against every wanted status, and what comes with a move."""

import itertools
from dataclasses import replace

import pytest

from models.domain.effects import (
    Actor,
    AdvanceRoundRobin,
    CancelNotifications,
    CreateNotification,
    ReclaimEntities,
    ReconcileTimers,
    RecordLog,
    ReleaseEntities,
    SaveIncident,
)
from models.domain.enums import ActorKind, IncidentStatus, NotificationKind, Urgency
from models.domain.facts import ForwardingFacts
from pipeline import incidents
from tests.support.facts import ALICE, BOB, CHARLIE, MINUTE, NOON, build_config, incident, service

ACTOR = Actor(ActorKind.USER, "Bob", user=BOB.row)
T, A, R = IncidentStatus.TRIGGERED, IncidentStatus.ACKNOWLEDGED, IncidentStatus.RESOLVED
CONFIG = build_config((0, "alice"), (5, "bob"))


def build_incident_in(status):
    """An incident that got into this status a minute after it began."""
    return incident(
        status=status,
        acknowledged_date=NOON + MINUTE if status is A else None,
        resolved_date=NOON + MINUTE if status is R else None,
        next_step=1,
    )


def move(status, to):
    return incidents.change_status(
        build_incident_in(status), to, service(), CONFIG, ACTOR, NOON + 2 * MINUTE, "because"
    )


def get_last_incident(effects):
    return [effect.incident for effect in effects if isinstance(effect, SaveIncident)][-1]


def kinds(effects):
    return {type(effect) for effect in effects}


@pytest.mark.parametrize("status", list(IncidentStatus))
def test_moving_to_where_it_is_changes_nothing(status):
    assert move(status, status) == ()


@pytest.mark.parametrize(("status", "to"), list(itertools.permutations(IncidentStatus, 2)))
def test_every_other_move_is_possible_logged_and_replans_the_timers(status, to):
    effects = move(status, to)

    assert get_last_incident(effects).status is to
    assert {RecordLog, ReconcileTimers} <= kinds(effects)


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
    after = get_last_incident(move(status, to))

    assert (after.acknowledged_date, after.resolved_date) == (acknowledged, resolved)


@pytest.mark.parametrize("to", [A, R])
def test_acknowledging_and_resolving_void_what_is_owed_and_stop_the_chain(to):
    effects = move(T, to)

    assert CancelNotifications in kinds(effects)
    assert CreateNotification not in kinds(effects)
    (reconcile,) = [effect for effect in effects if isinstance(effect, ReconcileTimers)]
    assert reconcile.expected == ()


@pytest.mark.parametrize(
    ("status", "to", "kind"), [(T, R, ReleaseEntities), (R, T, ReclaimEntities), (R, A, ReclaimEntities)]
)
def test_entities_are_released_by_a_resolve_and_reclaimed_by_reopening(status, to, kind):
    assert kind in kinds(move(status, to))


@pytest.mark.parametrize("status", [A, R])
def test_triggering_again_begins_a_new_chain_from_the_first_step(status):
    effects = move(status, T)

    after = get_last_incident(effects)
    assert (after.escalation_run, after.run_started_at, after.next_step) == (2, NOON + 2 * MINUTE, 1)
    assert [effect.notification.user for effect in effects if isinstance(effect, CreateNotification)] == [
        ALICE.row
    ]


def test_reopening_as_acknowledged_gives_the_time_outs_their_whole_time():
    later = NOON + 60 * MINUTE
    watched_service = service(auto_resolve_s=600, acknowledgement_timeout_s=900)
    closed = incident(status=R, acknowledged_date=NOON + MINUTE, resolved_date=NOON + 2 * MINUTE)
    effects = incidents.change_status(closed, A, watched_service, CONFIG, ACTOR, later, "because")

    (reconcile,) = [effect for effect in effects if isinstance(effect, ReconcileTimers)]
    assert sorted(timer.due_at for timer in reconcile.expected) == [later + 10 * MINUTE, later + 15 * MINUTE]


def test_acknowledging_takes_over_what_nobody_has():
    assert get_last_incident(move(T, A)).assigned_to == BOB.row


def test_assigning_stops_the_chain_and_tells_that_person():
    effects = incidents.assign(build_incident_in(T), BOB, service(), CONFIG, ACTOR, NOON)

    after = get_last_incident(effects)
    assert (after.assigned_to, after.escalating) == (BOB.row, False)
    assert {e.notification.kind for e in effects if isinstance(e, CreateNotification)} == {
        NotificationKind.ASSIGNMENT
    }


def test_taken_from_whom_the_chain_was_stopped_for_and_given_to_nobody_it_begins_anew():
    stopped = build_incident_in(T).with_changes(
        assigned_to=BOB.row, escalating=False, paged_someone=True, escalation_run=2
    )
    effects = incidents.assign(stopped, None, service(), CONFIG, ACTOR, NOON + MINUTE)

    after = get_last_incident(effects)
    assert (after.assigned_to, after.escalating, after.escalation_run, after.next_step) == (None, True, 3, 1)
    assert {e.notification.user for e in effects if isinstance(e, CreateNotification)} == {ALICE.row}


@pytest.mark.parametrize(
    "state",
    [
        build_incident_in(T).with_changes(assigned_to=ALICE.row),
        build_incident_in(A).with_changes(assigned_to=BOB.row, escalating=False),
    ],
    ids=["its chain goes on", "somebody has answered"],
)
def test_given_to_nobody_it_tells_nobody_who_need_not_hear_of_it(state):
    effects = incidents.assign(state, None, service(), CONFIG, ACTOR, NOON + MINUTE)

    assert (get_last_incident(effects).assigned_to, get_last_incident(effects).escalation_run) == (
        None,
        state.escalation_run,
    )
    assert CreateNotification not in kinds(effects)


def test_another_policy_begins_its_chain_anew():
    config = build_config((0, "bob"))
    moved = build_incident_in(T).with_changes(escalation_policy=None)
    effects = incidents.change_policy(moved, 1, service(), config, ACTOR, NOON + MINUTE)

    assert get_last_incident(effects).escalation_run == 2
    assert {e.notification.user for e in effects if isinstance(e, CreateNotification)} == {BOB.row}


def test_another_policy_assigns_what_nobody_has_acknowledged_to_its_own_people():
    config = build_config((0, "bob"))

    pending_outcome = incidents.change_policy(
        build_incident_in(T).with_changes(escalation_policy=None), 1, service(), config, ACTOR, NOON
    )
    taken = incidents.change_policy(
        build_incident_in(A).with_changes(escalation_policy=None, assigned_to=ALICE.row),
        1,
        service(),
        config,
        ACTOR,
        NOON,
    )

    assert (get_last_incident(pending_outcome).assigned_to, get_last_incident(taken).assigned_to) == (
        BOB.row,
        ALICE.row,
    )


def test_another_policy_takes_a_turn_of_its_own():
    config = replace(build_config((0, "alice", "bob"), round_robin=True), next_targets={1: 1})
    effects = incidents.change_policy(
        build_incident_in(T).with_changes(escalation_policy=None), 1, service(), config, ACTOR, NOON
    )

    assert (get_last_incident(effects).assigned_to, AdvanceRoundRobin(1, 1, 0) in effects) == (BOB.row, True)


def test_an_acknowledged_incident_can_be_handed_to_somebody_who_is_told():
    effects = incidents.assign(build_incident_in(A), BOB, service(), CONFIG, ACTOR, NOON + 2 * MINUTE)

    assert {e.notification.user for e in effects if isinstance(e, CreateNotification)} == {BOB.row}


SNOOZED_UNTIL = NOON + 60 * MINUTE


def build_snoozed(**changes):
    """Acknowledged, and put off for an hour."""
    return build_incident_in(A).with_changes(
        snoozed_at=NOON + 2 * MINUTE, snoozed_till=SNOOZED_UNTIL, **changes
    )


def list_snooze_errors(state):
    return (state.snoozed_at, state.snoozed_till) != (None, None)


def list_logged(effects):
    return [effect.what for effect in effects if isinstance(effect, RecordLog)]


@pytest.mark.parametrize(
    ("state", "against"),
    [
        (build_incident_in(T), "Only an acknowledged incident can be snoozed."),
        (build_incident_in(R), "Only an acknowledged incident can be snoozed."),
        (build_incident_in(A), None),
        (build_snoozed(), None),
        (
            build_incident_in(A).with_changes(parent=9),
            "It is merged into another incident and already silent.",
        ),
    ],
    ids=["triggered", "resolved", "acknowledged", "asleep already", "a child"],
)
def test_only_what_is_acknowledged_and_can_be_heard_is_put_to_sleep(state, against):
    assert incidents.check_snooze(state) == against


def test_a_sleep_is_silent_and_written_down():
    effects = incidents.snooze(
        build_incident_in(A), SNOOZED_UNTIL, service(), CONFIG, ACTOR, NOON + 2 * MINUTE
    )

    assert (get_last_incident(effects).snoozed_at, get_last_incident(effects).snoozed_till) == (
        NOON + 2 * MINUTE,
        SNOOZED_UNTIL,
    )
    assert CancelNotifications in kinds(effects)
    assert [effect.reason for effect in effects if isinstance(effect, RecordLog)] == [
        "until 2026-03-04 13:00:00 UTC by Bob"
    ]


ENDS = {
    "triggered": lambda state: incidents.change_status(state, T, service(), CONFIG, ACTOR, NOON, "because"),
    "resolved": lambda state: incidents.change_status(state, R, service(), CONFIG, ACTOR, NOON, "because"),
    "assigned": lambda state: incidents.assign(state, ALICE, service(), CONFIG, ACTOR, NOON),
    "assigned to nobody": lambda state: incidents.assign(state, None, service(), CONFIG, ACTOR, NOON),
    "rerouted": lambda state: incidents.change_policy(state, None, service(), CONFIG, ACTOR, NOON),
    "woken": lambda state: incidents.unsnooze(state, service(), CONFIG, ACTOR, NOON),
    "merged": lambda state: incidents.merge(incident(unique_id="p", row=9), [state], [], ACTOR, NOON),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_sleep_ends_with_whatever_happens_to_the_incident(how):
    effects = ENDS[how](build_snoozed(assigned_to=BOB.row))

    assert not list_snooze_errors(get_last_incident(effects))
    (reconcile,) = [effect for effect in effects if isinstance(effect, ReconcileTimers)][-1:]
    assert "snooze" not in [timer.kind for timer in reconcile.expected]


@pytest.mark.parametrize("how", ["assigned", "assigned to nobody", "woken"])
def test_what_a_sleep_put_off_is_not_all_over_at_once(how):
    watched_service = service(acknowledgement_timeout_s=900)
    later = NOON + 50 * MINUTE
    state = build_snoozed(assigned_to=BOB.row)
    effects = {
        "assigned": lambda: incidents.assign(state, ALICE, watched_service, CONFIG, ACTOR, later),
        "assigned to nobody": lambda: incidents.assign(state, None, watched_service, CONFIG, ACTOR, later),
        "woken": lambda: incidents.unsnooze(state, watched_service, CONFIG, ACTOR, later),
    }[how]()

    (reconcile,) = [effect for effect in effects if isinstance(effect, ReconcileTimers)]
    assert [timer.due_at for timer in reconcile.expected] == [later + 15 * MINUTE]


def test_waking_what_is_awake_changes_nothing():
    assert incidents.unsnooze(build_incident_in(A), service(), CONFIG, ACTOR, NOON) == ()


def test_a_reason_stands_in_the_history_of_what_was_handed_on():
    effects = incidents.assign(build_incident_in(T), BOB, service(), CONFIG, ACTOR, NOON, "knows databases")

    reasons = [effect.reason for effect in effects if isinstance(effect, RecordLog)]
    assert reasons == ["assigned to Bob by Bob: knows databases"]


PARENT = incident(unique_id="parent", row=9, number=9)


def build_child(number=1, **changes):
    return build_incident_in(T).with_changes(
        unique_id=f"child-{number}", row=number, number=number, **changes
    )


@pytest.mark.parametrize(
    ("parent", "children", "against"),
    [
        (PARENT, [build_child()], None),
        (PARENT, [build_child(status=A), build_child(2)], None),
        (PARENT.with_changes(status=R), [build_child()], "#9 is resolved."),
        (PARENT.with_changes(parent=5), [build_child()], "#9 is merged into another one."),
        (PARENT, [build_child(), PARENT], "An incident cannot be merged into itself."),
        (PARENT, [build_child(), build_child(2, status=R)], "#2 is resolved."),
        (PARENT, [build_child(parent=5)], "#1 is merged into another one, or into this, already."),
        (PARENT, [build_child(parent=9)], "#1 is merged into another one, or into this, already."),
    ],
)
def test_only_open_incidents_that_stand_alone_are_merged(parent, children, against):
    assert incidents.check_merge(parent, children) == against


def get_last_reason(effects):
    return {
        effect.incident.unique_id: effect.incident for effect in effects if isinstance(effect, SaveIncident)
    }


def test_a_child_is_acknowledged_silent_and_gathers_nothing_more():
    effects = incidents.merge(PARENT, [build_child(collecting=True)], [], ACTOR, NOON)

    after = get_last_reason(effects)["child-1"]
    assert (after.status, after.parent, after.collecting) == (A, 9, False)
    assert (after.acknowledged_date, after.assigned_to) == (NOON, BOB.row)
    assert CancelNotifications in kinds(effects)
    assert [reconcile.expected for reconcile in effects if isinstance(reconcile, ReconcileTimers)] == [(), ()]
    assert list_logged(effects) == ["merged", "acknowledged", "merged"]


def test_who_had_a_child_keeps_it():
    before = build_child(status=A, acknowledged_date=NOON - MINUTE, assigned_to=ALICE.row)
    after = get_last_reason(incidents.merge(PARENT, [before], [], ACTOR, NOON))["child-1"]

    assert (after.acknowledged_date, after.assigned_to) == (NOON - MINUTE, ALICE.row)


def test_families_have_two_generations():
    of_child = build_child(2, status=R, parent=1)
    effects = incidents.merge(PARENT, [build_child()], [of_child], ACTOR, NOON)

    assert {name: state.parent for name, state in get_last_reason(effects).items()} == {
        "child-1": 9,
        "child-2": 9,
    }
    assert get_last_reason(effects)["child-2"].status is R


def test_children_are_resolved_with_their_parent_and_those_that_were_before_are_left_alone():
    children = [build_child(1, status=A, parent=9), build_child(2, status=R, parent=9)]
    effects = incidents.change_status(PARENT, R, service(), CONFIG, ACTOR, NOON, "because", children)

    assert {name: state.status for name, state in get_last_reason(effects).items()} == {
        "parent": R,
        "child-1": R,
    }
    assert get_last_reason(effects)["child-1"].parent == 9
    assert {e.incident for e in effects if isinstance(e, ReleaseEntities)} == {"parent", "child-1"}
    assert "merged into #9, which is resolved" in [e.reason for e in effects if isinstance(e, RecordLog)]


@pytest.mark.parametrize("to", [T, A])
def test_acknowledging_or_triggering_a_parent_moves_no_child(to):
    parent = PARENT.with_changes(status=A if to is T else T)
    effects = incidents.change_status(
        parent, to, service(), CONFIG, ACTOR, NOON, "because", [build_child(status=A, parent=9)]
    )

    assert set(get_last_reason(effects)) == {"parent"}


@pytest.mark.parametrize(("status", "to"), [(A, T), (R, T), (R, A)])
def test_a_child_that_needs_somebody_again_stands_alone(status, to):
    before = build_incident_in(status).with_changes(parent=9)
    effects = incidents.change_status(before, to, service(), CONFIG, ACTOR, NOON, "because")

    assert get_last_incident(effects).parent is None
    assert "unmerged" in list_logged(effects)


def test_a_child_that_is_resolved_alone_stays_one():
    effects = incidents.change_status(
        build_incident_in(A).with_changes(parent=9), R, service(), CONFIG, ACTOR, NOON, "because"
    )

    assert get_last_incident(effects).parent == 9
    assert list_logged(effects) == ["resolved"]


@pytest.mark.parametrize("status", [A, R])
def test_unmerged_it_is_what_it_was_and_its_time_outs_have_their_whole_time(status):
    watched_service = service(auto_resolve_s=600, acknowledgement_timeout_s=900)
    later = NOON + 60 * MINUTE
    effects = incidents.unmerge(
        build_incident_in(status).with_changes(parent=9), PARENT, watched_service, CONFIG, ACTOR, later
    )

    assert (get_last_incident(effects).status, get_last_incident(effects).parent) == (status, None)
    (reconcile,) = [effect for effect in effects if isinstance(effect, ReconcileTimers)]
    due_moments = [later + 10 * MINUTE, later + 15 * MINUTE] if status is A else []
    assert sorted(timer.due_at for timer in reconcile.expected) == due_moments


ESCALATION_NOTIFICATION = {
    NotificationKind.ESCALATION,
    NotificationKind.ASSIGNMENT,
    NotificationKind.NOBODY_PAGED,
}
RESPONDER_NOTIFICATION = NotificationKind.RESPONDER
SLA_ACKNOWLEDGE_NOTIFICATION, SLA_RESOLVE_NOTIFICATION = (
    NotificationKind.SLA_ACKNOWLEDGE,
    NotificationKind.SLA_RESOLVE,
)
BOB_NOTIFIED = build_incident_in(T).with_changes(assigned_to=BOB.row, escalating=False)
UNASSIGNED = incidents.assign(BOB_NOTIFIED, None, service(), CONFIG, ACTOR, NOON)


def build_assigned_to_bob(*steps, bob=BOB):
    """Of another policy, with these steps."""
    context = (service(), build_config(*steps, people=(ALICE, bob, CHARLIE)), ACTOR, NOON)
    return incidents.change_policy(
        BOB_NOTIFIED.with_changes(escalation_policy=None), 1, *context, keep_assignee=True
    )


FORWARDED = replace(BOB, forwarding=(ForwardingFacts(NOON, NOON + MINUTE, CHARLIE),))
STILL_NOTIFIED, STILL_NOTIFIED_BY_STEP = (
    build_assigned_to_bob((0, "alice")),
    build_assigned_to_bob((0, "bob")),
)
STILL_NOTIFIED_BY_FORWARDING = build_assigned_to_bob((0, "bob"), bob=FORWARDED)


@pytest.mark.parametrize(
    ("effects", "void"),
    [
        (move(T, A), {*ESCALATION_NOTIFICATION, RESPONDER_NOTIFICATION, SLA_ACKNOWLEDGE_NOTIFICATION}),
        (move(T, R), {*ESCALATION_NOTIFICATION, RESPONDER_NOTIFICATION, SLA_ACKNOWLEDGE_NOTIFICATION,
        SLA_RESOLVE_NOTIFICATION}),
        (incidents.assign(build_incident_in(T), ALICE, service(), CONFIG, ACTOR, NOON),
         ESCALATION_NOTIFICATION),
        (UNASSIGNED, {NotificationKind.ASSIGNMENT}),
        (incidents.change_policy(build_incident_in(T), None, service(), CONFIG, ACTOR, NOON),
        ESCALATION_NOTIFICATION), (STILL_NOTIFIED, ESCALATION_NOTIFICATION - {NotificationKind.ASSIGNMENT}),
        (STILL_NOTIFIED_BY_STEP, ESCALATION_NOTIFICATION),
        (STILL_NOTIFIED_BY_FORWARDING, ESCALATION_NOTIFICATION),
        (incidents.snooze(build_incident_in(A), NOON + MINUTE, service(), CONFIG, ACTOR, NOON),
        {*ESCALATION_NOTIFICATION, RESPONDER_NOTIFICATION}),
        (incidents.merge(PARENT, [build_incident_in(T)], [], ACTOR, NOON), {*ESCALATION_NOTIFICATION,
        RESPONDER_NOTIFICATION, SLA_ACKNOWLEDGE_NOTIFICATION, SLA_RESOLVE_NOTIFICATION}),
        (incidents.change_sla(build_incident_in(T), 2, service(), CONFIG, NOON, "because"),
        {SLA_ACKNOWLEDGE_NOTIFICATION, SLA_RESOLVE_NOTIFICATION}),
        (incidents.change_urgency(build_incident_in(T), Urgency.LOW, [], ACTOR, NOON),
        {*ESCALATION_NOTIFICATION, RESPONDER_NOTIFICATION}), (move(A, T), set()),
    ],
    ids=[
        "acknowledged", "resolved", "assigned", "assigned to nobody", "re-routed",
        "re-routed and kept", "re-routed to who keeps it",
        "re-routed to who keeps it and is away", "snoozed", "merged", "another SLA",
        "another urgency", "reopened",
    ],
)  # fmt: skip
def test_a_move_voids_what_it_concerns_and_nothing_else(effects, void):
    kinds = (effect.kinds for effect in effects if isinstance(effect, CancelNotifications))

    assert set().union(*kinds) - {NotificationKind.TEST} == void
