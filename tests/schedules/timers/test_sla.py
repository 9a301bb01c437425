"""Tests of SLA targets, their timers, and the people whom they notify."""

import pytest

from models.domain.effects import Author, CreateNotification, RecordLog
from models.domain.enums import AuthorKind, ContactType, IncidentStatus, NotificationKind, TimerKind, Urgency
from models.domain.facts import ForwardingFacts, IncidentContext, NotificationRuleFacts
from models.domain.reasons import make_reason
from models.domain.values import replace
from models.tables.timers import Timer
from schedules.timers.sla import (
    NOTIFICATION_KINDS,
    decide_sla_timer,
    expect_sla_breaches,
    expect_sla_escalations,
    list_timers,
)
from tests.support.facts import ALICE, BOB, CHARLIE, MINUTE, NOON, build_config, incident, person, sla

TIMER = Author(AuthorKind.TIMER, "sla escalation")
A, R = IncidentStatus.ACKNOWLEDGED, IncidentStatus.RESOLVED
GOLD = sla((1, -5, "alice"), (1, 0, "bob"), (2, 10, "alice", "bob"), acknowledge=15, resolve=60)

# Five minutes before the target of the acknowledgement.
DUE = make_reason("sla_acknowledge_due", sla="Gold", left=300)


def config(one=GOLD, **more):
    return replace(build_config((0, "alice"), **more), slas={one.row: one})


def build_incident(**changes):
    return incident(**{"sla": 1, "sla_started_at": NOON, **changes})


def get_expected_timers(state, context):
    return (*expect_sla_breaches(state, None, context), *expect_sla_escalations(state, None, context))


def list_due(state, one=GOLD):
    """Return kind and due time of the expected timers, in minutes after noon."""
    return sorted(
        (timer.kind, (timer.due_at - NOON) / MINUTE) for timer in get_expected_timers(state, config(one))
    )


ACKNOWLEDGE = [("sla_breach", 15), ("sla_escalation", 10), ("sla_escalation", 15)]
RESOLVE = [("sla_breach", 60), ("sla_escalation", 70)]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (build_incident(), ACKNOWLEDGE + RESOLVE),
        (build_incident(status=A, acknowledged_date=NOON, sla_acknowledged_at=NOON), RESOLVE),
        (build_incident(sla_acknowledged_at=NOON), RESOLVE),
        (build_incident(status=R, resolved_date=NOON), []),
        (build_incident(parent=9), []),
        (build_incident(sla=None), []),
        (build_incident(sla=7), []),
        (build_incident(urgency=Urgency.LOW, assigned_to=2, escalation_policy=None), ACKNOWLEDGE + RESOLVE),
        (build_incident(sla_started_at=None), ACKNOWLEDGE + RESOLVE),
    ],
    ids=[
        "open", "acknowledged", "triggered again", "resolved", "merged", "none", "gone or inactive",
        "other changes", "stored before SLAs existed",
    ],
)  # fmt: skip
def test_a_target_has_timers_until_it_is_met(state, expected):
    assert list_due(state) == sorted(expected)


def test_a_snoozed_incident_keeps_its_resolve_target():
    snoozed_incident = build_incident(
        status=A, sla_acknowledged_at=NOON, snoozed_at=NOON, snoozed_till=NOON + 600 * MINUTE
    )

    assert list_due(snoozed_incident) == RESOLVE


def test_a_reopened_incident_has_new_targets():
    later = build_incident(sla_started_at=NOON + 30 * MINUTE, creation_date=NOON)

    assert list_due(later) == sorted((kind, minutes + 30) for kind, minutes in ACKNOWLEDGE + RESOLVE)
    keys = {
        timer.key for state in (build_incident(), later) for timer in get_expected_timers(state, config())
    }
    assert len(keys) == 10


@pytest.mark.parametrize(
    ("one", "kinds"),
    [
        (sla((1, -5, "bob"), (2, -5, "bob"), resolve=60), {NotificationKind.SLA_RESOLVE}),
        (sla((1, -5, "bob"), (2, -5, "bob"), acknowledge=60), {NotificationKind.SLA_ACKNOWLEDGE}),
        (sla((1, -5, "bob"), (2, -5, "bob")), set()),
    ],
)
def test_an_sla_without_a_time_has_no_target(one, kinds):
    assert {
        NOTIFICATION_KINDS[sla_timer.target.target_kind]
        for sla_timer in list_timers(build_incident(), config(one))
    } == kinds


def test_timer_keys_fit_into_their_column():
    keys = [timer.key for timer in get_expected_timers(build_incident(), config())]

    assert max(map(len, keys)) <= Timer.key.max_length


def test_a_target_with_another_due_time_has_another_key():
    longer = replace(GOLD, acknowledge_s=1800)
    first, second = (
        {timer.key for timer in get_expected_timers(build_incident(), config(one))} for one in (GOLD, longer)
    )

    assert len(first & second) == len(RESOLVE)


def take_timer(minutes, one, kind=TimerKind.SLA_ESCALATION, state=None, place=0, context=None):
    """Fire the timer at this place among those of its kind, so many minutes after noon."""
    state, context = state or build_incident(), context or config(one)
    found = [sla_timer for sla_timer in list_timers(state, context) if sla_timer.kind is kind]
    at = IncidentContext(state, None, context, TIMER, NOON + minutes * MINUTE)
    decision = decide_sla_timer(at, found[place].key)
    assert decision.fired
    return decision.outcome, decision.effects


def list_notifications(effects):
    return [effect.notification for effect in effects if isinstance(effect, CreateNotification)]


@pytest.mark.parametrize(
    ("kind", "after", "minutes", "expected_reason"),
    [
        (1, -5, 10, "SLA Gold: the incident must be acknowledged within 5 min."),
        (2, -5, 55, "SLA Gold: the incident must be resolved within 5 min."),
        (1, 0, 15, "SLA Gold: not acknowledged in time."),
        (1, 5, 20, "SLA Gold: not acknowledged, overdue by 5 min."),
        (2, 90, 150, "SLA Gold: not resolved, overdue by 1 h 30 min."),
        (1, -5, 12, "SLA Gold: the incident must be acknowledged within 3 min."),
        (1, -5, 25, "SLA Gold: not acknowledged, overdue by 10 min."),
        (1, -20, 0, "SLA Gold: the incident must be acknowledged within 15 min."),
    ],
    ids=[
        "before",
        "its end",
        "as it breaks",
        "after",
        "long after",
        "late",
        "far too late",
        "from the start",
    ],
)
def test_a_reason_names_the_time_to_or_since_the_breach(kind, after, minutes, expected_reason):
    _, effects = take_timer(minutes, sla((kind, after, "alice"), acknowledge=15, resolve=60))

    assert [str(notification.reason) for notification in list_notifications(effects)] == [expected_reason]
    (log,) = [effect for effect in effects if isinstance(effect, RecordLog)]
    assert (log.what, str(log.reason)) == ("sla", f"{expected_reason} Notified: Alice.")


def test_a_warning_that_fires_after_the_breach_reports_the_breach():
    short_warning = sla((1, -0.5, "alice"), acknowledge=15)
    (notification,) = list_notifications(take_timer(15.1, short_warning)[1])

    assert notification.reason == make_reason("sla_acknowledge_overdue", sla="Gold", over=6)


@pytest.mark.parametrize(
    ("place", "expected_reason"),
    [
        (0, make_reason("sla_not_acknowledged", sla="Gold", within=900)),
        (1, make_reason("sla_not_resolved", sla="Gold", within=3_600)),
    ],
)
def test_a_breach_is_logged_and_notifies_nobody(place, expected_reason):
    outcome, effects = take_timer(60, GOLD, TimerKind.SLA_BREACH, place=place)

    assert outcome.code == "breach_logged"
    assert effects == (RecordLog("incident-1", NOON + 60 * MINUTE, "sla", expected_reason, TIMER),)


def rules(row, *rules):
    """Return a person with notification rules (urgency, delay, contact)."""
    return replace(
        person(row, "Dora"),
        rules=tuple(
            NotificationRuleFacts(row * 10 + n, contact, ContactType.EMAIL, urgency, delay)
            for n, (urgency, delay, contact) in enumerate(rules)
        ),
    )


@pytest.mark.parametrize(
    ("dora_rules", "contacts"),
    [
        ([(Urgency.HIGH, 0, 7), (Urgency.LOW, 0, 8)], [7, 8]),
        ([(Urgency.HIGH, 0, 7), (Urgency.LOW, 0, 7)], [7]),
        ([(Urgency.HIGH, 5, 7), (Urgency.LOW, 0, 8)], [8]),
        ([(Urgency.HIGH, 5, 7)], [None]),
        ([], [None]),
    ],
    ids=["both urgencies", "a contact once", "not with a delay", "all with a delay", "none at all"],
)
def test_an_escalation_uses_rules_without_delay_of_any_urgency(dora_rules, contacts):
    dora = rules(4, *dora_rules)
    one = sla((1, -5, "dora"), acknowledge=15)
    for urgency in Urgency:
        state = build_incident(urgency=urgency)
        _, effects = take_timer(10, one, state=state, context=config(one, people=(dora,)))

        assert [notification.contact for notification in list_notifications(effects)] == contacts
        assert {notification.not_before for notification in list_notifications(effects)} == {
            NOON + 10 * MINUTE
        }


def test_forwarding_applies_to_sla_escalations():
    forwarded_person = replace(ALICE, forwarding=(ForwardingFacts(NOON, NOON + 60 * MINUTE, BOB),))
    one = sla((1, -5, "alice"), acknowledge=15)
    _, effects = take_timer(10, one, context=config(one, people=(forwarded_person, BOB)))

    assert {notification.user for notification in list_notifications(effects)} == {BOB.row}
    assert {notification.reason for notification in list_notifications(effects)} == {
        DUE.add(make_reason("forwarded_from", person="Alice"))
    }


@pytest.mark.parametrize("targets", [(), ("zoe",)], ids=["nobody was named", "who was named has left"])
def test_an_escalation_that_reaches_nobody_notifies_the_managers(targets):
    one = sla((1, -5, *targets), acknowledge=15)
    _, effects = take_timer(10, one, context=config(one, managers=("charlie",)))

    (notification,) = list_notifications(effects)
    assert notification.user == CHARLIE.row
    assert notification.reason == DUE.add(
        make_reason("sla_names_nobody"),
        make_reason("managers_notified"),
        make_reason("no_rule_without_delay"),
    )


def test_overdue_escalations_notify_each_person_once():
    one = sla((1, -10, "alice", "charlie"), (1, -5, "alice"), (1, 5, "alice", "bob"), acknowledge=15)
    notified = [
        [
            (notification.user, notification.reason)
            for notification in list_notifications(take_timer(25, one, place=place)[1])
        ]
        for place in range(3)
    ]

    expected_reason = make_reason("sla_acknowledge_overdue", sla="Gold", over=600)
    without = make_reason("no_rule_without_delay")
    assert notified == [
        [(CHARLIE.row, expected_reason.add(without))],
        [],
        [(ALICE.row, expected_reason), (BOB.row, expected_reason)],
    ]
    assert take_timer(25, one, place=1)[0].code == "sla_later_escalation"


def test_an_escalation_that_is_not_due_does_not_suppress_an_earlier_one():
    one = sla((1, -5, "alice"), (1, 5, "alice"), acknowledge=15)

    assert [notification.user for notification in list_notifications(take_timer(10, one)[1])] == [ALICE.row]


def test_notifications_of_the_same_escalation_for_two_incidents_share_a_group_key():
    """The time at which each incident began does not matter."""
    one = sla((1, -5, "alice"), acknowledge=15)
    later = build_incident(unique_id="other", sla_started_at=NOON - 20 * MINUTE)
    (first,), (second,) = (
        list_notifications(take_timer(30, one, state=state)[1]) for state in (build_incident(), later)
    )

    assert first.key != second.key
    assert first.message_group(NOON) == second.message_group(NOON)
