"""Every change of an incident's status, and the effects of each change."""

import itertools

import pytest

from models.domain.effects import (
    AdvanceRoundRobin,
    Author,
    CancelNotifications,
    CreateNotification,
    ReclaimEntities,
    ReconcileTimers,
    RecordLog,
    ReleaseEntities,
    SaveIncident,
)
from models.domain.enums import AuthorKind, IncidentStatus, NotificationKind, Urgency
from models.domain.facts import ForwardingFacts, IncidentContext
from models.domain.reasons import describe, make_reason
from models.domain.values import replace
from pipeline import incidents
from tests.support.facts import ALICE, BOB, CHARLIE, MINUTE, NOON, build_config, incident, service

AUTHOR = Author(AuthorKind.USER, "Bob", user=BOB.row)
BECAUSE = describe("because")
T, A, R = IncidentStatus.TRIGGERED, IncidentStatus.ACKNOWLEDGED, IncidentStatus.RESOLVED
CONFIG = build_config((0, "alice"), (5, "bob"))


def build_incident_in(status):
    """Return an incident that got this status a minute after its creation."""
    return incident(
        status=status,
        acknowledged_date=NOON + MINUTE if status is A else None,
        resolved_date=NOON + MINUTE if status is R else None,
        next_step=1,
    )


def at(state, now=NOON):
    """Return the context in which Bob changes an incident at this time."""
    return IncidentContext(state, service(), CONFIG, AUTHOR, now)


def move(status, to):
    return incidents.change_status(at(build_incident_in(status), NOON + 2 * MINUTE), to, BECAUSE)


def get_last_incident(effects):
    return [effect.incident for effect in effects if isinstance(effect, SaveIncident)][-1]


def kinds(effects):
    return {type(effect) for effect in effects}


@pytest.mark.parametrize("status", list(IncidentStatus))
def test_a_change_to_the_present_status_has_no_effects(status):
    assert move(status, status) == ()


@pytest.mark.parametrize(("status", "to"), list(itertools.permutations(IncidentStatus, 2)))
def test_every_other_change_of_status_is_logged_and_reconciles_the_timers(status, to):
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
def test_a_change_of_status_sets_the_dates(status, to, acknowledged, resolved):
    after = get_last_incident(move(status, to))

    assert (after.acknowledged_date, after.resolved_date) == (acknowledged, resolved)


@pytest.mark.parametrize("to", [A, R])
def test_acknowledge_and_resolve_cancel_notifications_and_stop_the_escalation(to):
    effects = move(T, to)

    assert CancelNotifications in kinds(effects)
    assert CreateNotification not in kinds(effects)
    (reconcile,) = [effect for effect in effects if isinstance(effect, ReconcileTimers)]
    assert reconcile.expected == ()


@pytest.mark.parametrize(
    ("status", "to", "kind"), [(T, R, ReleaseEntities), (R, T, ReclaimEntities), (R, A, ReclaimEntities)]
)
def test_a_resolve_releases_entities_and_a_reopen_reclaims_them(status, to, kind):
    assert kind in kinds(move(status, to))


@pytest.mark.parametrize("status", [A, R])
def test_an_incident_triggered_again_starts_a_new_run_at_the_first_step(status):
    effects = move(status, T)

    after = get_last_incident(effects)
    assert (after.escalation_run, after.run_started_at, after.next_step) == (2, NOON + 2 * MINUTE, 1)
    assert [effect.notification.user for effect in effects if isinstance(effect, CreateNotification)] == [
        ALICE.row
    ]


def test_an_incident_reopened_as_acknowledged_gets_its_full_timeouts():
    later = NOON + 60 * MINUTE
    service_with_timeouts = service(auto_resolve_s=600, acknowledgement_timeout_s=900)
    closed = incident(status=R, acknowledged_date=NOON + MINUTE, resolved_date=NOON + 2 * MINUTE)
    effects = incidents.change_status(
        IncidentContext(closed, service_with_timeouts, CONFIG, AUTHOR, later), A, BECAUSE
    )

    (reconcile,) = [effect for effect in effects if isinstance(effect, ReconcileTimers)]
    assert sorted(timer.due_at for timer in reconcile.expected) == [later + 10 * MINUTE, later + 15 * MINUTE]


def test_an_unassigned_incident_is_assigned_to_the_person_who_acknowledges():
    assert get_last_incident(move(T, A)).assigned_to == BOB.row


def test_an_assignment_stops_the_escalation_and_notifies_the_assignee():
    effects = incidents.assign(at(build_incident_in(T)), BOB)

    after = get_last_incident(effects)
    assert (after.assigned_to, after.escalating) == (BOB.row, False)
    assert {e.notification.kind for e in effects if isinstance(e, CreateNotification)} == {
        NotificationKind.ASSIGNMENT
    }


def test_an_incident_assigned_to_nobody_starts_a_new_run_if_an_assignment_stopped_it():
    stopped = build_incident_in(T).with_changes(
        assigned_to=BOB.row, escalating=False, paged_someone=True, escalation_run=2
    )
    effects = incidents.assign(at(stopped, NOON + MINUTE), None)

    after = get_last_incident(effects)
    assert (after.assigned_to, after.escalating, after.escalation_run, after.next_step) == (None, True, 3, 1)
    assert {e.notification.user for e in effects if isinstance(e, CreateNotification)} == {ALICE.row}


@pytest.mark.parametrize(
    "state",
    [
        build_incident_in(T).with_changes(assigned_to=ALICE.row),
        build_incident_in(A).with_changes(assigned_to=BOB.row, escalating=False),
    ],
    ids=["escalating", "acknowledged"],
)
def test_an_incident_assigned_to_nobody_notifies_nobody_if_no_run_was_stopped(state):
    effects = incidents.assign(at(state, NOON + MINUTE), None)

    assert (get_last_incident(effects).assigned_to, get_last_incident(effects).escalation_run) == (
        None,
        state.escalation_run,
    )
    assert CreateNotification not in kinds(effects)


def test_a_change_of_policy_starts_a_new_run():
    config = build_config((0, "bob"))
    moved = build_incident_in(T).with_changes(escalation_policy=None)
    effects = incidents.change_policy(IncidentContext(moved, service(), config, AUTHOR, NOON + MINUTE), 1)

    assert get_last_incident(effects).escalation_run == 2
    assert {e.notification.user for e in effects if isinstance(e, CreateNotification)} == {BOB.row}


def test_a_change_of_policy_assigns_only_a_triggered_incident():
    config = build_config((0, "bob"))

    triggered = incidents.change_policy(
        IncidentContext(
            build_incident_in(T).with_changes(escalation_policy=None), service(), config, AUTHOR, NOON
        ),
        1,
    )
    acknowledged = incidents.change_policy(
        IncidentContext(
            build_incident_in(A).with_changes(escalation_policy=None, assigned_to=ALICE.row),
            service(),
            config,
            AUTHOR,
            NOON,
        ),
        1,
    )

    assert (get_last_incident(triggered).assigned_to, get_last_incident(acknowledged).assigned_to) == (
        BOB.row,
        ALICE.row,
    )


def test_a_change_to_a_round_robin_policy_takes_its_next_target():
    config = replace(build_config((0, "alice", "bob"), round_robin=True), next_targets={1: 1})
    effects = incidents.change_policy(
        IncidentContext(
            build_incident_in(T).with_changes(escalation_policy=None), service(), config, AUTHOR, NOON
        ),
        1,
    )

    assert (get_last_incident(effects).assigned_to, AdvanceRoundRobin(1, 1, 0) in effects) == (BOB.row, True)


def test_an_acknowledged_incident_can_be_assigned_and_notifies_the_assignee():
    effects = incidents.assign(at(build_incident_in(A), NOON + 2 * MINUTE), BOB)

    assert {e.notification.user for e in effects if isinstance(e, CreateNotification)} == {BOB.row}


SNOOZED_UNTIL = NOON + 60 * MINUTE


def build_snoozed(**changes):
    """Return an acknowledged incident that is snoozed for an hour."""
    return build_incident_in(A).with_changes(
        snoozed_at=NOON + 2 * MINUTE, snoozed_till=SNOOZED_UNTIL, **changes
    )


def is_snoozed(state):
    return (state.snoozed_at, state.snoozed_till) != (None, None)


def list_logged(effects):
    return [effect.what for effect in effects if isinstance(effect, RecordLog)]


@pytest.mark.parametrize(
    ("state", "expected"),
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
    ids=["triggered", "resolved", "acknowledged", "snoozed", "merged"],
)
def test_only_an_acknowledged_incident_without_parent_can_be_snoozed(state, expected):
    assert incidents.check_snooze(state) == expected


def test_a_snooze_cancels_notifications_and_is_logged():
    effects = incidents.snooze(at(build_incident_in(A), NOON + 2 * MINUTE), SNOOZED_UNTIL)

    assert (get_last_incident(effects).snoozed_at, get_last_incident(effects).snoozed_till) == (
        NOON + 2 * MINUTE,
        SNOOZED_UNTIL,
    )
    assert CancelNotifications in kinds(effects)
    assert [effect.reason for effect in effects if isinstance(effect, RecordLog)] == [
        make_reason("snoozed", until=SNOOZED_UNTIL.isoformat(), by="Bob")
    ]


ENDS = {
    "triggered": lambda state: incidents.change_status(at(state), T, BECAUSE),
    "resolved": lambda state: incidents.change_status(at(state), R, BECAUSE),
    "assigned": lambda state: incidents.assign(at(state), ALICE),
    "assigned to nobody": lambda state: incidents.assign(at(state), None),
    "rerouted": lambda state: incidents.change_policy(at(state), None),
    "unsnoozed": lambda state: incidents.unsnooze(at(state)),
    "merged": lambda state: incidents.merge(incident(unique_id="p", row=9), [state], [], AUTHOR, NOON),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_snooze_ends_with_every_change_of_the_incident(how):
    effects = ENDS[how](build_snoozed(assigned_to=BOB.row))

    assert not is_snoozed(get_last_incident(effects))
    (reconcile,) = [effect for effect in effects if isinstance(effect, ReconcileTimers)][-1:]
    assert "snooze" not in [timer.kind for timer in reconcile.expected]


@pytest.mark.parametrize("how", ["assigned", "assigned to nobody", "unsnoozed"])
def test_timeouts_start_again_after_a_snooze(how):
    service_with_timeouts = service(acknowledgement_timeout_s=900)
    later = NOON + 50 * MINUTE
    state = build_snoozed(assigned_to=BOB.row)
    effects = {
        "assigned": lambda: incidents.assign(
            IncidentContext(state, service_with_timeouts, CONFIG, AUTHOR, later), ALICE
        ),
        "assigned to nobody": lambda: incidents.assign(
            IncidentContext(state, service_with_timeouts, CONFIG, AUTHOR, later), None
        ),
        "unsnoozed": lambda: incidents.unsnooze(
            IncidentContext(state, service_with_timeouts, CONFIG, AUTHOR, later)
        ),
    }[how]()

    (reconcile,) = [effect for effect in effects if isinstance(effect, ReconcileTimers)]
    assert [timer.due_at for timer in reconcile.expected] == [later + 15 * MINUTE]


def test_unsnooze_without_a_snooze_has_no_effects():
    assert incidents.unsnooze(at(build_incident_in(A))) == ()


def test_the_log_of_an_assignment_has_its_reason():
    effects = incidents.assign(at(build_incident_in(T)), BOB, describe("knows databases"))

    reasons = [effect.reason for effect in effects if isinstance(effect, RecordLog)]
    assert reasons == [make_reason("assigned", person="Bob", by="Bob").add(describe("knows databases"))]


PARENT = incident(unique_id="parent", row=9, number=9)


def build_child(number=1, **changes):
    return build_incident_in(T).with_changes(
        unique_id=f"child-{number}", row=number, number=number, **changes
    )


@pytest.mark.parametrize(
    ("parent", "children", "expected"),
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
def test_only_open_incidents_without_parent_can_be_merged(parent, children, expected):
    assert incidents.check_merge(parent, children) == expected


def get_saved_incidents(effects):
    return {
        effect.incident.unique_id: effect.incident for effect in effects if isinstance(effect, SaveIncident)
    }


def test_a_merged_incident_is_acknowledged_silent_and_stops_collecting():
    effects = incidents.merge(PARENT, [build_child(collecting=True)], [], AUTHOR, NOON)

    after = get_saved_incidents(effects)["child-1"]
    assert (after.status, after.parent, after.collecting) == (A, 9, False)
    assert (after.acknowledged_date, after.assigned_to) == (NOON, BOB.row)
    assert CancelNotifications in kinds(effects)
    assert [reconcile.expected for reconcile in effects if isinstance(reconcile, ReconcileTimers)] == [(), ()]
    assert list_logged(effects) == ["merged", "acknowledged", "merged"]


def test_a_merged_incident_keeps_its_assignee():
    before = build_child(status=A, acknowledged_date=NOON - MINUTE, assigned_to=ALICE.row)
    after = get_saved_incidents(incidents.merge(PARENT, [before], [], AUTHOR, NOON))["child-1"]

    assert (after.acknowledged_date, after.assigned_to) == (NOON - MINUTE, ALICE.row)


def test_children_of_a_merged_incident_get_its_parent():
    of_child = build_child(2, status=R, parent=1)
    effects = incidents.merge(PARENT, [build_child()], [of_child], AUTHOR, NOON)

    assert {name: state.parent for name, state in get_saved_incidents(effects).items()} == {
        "child-1": 9,
        "child-2": 9,
    }
    assert get_saved_incidents(effects)["child-2"].status is R


def test_open_children_are_resolved_with_their_parent():
    children = [build_child(1, status=A, parent=9), build_child(2, status=R, parent=9)]
    effects = incidents.change_status(
        IncidentContext(PARENT, service(), CONFIG, AUTHOR, NOON, tuple(children)), R, BECAUSE
    )

    assert {name: state.status for name, state in get_saved_incidents(effects).items()} == {
        "parent": R,
        "child-1": R,
    }
    assert get_saved_incidents(effects)["child-1"].parent == 9
    assert {e.incident for e in effects if isinstance(e, ReleaseEntities)} == {"parent", "child-1"}
    assert make_reason("parent_resolved", parent="#9") in [
        e.reason for e in effects if isinstance(e, RecordLog)
    ]


@pytest.mark.parametrize("to", [T, A])
def test_children_keep_their_status_if_their_parent_is_acknowledged_or_triggered(to):
    parent = PARENT.with_changes(status=A if to is T else T)
    effects = incidents.change_status(
        IncidentContext(parent, service(), CONFIG, AUTHOR, NOON, (build_child(status=A, parent=9),)),
        to,
        BECAUSE,
    )

    assert set(get_saved_incidents(effects)) == {"parent"}


@pytest.mark.parametrize(("status", "to"), [(A, T), (R, T), (R, A)])
def test_a_child_that_is_triggered_or_reopened_is_unmerged(status, to):
    before = build_incident_in(status).with_changes(parent=9)
    effects = incidents.change_status(at(before), to, BECAUSE)

    assert get_last_incident(effects).parent is None
    assert "unmerged" in list_logged(effects)


def test_a_child_that_is_resolved_keeps_its_parent():
    effects = incidents.change_status(
        at(build_incident_in(A).with_changes(parent=9)),
        R,
        BECAUSE,
    )

    assert get_last_incident(effects).parent == 9
    assert list_logged(effects) == ["resolved"]


@pytest.mark.parametrize("status", [A, R])
def test_an_unmerged_incident_keeps_its_status_and_gets_its_full_timeouts(status):
    service_with_timeouts = service(auto_resolve_s=600, acknowledgement_timeout_s=900)
    later = NOON + 60 * MINUTE
    effects = incidents.unmerge(
        IncidentContext(
            build_incident_in(status).with_changes(parent=9), service_with_timeouts, CONFIG, AUTHOR, later
        ),
        PARENT,
    )

    assert (get_last_incident(effects).status, get_last_incident(effects).parent) == (status, None)
    (reconcile,) = [effect for effect in effects if isinstance(effect, ReconcileTimers)]
    due_times = [later + 10 * MINUTE, later + 15 * MINUTE] if status is A else []
    assert sorted(timer.due_at for timer in reconcile.expected) == due_times


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
UNASSIGNED = incidents.assign(at(BOB_NOTIFIED), None)


def build_assigned_to_bob(*steps, bob=BOB):
    """Return the effects of a change to another policy with these steps."""
    config = build_config(*steps, people=(ALICE, bob, CHARLIE))
    state = BOB_NOTIFIED.with_changes(escalation_policy=None)
    context = IncidentContext(state, service(), config, AUTHOR, NOON)
    return incidents.change_policy(context, 1, keep_assignee=True)


FORWARDED = replace(BOB, forwarding=(ForwardingFacts(NOON, NOON + MINUTE, CHARLIE),))
STILL_NOTIFIED, STILL_NOTIFIED_BY_STEP = (
    build_assigned_to_bob((0, "alice")),
    build_assigned_to_bob((0, "bob")),
)
STILL_NOTIFIED_BY_FORWARDING = build_assigned_to_bob((0, "bob"), bob=FORWARDED)


@pytest.mark.parametrize(
    ("effects", "cancelled_kinds"),
    [
        (move(T, A), {*ESCALATION_NOTIFICATION, RESPONDER_NOTIFICATION, SLA_ACKNOWLEDGE_NOTIFICATION}),
        (move(T, R), {*ESCALATION_NOTIFICATION, RESPONDER_NOTIFICATION, SLA_ACKNOWLEDGE_NOTIFICATION,
        SLA_RESOLVE_NOTIFICATION, NotificationKind.RECOVERY}),
        (incidents.assign(at(build_incident_in(T)), ALICE),
         ESCALATION_NOTIFICATION),
        (UNASSIGNED, {NotificationKind.ASSIGNMENT}),
        (incidents.change_policy(at(build_incident_in(T)), None),
        ESCALATION_NOTIFICATION), (STILL_NOTIFIED, ESCALATION_NOTIFICATION - {NotificationKind.ASSIGNMENT}),
        (STILL_NOTIFIED_BY_STEP, ESCALATION_NOTIFICATION),
        (STILL_NOTIFIED_BY_FORWARDING, ESCALATION_NOTIFICATION),
        (incidents.snooze(at(build_incident_in(A)), NOON + MINUTE),
        {*ESCALATION_NOTIFICATION, RESPONDER_NOTIFICATION}),
        (incidents.merge(PARENT, [build_incident_in(T)], [], AUTHOR, NOON), {*ESCALATION_NOTIFICATION,
        RESPONDER_NOTIFICATION, SLA_ACKNOWLEDGE_NOTIFICATION, SLA_RESOLVE_NOTIFICATION}),
        (incidents.change_sla(at(build_incident_in(T)), 2, BECAUSE),
        {SLA_ACKNOWLEDGE_NOTIFICATION, SLA_RESOLVE_NOTIFICATION}),
        (incidents.change_urgency(at(build_incident_in(T)), Urgency.LOW, []),
        {*ESCALATION_NOTIFICATION, RESPONDER_NOTIFICATION}), (move(A, T), set()),
    ],
    ids=[
        "acknowledged", "resolved", "assigned", "assigned to nobody", "re-routed",
        "re-routed, assignee kept", "re-routed, assignee notified",
        "re-routed, assignee forwards", "snoozed", "merged", "another SLA",
        "another urgency", "reopened",
    ],
)  # fmt: skip
def test_a_change_cancels_only_the_notifications_that_it_concerns(effects, cancelled_kinds):
    kinds = (effect.kinds for effect in effects if isinstance(effect, CancelNotifications))

    assert set().union(*kinds) - {NotificationKind.TEST} == cancelled_kinds
