"""Tests of responder requests: whom each notifies, and that none notifies twice."""

import pytest

from models.domain.effects import AddResponder, Author, CreateNotification, RecordLog
from models.domain.enums import AuthorKind, IncidentStatus, NotificationKind
from models.domain.facts import IncidentContext
from models.domain.reasons import make_reason
from schedules.escalation.responders import ResponderRequest, request_responders
from tests.support.facts import ALICE, BOB, MINUTE, NOON, build_config, incident

AUTHOR = Author(AuthorKind.USER, "Alice", user=ALICE.row)


def call_people(*calls, config=None, **changes):
    context = IncidentContext(incident(**changes), None, config or build_config(), AUTHOR, NOON)
    return request_responders(context, calls)


def list_notifications(effects):
    return [effect.notification for effect in effects if isinstance(effect, CreateNotification)]


def list_reasons(effects):
    return [effect.reason for effect in effects if isinstance(effect, RecordLog)]


def test_a_person_is_notified_by_each_of_their_rules():
    effects = call_people(ResponderRequest("call-1", person=BOB))

    assert effects[0] == AddResponder("incident-1", "call-1", NOON, user=BOB.row)
    assert [(n.user, n.not_before, n.kind) for n in list_notifications(effects)] == [
        (BOB.row, NOON, NotificationKind.RESPONDER),
        (BOB.row, NOON + 5 * MINUTE, NotificationKind.RESPONDER),
    ]
    assert list_reasons(effects) == [make_reason("responder_asked", people=("Bob",), by="Alice")]


def test_a_policy_stands_for_the_first_step_with_people():
    config = build_config((0, "gone"), (5, "bob", "alice"), (9, "charlie"))

    effects = call_people(ResponderRequest("call-1", policy=config.policies[1]), config=config)

    assert effects[0] == AddResponder("incident-1", "call-1", NOON, escalation_policy=1)
    assert {notification.user for notification in list_notifications(effects)} == {ALICE.row, BOB.row}
    assert list_reasons(effects) == [
        make_reason("responder_policy_asked", policy="Default", people=("Bob", "Alice"), by="Alice")
    ]


@pytest.mark.parametrize(
    ("managers", "expected_users", "whom"),
    [(["bob"], BOB.row, "managers_notified"), ([], ALICE.row, "owner_notified")],
)
def test_a_policy_that_reaches_nobody_notifies_the_managers_or_else_the_owner(managers, expected_users, whom):
    config = build_config((0, "gone"), managers=managers, owner="alice")

    effects = call_people(ResponderRequest("call-1", policy=config.policies[1]), config=config)

    assert {notification.user for notification in list_notifications(effects)} == {expected_users}
    expected = make_reason("responder_policy_empty", policy="Default", by="Alice").add(make_reason(whom))
    assert list_reasons(effects) == [expected]


@pytest.mark.parametrize(
    ("status", "expected_users"),
    [(IncidentStatus.TRIGGERED, 2), (IncidentStatus.ACKNOWLEDGED, 2), (IncidentStatus.RESOLVED, 0)],
)
def test_a_request_for_a_resolved_incident_notifies_nobody(status, expected_users):
    assert (
        len(list_notifications(call_people(ResponderRequest("call-1", person=BOB), status=status)))
        == expected_users
    )


def test_a_repeated_request_has_the_same_keys_and_a_new_one_has_others():
    first, again, other = (
        list_notifications(call_people(ResponderRequest(name, person=BOB))) for name in ("a", "a", "b")
    )

    assert first == again
    assert {notification.key for notification in first}.isdisjoint(notification.key for notification in other)
