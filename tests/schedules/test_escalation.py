"""The chain of an incident at any moment."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.effects import Actor, OweNotice, RecordLog
from models.enums import ActorKind, NoticeKind
from models.facts import ForwardingFacts
from schedules import escalation
from tests.facts import ALICE, BOB, CHARLIE, MINUTE, NOON, directory, incident, policy
from tests.schedules.rotas import layer, override, schedule

ACTOR = Actor(ActorKind.TIMER, "escalate")


def advance(book, minutes, **changes):
    return escalation.advance(incident(**changes), book, ACTOR, NOON + minutes * MINUTE)


def owed(effects):
    return [(e.notice.user, e.notice.not_before) for e in effects if isinstance(e, OweNotice)]


@pytest.mark.parametrize(
    ("delays", "step", "minutes"),
    [
        ((0,), 0, 0), ((0,), 1, 1), ((0,), 2, 2),
        ((0, 5), 1, 5), ((0, 5), 2, 10), ((0, 5), 3, 15),
        ((2, 2), 1, 2), ((2, 2), 2, 5),
        ((0, 10, 30), 3, 50), ((0, 10, 30), 4, 60),
    ],
)  # fmt: skip
def test_a_pass_lasts_to_its_last_step_and_the_gap_before_it_at_least_a_minute(delays, step, minutes):
    chain = policy(*((delay, "alice") for delay in delays), repeat=9)

    assert escalation.due_at(incident(), chain, step) == NOON + minutes * MINUTE


def test_each_rule_of_the_urgency_is_a_notice_with_its_own_delay():
    _, effects = advance(directory((0, "bob")), 0)

    assert owed(effects) == [(BOB.row, NOON), (BOB.row, NOON + 5 * MINUTE)]


def test_somebody_without_a_usable_rule_is_told_at_the_accounts_address_at_once():
    _, effects = advance(directory((0, "charlie")), 0)

    (notice,) = [effect.notice for effect in effects if isinstance(effect, OweNotice)]
    assert (notice.user, notice.contact, notice.not_before) == (CHARLIE.row, None, NOON)
    assert notice.reason.endswith("no usable rule for high urgency, so the account's address")


@pytest.mark.parametrize(
    ("managers", "owner", "told"), [(["bob"], "alice", BOB.row), ([], "alice", ALICE.row)]
)
def test_a_chain_that_reaches_nobody_tells_the_managers_or_else_the_owner(managers, owner, told):
    _, effects = advance(directory((0,), managers=managers, owner=owner), 0)

    notices = [effect.notice for effect in effects if isinstance(effect, OweNotice)]
    assert {notice.user for notice in notices} == {told}
    assert {notice.kind for notice in notices} == {NoticeKind.NOBODY_REACHED}


def test_a_policy_that_is_deleted_in_the_middle_of_a_chain_ends_in_no_silence():
    _, effects = advance(directory(managers=["bob"]), 5, escalation_policy=None, next_step=1)

    assert {user for user, _ in owed(effects)} == {BOB.row}


def test_a_chain_is_over_where_no_step_lies_ahead_by_the_policy_as_it_is_now():
    long, short = policy((0, "alice"), (30, "bob"), repeat=1), policy((0, "alice"), repeat=1)
    twice = incident(next_step=2, chain_over=True)

    assert [escalation.is_over(twice, one) for one in (long, short)] == [False, True]
    assert [escalation.is_over(twice.but(chain_over=known), None) for known in (True, False)] == [True, False]


@pytest.mark.parametrize("steps", [[], [(0, "alice")]], ids=["emptied", "shortened"])
def test_whoever_looks_at_a_chain_that_was_cut_short_knows_that_it_is_over(steps):
    book = replace(directory(owner="alice"), policies={1: policy(*steps)})
    after, effects = advance(book, 5, next_step=1, reached=True)

    assert (after.chain_over, effects) == (True, ())


def test_of_a_policy_without_steps_the_last_resort_hears_once_though_it_is_deleted():
    begun, first = escalation.advance(
        incident(), replace(directory(owner="alice"), policies={1: policy()}), ACTOR, NOON
    )

    assert [user for user, _ in owed(first)] == [ALICE.row]
    assert escalation.next_due_at(begun, None) is None


def test_without_a_policy_somebody_is_told_all_the_same():
    _, effects = advance(directory(owner="alice"), 0, escalation_policy=None)

    assert owed(effects) == [(ALICE.row, NOON)]


def test_a_removed_person_counts_as_nobody():
    _, effects = advance(directory((0, "gone"), (30, "alice")), 0)

    assert owed(effects) == [(ALICE.row, NOON)]
    reasons = [effect.reason for effect in effects if isinstance(effect, RecordLog)]
    assert reasons == ["step 1 of policy Default: nobody there", "step 2 of policy Default: Alice"]


def test_moving_on_does_not_run_into_the_next_pass():
    book = directory((0, "alice"), (5,), repeat=3, move_to_next=True)
    after, effects = advance(book, 5, next_step=1)

    assert after.next_step == 2
    assert owed(effects) == []


def test_each_step_names_who_is_on_call_when_it_is_taken():
    turns = schedule(layer("alice bob", "2026-03-04 12:10"))
    book = directory((0, "charlie"), (10, turns), (1450, turns))

    told = []
    current = incident()
    for minutes in (0, 10, 1450):
        current, effects = escalation.advance(current, book, ACTOR, NOON + minutes * MINUTE)
        told += [user for user, _ in owed(effects)]

    assert told == [CHARLIE.row, ALICE.row, BOB.row, BOB.row]


NIGHTS = schedule(overrides=[override("bob", "2026-03-04 12:00", "2026-03-04 12:30")])


def test_a_step_without_anybody_on_call_lets_the_next_one_begin_at_once():
    _, effects = advance(directory((0, NIGHTS), (30, "alice")), 40)

    assert owed(effects) == [(ALICE.row, NOON + 40 * MINUTE)]


def test_a_step_without_anybody_on_call_is_waited_for_when_the_policy_says_so():
    after, effects = advance(directory((0, NIGHTS), (90, "alice"), move_to_next=False), 40)

    assert (after.next_step, owed(effects)) == (1, [])


def test_a_chain_whose_people_were_gone_when_it_was_their_turn_tells_the_last_resort_at_its_end():
    book = directory((0,), (40, NIGHTS), move_to_next=False, owner="alice")
    begun, first = advance(book, 0)
    ended, second = escalation.advance(begun, book, ACTOR, NOON + 40 * MINUTE)
    _, third = escalation.advance(ended, book, ACTOR, NOON + 50 * MINUTE)

    assert (owed(first), owed(second), owed(third)) == ([], [(ALICE.row, NOON + 40 * MINUTE)], [])
    assert begun.reached is False


def test_the_last_resort_of_a_chain_that_begins_with_nobody_is_told_once():
    book = directory((0, NIGHTS), (5, NIGHTS), owner="alice")
    begun, first = advance(book, 60)
    _, second = escalation.advance(begun, book, ACTOR, NOON + 90 * MINUTE)

    assert ([user for user, _ in owed(first)], owed(second)) == ([ALICE.row], [])


def test_a_chain_that_begins_later_is_not_said_to_reach_nobody_before_it_begins():
    later = schedule(overrides=[override("bob", "2026-03-04 13:00", "2026-03-04 14:00")])
    book = directory((0, later), owner="alice")

    before, first = advance(book, 0, chain_started_at=NOON + 60 * MINUTE)
    _, second = escalation.advance(before, book, ACTOR, NOON + 60 * MINUTE)

    assert (first, {user for user, _ in owed(second)}) == ((), {BOB.row})


def test_the_last_resort_is_told_after_the_first_pass_that_named_nobody_not_after_the_last():
    book = directory((0,), (30, NIGHTS), move_to_next=False, owner="alice", repeat=10)
    begun, _ = advance(book, 0)
    after, effects = escalation.advance(begun, book, ACTOR, NOON + 30 * MINUTE)
    _, later = escalation.advance(after, book, ACTOR, NOON + 61 * MINUTE)

    assert ([user for user, _ in owed(effects)], owed(later)) == ([ALICE.row], [])


def test_a_first_step_that_comes_later_takes_the_last_resort_no_second_time():
    book = directory((5,), owner="alice")
    begun, first = advance(book, 0)
    _, second = escalation.advance(begun, book, ACTOR, NOON + 5 * MINUTE)

    assert ([user for user, _ in owed(first)], owed(second)) == ([ALICE.row], [])


def test_a_notice_says_by_what_somebody_is_on_call():
    turns = schedule(layer("alice", "2026-03-04 09:00"))
    reasons = {}
    for book in (directory((0, NIGHTS)), directory((0, turns)), directory((0, turns, "alice"))):
        _, effects = advance(book, 0)
        reasons.update({e.notice.reason: None for e in effects if isinstance(e, OweNotice)})

    assert list(reasons) == [
        "named by step 1 of policy Default, on call by Schedule (override Override-1)",
        "named by step 1 of policy Default, on call by Schedule (layer Layer-1)",
    ]


def test_by_turns_everybody_of_the_first_step_is_told_unless_turns_are_told_alone():
    steps = (0, "alice", "bob"), (5, "charlie")
    everybody = directory(*steps, round_robin=True)
    alone = directory(*steps, round_robin=True, alone=True, repeat=1)

    _, effects = advance(everybody, 0, assigned_to=BOB.row)
    assert {user for user, _ in owed(effects)} == {ALICE.row, BOB.row}

    told = []
    current = incident(assigned_to=BOB.row)
    for minutes in (0, 5, 10):
        current, effects = escalation.advance(current, alone, ACTOR, NOON + minutes * MINUTE)
        told.append({user for user, _ in owed(effects)})
    assert told == [{BOB.row}, {CHARLIE.row}, {BOB.row}]


def test_whose_turn_was_taken_and_who_is_no_longer_on_call_leaves_it_to_everybody():
    alone = directory((0, "alice", "bob"), round_robin=True, alone=True)

    _, effects = advance(alone, 0, assigned_to=CHARLIE.row)

    assert {user for user, _ in owed(effects)} == {ALICE.row, BOB.row}


def test_two_whose_notices_go_to_the_same_person_are_one_to_tell():
    away = [replace(one, forwarding=(ForwardingFacts(NOON, NOON + MINUTE, CHARLIE),)) for one in (ALICE, BOB)]
    _, effects = advance(directory((0, "alice", "bob", "charlie"), people=(*away, CHARLIE)), 0)

    assert owed(effects) == [(CHARLIE.row, NOON)]
    (log,) = [effect.reason for effect in effects if isinstance(effect, RecordLog)]
    assert log.endswith("Alice (forwarded to Charlie), Bob (forwarded to Charlie), Charlie")


STEPS = st.lists(
    st.tuples(st.integers(0, 60), st.lists(st.sampled_from(["alice", "bob", "charlie", "gone"]), max_size=3)),
    min_size=1,
    max_size=5,
).map(lambda steps: sorted(steps, key=lambda step: step[0]))


@given(STEPS, st.integers(0, 3), st.booleans(), st.lists(st.integers(0, 600), max_size=20))
def test_however_often_it_is_looked_at_nobody_is_told_twice_for_a_step_and_never_early(
    steps, repeat, move_to_next, looks
):
    book = directory(*((delay, *names) for delay, names in steps), repeat=repeat, move_to_next=move_to_next)
    current, keys = incident(), []
    for minutes in sorted(looks):
        current, effects = escalation.advance(current, book, ACTOR, NOON + minutes * MINUTE)
        notices = [effect.notice for effect in effects if isinstance(effect, OweNotice)]
        keys += [notice.key for notice in notices]
        assert all(notice.not_before >= NOON + minutes * MINUTE for notice in notices)
        persons = [(notice.user, notice.contact, notice.rule) for notice in notices]
        assert len(persons) == len(set(persons))

    assert len(keys) == len(set(keys))
    assert current.next_step <= escalation.chain_length(book.policies[1])
