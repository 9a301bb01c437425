"""Tests of the escalation run of an incident."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.domain.effects import Author, CreateNotification, RecordLog
from models.domain.enums import AuthorKind, NotificationKind
from models.domain.facts import ForwardingFacts, IncidentContext
from models.domain.reasons import make_reason
from models.domain.values import replace
from schedules.escalation import escalation
from tests.support.facts import ALICE, BOB, CHARLIE, MINUTE, NOON, build_config, incident, policy
from tests.support.schedules.facts import layer, override, schedule

AUTHOR = Author(AuthorKind.TIMER, "escalate")


def build_step(number):
    """Return the description of a step of the first pass."""
    return make_reason("step", number=number, policy="Default")


def advance_state(state, config, at):
    return escalation.advance(IncidentContext(state, None, config, AUTHOR, at))


def advance(config, minutes, **changes):
    return advance_state(incident(**changes), config, NOON + minutes * MINUTE)


def list_notified(effects):
    return [
        (e.notification.user, e.notification.not_before) for e in effects if isinstance(e, CreateNotification)
    ]


@pytest.mark.parametrize(
    ("delays", "step", "minutes"),
    [
        ((0,), 0, 0), ((0,), 1, 1), ((0,), 2, 2),
        ((0, 5), 1, 5), ((0, 5), 2, 10), ((0, 5), 3, 15),
        ((2, 2), 1, 2), ((2, 2), 2, 5),
        ((0, 10, 30), 3, 50), ((0, 10, 30), 4, 60),
    ],
)  # fmt: skip
def test_a_pass_lasts_its_last_delay_plus_the_gap_before_it_at_least_a_minute(delays, step, minutes):
    policy_facts = policy(*((delay, "alice") for delay in delays), repeat=9)

    assert escalation.get_step_due_at(incident(), policy_facts, step) == NOON + minutes * MINUTE


def test_each_rule_of_the_urgency_makes_a_notification_with_its_own_delay():
    _, effects = advance(build_config((0, "bob")), 0)

    assert list_notified(effects) == [(BOB.row, NOON), (BOB.row, NOON + 5 * MINUTE)]


def test_a_person_without_a_usable_rule_is_notified_at_once_at_their_own_address():
    _, effects = advance(build_config((0, "charlie")), 0)

    (notification,) = [effect.notification for effect in effects if isinstance(effect, CreateNotification)]
    assert (notification.user, notification.contact, notification.not_before) == (CHARLIE.row, None, NOON)
    assert notification.reason.more == (make_reason("no_rule_for_urgency", urgency="high"),)


@pytest.mark.parametrize(
    ("managers", "owner", "expected_users"), [(["bob"], "alice", BOB.row), ([], "alice", ALICE.row)]
)
def test_a_run_that_reaches_nobody_notifies_the_managers_or_else_the_owner(managers, owner, expected_users):
    _, effects = advance(build_config((0,), managers=managers, owner=owner), 0)

    notifications = [effect.notification for effect in effects if isinstance(effect, CreateNotification)]
    assert {notification.user for notification in notifications} == {expected_users}
    assert {notification.kind for notification in notifications} == {NotificationKind.NOBODY_PAGED}


def test_a_policy_deleted_during_a_run_notifies_the_last_resort():
    _, effects = advance(build_config(managers=["bob"]), 5, escalation_policy=None, next_step=1)

    assert {user for user, _ in list_notified(effects)} == {BOB.row}


def test_a_run_is_exhausted_if_the_present_policy_has_no_step_left():
    long, short = policy((0, "alice"), (30, "bob"), repeat=1), policy((0, "alice"), repeat=1)
    twice = incident(next_step=2, exhausted=True)

    assert [escalation.is_exhausted(twice, one) for one in (long, short)] == [False, True]
    assert [
        escalation.is_exhausted(twice.with_changes(exhausted=known), None) for known in (True, False)
    ] == [True, False]


@pytest.mark.parametrize("steps", [[], [(0, "alice")]], ids=["emptied", "shortened"])
def test_advancing_a_shortened_run_marks_it_as_exhausted(steps):
    config = replace(build_config(owner="alice"), policies={1: policy(*steps)})
    after, effects = advance(config, 5, next_step=1, paged_someone=True)

    assert (after.exhausted, effects) == (True, ())


def test_a_policy_without_steps_notifies_the_last_resort_once_even_if_deleted():
    first_advance, first = advance_state(
        incident(), replace(build_config(owner="alice"), policies={1: policy()}), NOON
    )

    assert [user for user, _ in list_notified(first)] == [ALICE.row]
    assert escalation.get_next_due_at(first_advance, None) is None


def test_an_incident_without_a_policy_notifies_the_last_resort():
    _, effects = advance(build_config(owner="alice"), 0, escalation_policy=None)

    assert list_notified(effects) == [(ALICE.row, NOON)]


def test_a_removed_person_counts_as_nobody():
    _, effects = advance(build_config((0, "gone"), (30, "alice")), 0)

    assert list_notified(effects) == [(ALICE.row, NOON)]
    reasons = [effect.reason for effect in effects if isinstance(effect, RecordLog)]
    assert reasons == [
        make_reason("step_names_nobody", step=build_step(1)),
        make_reason("step_notifies", step=build_step(2), people=("Alice",)),
    ]


def test_skipping_an_empty_step_does_not_start_the_next_pass():
    config = build_config((0, "alice"), (5,), repeat=3, move_to_next=True)
    after, effects = advance(config, 5, next_step=1)

    assert after.next_step == 2
    assert list_notified(effects) == []


def test_each_step_names_the_people_on_call_at_its_own_time():
    turns = schedule(layer("alice bob", "2026-03-04 12:10"))
    config = build_config((0, "charlie"), (10, turns), (1450, turns))

    expected_users = []
    current = incident()
    for minutes in (0, 10, 1450):
        current, effects = advance_state(current, config, NOON + minutes * MINUTE)
        expected_users += [user for user, _ in list_notified(effects)]

    assert expected_users == [CHARLIE.row, ALICE.row, BOB.row, BOB.row]


NIGHT_SCHEDULE = schedule(overrides=[override("bob", "2026-03-04 12:00", "2026-03-04 12:30")])


def test_an_empty_step_starts_the_next_step_at_once():
    _, effects = advance(build_config((0, NIGHT_SCHEDULE), (30, "alice")), 40)

    assert list_notified(effects) == [(ALICE.row, NOON + 40 * MINUTE)]


def test_an_empty_step_keeps_its_delay_without_move_to_next():
    after, effects = advance(build_config((0, NIGHT_SCHEDULE), (90, "alice"), move_to_next=False), 40)

    assert (after.next_step, list_notified(effects)) == (1, [])


def test_a_run_that_named_nobody_notifies_the_last_resort_at_its_end():
    config = build_config((0,), (40, NIGHT_SCHEDULE), move_to_next=False, owner="alice")
    first_advance, first = advance(config, 0)
    ended, second = advance_state(first_advance, config, NOON + 40 * MINUTE)
    _, third = advance_state(ended, config, NOON + 50 * MINUTE)

    assert (list_notified(first), list_notified(second), list_notified(third)) == (
        [],
        [(ALICE.row, NOON + 40 * MINUTE)],
        [],
    )
    assert first_advance.paged_someone is False


def test_a_run_that_begins_with_nobody_notifies_the_last_resort_once():
    config = build_config((0, NIGHT_SCHEDULE), (5, NIGHT_SCHEDULE), owner="alice")
    first_advance, first = advance(config, 60)
    _, second = advance_state(first_advance, config, NOON + 90 * MINUTE)

    assert ([user for user, _ in list_notified(first)], list_notified(second)) == ([ALICE.row], [])


def test_a_delayed_run_does_not_notify_the_last_resort_before_it_begins():
    later = schedule(overrides=[override("bob", "2026-03-04 13:00", "2026-03-04 14:00")])
    config = build_config((0, later), owner="alice")

    before, first = advance(config, 0, run_started_at=NOON + 60 * MINUTE)
    _, second = advance_state(before, config, NOON + 60 * MINUTE)

    assert (first, {user for user, _ in list_notified(second)}) == ((), {BOB.row})


def test_the_last_resort_is_notified_after_the_first_pass_not_after_the_last():
    config = build_config((0,), (30, NIGHT_SCHEDULE), move_to_next=False, owner="alice", repeat=10)
    first_advance, _ = advance(config, 0)
    after, effects = advance_state(first_advance, config, NOON + 30 * MINUTE)
    _, later = advance_state(after, config, NOON + 61 * MINUTE)

    assert ([user for user, _ in list_notified(effects)], list_notified(later)) == ([ALICE.row], [])


def test_a_delayed_first_step_notifies_the_last_resort_only_once():
    config = build_config((5,), owner="alice")
    first_advance, first = advance(config, 0)
    _, second = advance_state(first_advance, config, NOON + 5 * MINUTE)

    assert ([user for user, _ in list_notified(first)], list_notified(second)) == ([ALICE.row], [])


def test_a_reason_names_the_schedule_and_layer():
    turns = schedule(layer("alice", "2026-03-04 09:00"))
    reasons = {}
    for config in (
        build_config((0, NIGHT_SCHEDULE)),
        build_config((0, turns)),
        build_config((0, turns, "alice")),
    ):
        _, effects = advance(config, 0)
        reasons.update({e.notification.reason: None for e in effects if isinstance(e, CreateNotification)})

    named = make_reason("named_by_step", step=build_step(1))
    assert list(reasons) == [
        named.add(make_reason("on_call_by_override", schedule="Schedule", override="Override-1")),
        named.add(make_reason("on_call_by_layer", schedule="Schedule", layer="Layer-1")),
    ]


def test_round_robin_notifies_the_whole_first_step_unless_it_is_assignee_only():
    steps = (0, "alice", "bob"), (5, "charlie")
    round_robin_config = build_config(*steps, round_robin=True)
    alone = build_config(*steps, round_robin=True, assignee_only=True, repeat=1)

    _, effects = advance(round_robin_config, 0, assigned_to=BOB.row)
    assert {user for user, _ in list_notified(effects)} == {ALICE.row, BOB.row}

    expected_users = []
    current = incident(assigned_to=BOB.row)
    for minutes in (0, 5, 10):
        current, effects = advance_state(current, alone, NOON + minutes * MINUTE)
        expected_users.append({user for user, _ in list_notified(effects)})
    assert expected_users == [{BOB.row}, {CHARLIE.row}, {BOB.row}]


def test_an_assignee_no_longer_on_call_makes_the_step_notify_everybody():
    alone = build_config((0, "alice", "bob"), round_robin=True, assignee_only=True)

    _, effects = advance(alone, 0, assigned_to=CHARLIE.row)

    assert {user for user, _ in list_notified(effects)} == {ALICE.row, BOB.row}


def test_two_people_forwarded_to_the_same_receiver_make_one_notification():
    forwarded_people = [
        replace(one, forwarding=(ForwardingFacts(NOON, NOON + MINUTE, CHARLIE),)) for one in (ALICE, BOB)
    ]
    _, effects = advance(build_config((0, "alice", "bob", "charlie"), people=(*forwarded_people, CHARLIE)), 0)

    assert list_notified(effects) == [(CHARLIE.row, NOON)]
    (log,) = [effect.reason for effect in effects if isinstance(effect, RecordLog)]
    names = [make_reason("forwarded_person", person=each, receiver="Charlie") for each in ("Alice", "Bob")]
    assert log.parameters["people"] == (*names, "Charlie")


STEPS = st.lists(
    st.tuples(st.integers(0, 60), st.lists(st.sampled_from(["alice", "bob", "charlie", "gone"]), max_size=3)),
    min_size=1,
    max_size=5,
).map(lambda steps: sorted(steps, key=lambda step: step[0]))


@given(STEPS, st.integers(0, 3), st.booleans(), st.lists(st.integers(0, 600), max_size=20))
def test_repeated_runs_notify_once_per_step_and_never_early(steps, repeat, move_to_next, looks):
    config = build_config(
        *((delay, *names) for delay, names in steps), repeat=repeat, move_to_next=move_to_next
    )
    current, keys = incident(), []
    for minutes in sorted(looks):
        current, effects = advance_state(current, config, NOON + minutes * MINUTE)
        notifications = [effect.notification for effect in effects if isinstance(effect, CreateNotification)]
        keys += [notification.key for notification in notifications]
        assert all(notification.not_before >= NOON + minutes * MINUTE for notification in notifications)
        persons = [
            (notification.user, notification.contact, notification.rule) for notification in notifications
        ]
        assert len(persons) == len(set(persons))

    assert len(keys) == len(set(keys))
    assert current.next_step <= escalation.count_steps(config.policies[1])
