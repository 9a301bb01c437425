"""Responders of an incident, and their notifications."""

import pytest

from models.domain.enums import NotificationKind, NotificationStatus
from models.store.ids import make_uuid
from models.store.store import connection
from models.tables.accounts import User
from models.tables.incidents import IncidentResponder
from models.tables.notifications import Notification
from tests.support.alert_sequences import run_parallel
from tests.support.scenarios.incident_log import list_log_reasons

RESPONDERS = "/api/incidents/1/responders/"
V2 = "/api/v2/incidents/1/responders/"


@pytest.fixture(autouse=True)
def incident(ask, world):
    return ask("POST", "/api/incidents/", {"title": "Disk full", "service": world.service.unique_id}).json


def list_notified(state=NotificationStatus.PENDING):
    """Return the people with pending notifications because they were asked to help."""
    asked = (
        Notification.select(Notification, User)
        .join(User)
        .where(Notification.kind == NotificationKind.RESPONDER)
    )
    return [
        notification.user.first_name
        for notification in asked.where(Notification.state == state).order_by(Notification.id)
    ]


def test_a_person_who_is_asked_is_notified(ask, world):
    made = ask("POST", V2, {"user": world.bob.username, "message": "Please\x07 look"})

    assert made.status_code == 201
    assert made.json == {
        "unique_id": made.json["unique_id"],
        "incident": 1,
        "user": world.bob.username,
        "user_name": "Bob",
        "subject": None,
        "message": "Please look",
        "escalation_policy": None,
        "escalation_policy_name": None,
        "response_status": 3,
        "creation_date": made.json["creation_date"],
    }
    assert len(made.json["unique_id"]) == 22
    assert list_notified() == ["Bob"]


def test_both_paths_serve_the_same_responders(ask, world):
    made = ask("POST", RESPONDERS, {"user": world.bob.username}).json

    for path in (RESPONDERS, V2):
        assert ask("GET", path).json == ask("GET", path, scheme="Token").json == [made]
        assert ask("GET", f"{path}{made['unique_id']}/").json == made


def test_a_policy_is_one_responder_and_notifies_its_people(ask, world):
    made = ask("POST", V2, {"escalation_policy": world.policy.unique_id}).json

    assert (made["user"], made["user_name"]) == (None, None)
    assert made["escalation_policy"] == world.policy.unique_id
    assert made["escalation_policy_name"] == world.policy.name
    assert list_notified() == ["Alice"]


def test_a_responder_is_notified_of_an_acknowledged_incident_but_not_of_a_resolved_one(ask, world):
    ask("PATCH", "/api/incidents/1/", {"status": 2})
    ask("POST", V2, {"user": world.bob.username})
    assert list_notified() == ["Bob"]

    ask("PATCH", "/api/incidents/1/", {"status": 3})
    assert ask("POST", V2, {"user": world.charlie.username}).status_code == 201
    assert list_notified() == []


def test_acknowledge_cancels_pending_notifications_to_responders(ask, world):
    ask("POST", V2, {"user": world.bob.username})
    ask("PATCH", "/api/incidents/1/", {"status": 2})

    assert (list_notified(), list_notified(NotificationStatus.CANCELLED)) == ([], ["Bob"])


@pytest.mark.parametrize("kind", ["user", "escalation_policy"])
def test_the_same_responder_twice_is_refused(ask, world, kind):
    body = {"user": world.bob.username} if kind == "user" else {"escalation_policy": world.policy.unique_id}
    responses = [ask("POST", V2, body, scheme="Token") for _ in range(2)]

    assert [answer.status_code for answer in responses] == [201, 400]
    assert responses[1].json["errors"] == {kind: ["This responder was already asked to help."]}
    assert IncidentResponder.select().count() == 1


def test_one_of_two_concurrent_requests_is_refused_and_one_notification_is_created(app, world):
    statuses = []

    def call_responder():
        with connection():
            answer = app.test_client().post(
                V2,
                json={"user": world.bob.username},
                headers={"Authorization": f"Bearer {world.tokens['alice']}"},
            )
        statuses.append(answer.status_code)

    run_parallel([call_responder] * 4)

    assert sorted(statuses) == [201, 400, 400, 400]
    assert list_notified() == ["Bob"]


def test_a_responder_is_either_a_user_or_a_policy(ask, world, now):
    User.update(removed_at=now).where(User.id == world.charlie.id).execute()
    wrong = [
        {},
        {"user": ""},
        {"user": None, "escalation_policy": None},
        {"user": world.bob.username, "escalation_policy": world.policy.unique_id},
        {"user": world.mallory.username},
        {"user": world.charlie.username},
        {"user": "x"},
        {"user": 7},
        {"escalation_policy": make_uuid()},
        {"escalation_policy": "x"},
    ]

    assert [body for body in wrong if ask("POST", V2, body).status_code != 400] == []
    assert IncidentResponder.select().count() == 0


def test_a_removed_responder_is_not_notified_and_can_be_asked_again(ask, world):
    made = ask("POST", V2, {"user": world.bob.username}).json

    assert ask("DELETE", f"{V2}{made['unique_id']}/").status_code == 204
    assert (list_notified(), list_notified(NotificationStatus.CANCELLED)) == ([], ["Bob"])
    assert ask("GET", f"{V2}{made['unique_id']}/").status_code == 404

    assert ask("POST", V2, {"user": world.bob.username}).status_code == 201
    assert list_notified() == ["Bob"]


def test_removing_a_responder_keeps_the_notifications_of_others(ask, world):
    made = ask("POST", V2, {"user": world.bob.username}).json
    ask("POST", V2, {"user": world.charlie.username})
    ask("DELETE", f"{V2}{made['unique_id']}/")

    assert list_notified() == ["Charlie"]
    other_notifications = Notification.select().where(Notification.kind != NotificationKind.RESPONDER)
    assert {notification.state for notification in other_notifications} == {NotificationStatus.PENDING}


def test_the_timeline_has_each_change(ask, world):
    made = ask("POST", V2, {"user": world.bob.username}).json
    ask("DELETE", f"{V2}{made['unique_id']}/", who="bob")

    reasons = [str(reason) for reason in list_log_reasons("called")]
    assert reasons == ["Asked to help by Alice: Bob.", "Bob removed from the responders by Bob."]


@pytest.mark.parametrize(("status", "word"), [(1, "accepted"), (2, "declined")])
def test_a_responder_who_has_answered_is_not_notified_again(ask, world, status, word):
    made = ask("POST", V2, {"user": world.bob.username}).json

    answered = ask("PATCH", f"{V2}{made['unique_id']}/", {"response_status": status, "user": "x"}, who="bob")

    assert answered.json == {**made, "response_status": status}
    assert (list_notified(), list_notified(NotificationStatus.CANCELLED)) == ([], ["Bob"])
    reasons = [str(reason) for reason in list_log_reasons("called")]
    assert reasons[-1] == f"Bob {word} the request for help, recorded by Bob."


@pytest.mark.parametrize("status", [0, 4, "x", None, [], 2**63])
def test_an_invalid_response_status_is_refused(ask, world, status):
    made = ask("POST", V2, {"user": world.bob.username}).json

    assert ask("PUT", f"{V2}{made['unique_id']}/", {"response_status": status}).status_code == 400
