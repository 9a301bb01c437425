"""What a person is owed where they are named, themselves or by forwarding."""

from dataclasses import replace
from datetime import timedelta

import pytest

from models.enums import NoticeKind
from models.facts import Directory, ForwardingFacts
from schedules.notices import named, notices_for, recipient
from tests.facts import ALICE, BOB, CHARLIE, MINUTE, NOON, incident


def forwarded(person, *rules):
    """Somebody whose notices go to others, each (to, from, until) in minutes after noon."""
    return replace(
        person,
        forwarding=tuple(
            ForwardingFacts(NOON + start * MINUTE, NOON + end * MINUTE, to) for to, start, end in rules
        ),
    )


def owed(person, at=NOON, worked_at=None):
    book = Directory(worked_at=worked_at)
    return notices_for(incident(), person, NoticeKind.ESCALATION, "1:0", "named by step 1", book, at)


@pytest.mark.parametrize(("minutes", "told"), [(-1, ALICE.row), (0, BOB.row), (59, BOB.row), (60, ALICE.row)])
def test_forwarding_holds_from_its_start_until_just_before_its_end(minutes, told):
    away = forwarded(ALICE, (BOB, 0, 60))

    assert {notice.user for notice in owed(away, NOON + minutes * MINUTE)} == {told}


def test_who_is_told_instead_is_told_by_their_own_rules_and_why():
    notices = owed(forwarded(ALICE, (BOB, 0, 60)))

    assert [notice.not_before for notice in notices] == [NOON, NOON + 5 * MINUTE]
    assert {notice.reason for notice in notices} == {"named by step 1; forwarded from Alice"}


def test_who_has_no_rules_is_told_instead_at_their_accounts_address():
    (notice,) = owed(forwarded(ALICE, (CHARLIE, 0, 60)))

    assert (notice.user, notice.contact) == (CHARLIE.row, None)


def test_forwarding_is_not_followed_any_further():
    away = forwarded(ALICE, (forwarded(BOB, (CHARLIE, 0, 60)), 0, 60))

    assert {notice.user for notice in owed(away)} == {BOB.row}


def test_of_several_that_hold_the_one_that_began_last_counts():
    away = forwarded(ALICE, (BOB, -60, 60), (CHARLIE, -5, 5))

    assert recipient(away, NOON) == CHARLIE
    assert recipient(away, NOON + 5 * MINUTE) == BOB


def test_a_log_names_both():
    assert named(forwarded(ALICE, (BOB, 0, 60)), Directory(), NOON) == "Alice (forwarded to Bob)"
    assert named(ALICE, Directory(), NOON) == "Alice"


@pytest.mark.parametrize(("waited", "told"), [(0, BOB.row), (60, BOB.row), (61, ALICE.row)])
def test_what_has_waited_goes_by_the_forwarding_of_the_moment_at_which_it_is_worked_on(waited, told):
    away = forwarded(ALICE, (BOB, 0, 1))
    notices = owed(away, NOON, NOON + timedelta(seconds=waited))

    assert {notice.user for notice in notices} == {told}
    assert notices[0].not_before == NOON
