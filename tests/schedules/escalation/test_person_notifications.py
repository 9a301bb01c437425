"""Tests of the notifications of a person, directly or by forwarding."""

from datetime import timedelta

import pytest

from models.domain.effects import Author
from models.domain.enums import AuthorKind, NotificationKind
from models.domain.facts import ForwardingFacts, IncidentContext, OnCallConfig
from models.domain.reasons import make_reason
from models.domain.values import replace
from schedules.escalation.person_notifications import build_notifications, get_recipient, list_names
from tests.support.facts import ALICE, BOB, CHARLIE, MINUTE, NOON, incident

WHY = make_reason("named_by_step", step=make_reason("step", number=1, policy="Default"))


def build_forwarded(person, *rules):
    """Return a person with forwarding rules (to, from, until), in minutes after noon."""
    return replace(
        person,
        forwarding=tuple(
            ForwardingFacts(NOON + start * MINUTE, NOON + end * MINUTE, to) for to, start, end in rules
        ),
    )


def list_notifications(person, at=NOON, processed_at=None):
    config = OnCallConfig(processed_at=processed_at)
    context = IncidentContext(incident(), None, config, Author(AuthorKind.TIMER, "escalate"), at)
    created = build_notifications(context, person, NotificationKind.ESCALATION, "1:0", WHY)
    return [effect.notification for effect in created]


@pytest.mark.parametrize(
    ("minutes", "expected_user"), [(-1, ALICE.row), (0, BOB.row), (59, BOB.row), (60, ALICE.row)]
)
def test_forwarding_is_in_force_from_its_start_until_just_before_its_end(minutes, expected_user):
    forwarded_person = build_forwarded(ALICE, (BOB, 0, 60))

    assert {
        notification.user for notification in list_notifications(forwarded_person, NOON + minutes * MINUTE)
    } == {expected_user}


def test_a_receiver_is_notified_by_their_own_rules_with_the_reason():
    notifications = list_notifications(build_forwarded(ALICE, (BOB, 0, 60)))

    assert [notification.not_before for notification in notifications] == [NOON, NOON + 5 * MINUTE]
    assert {notification.reason for notification in notifications} == {
        WHY.add(make_reason("forwarded_from", person="Alice"))
    }


def test_a_receiver_without_rules_is_notified_at_their_own_address():
    (notification,) = list_notifications(build_forwarded(ALICE, (CHARLIE, 0, 60)))

    assert (notification.user, notification.contact) == (CHARLIE.row, None)


def test_the_forwarding_of_a_receiver_is_not_followed():
    forwarded_person = build_forwarded(ALICE, (build_forwarded(BOB, (CHARLIE, 0, 60)), 0, 60))

    assert {notification.user for notification in list_notifications(forwarded_person)} == {BOB.row}


def test_the_forwarding_that_began_last_counts():
    forwarded_person = build_forwarded(ALICE, (BOB, -60, 60), (CHARLIE, -5, 5))

    assert get_recipient(forwarded_person, NOON) == CHARLIE
    assert get_recipient(forwarded_person, NOON + 5 * MINUTE) == BOB


def test_a_log_names_the_person_and_the_receiver():
    people = [build_forwarded(ALICE, (BOB, 0, 60)), ALICE]

    assert list_names(people, OnCallConfig(), NOON) == (
        make_reason("forwarded_person", person="Alice", receiver="Bob"),
        "Alice",
    )


@pytest.mark.parametrize(("waited", "expected_user"), [(0, BOB.row), (60, BOB.row), (61, ALICE.row)])
def test_an_alert_processed_late_uses_the_forwarding_of_the_processing_time(waited, expected_user):
    forwarded_person = build_forwarded(ALICE, (BOB, 0, 1))
    notifications = list_notifications(forwarded_person, NOON, NOON + timedelta(seconds=waited))

    assert {notification.user for notification in notifications} == {expected_user}
    assert notifications[0].not_before == NOON
