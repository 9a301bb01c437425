"""Opsgenie's Alert API: senders need another URL and the key of an integration."""

import pytest

from models.domain.applications import GENERIC
from models.domain.enums import AlertType
from models.store.ids import make_uuid
from models.tables.events import Entity, Event
from models.tables.incidents import Incident, IncidentNote
from models.tables.services import Integration
from workers.alerts import process_lane

ALERT = {"message": "Disk full on db1", "alias": "db1/disk", "description": "/var at 97 %", "priority": "P1"}


@pytest.fixture
def send(ask, world):
    """send(path, body): the answer to a request with the key, after its alert was processed."""
    headers = {"Authorization": f"GenieKey {world.integration.integration_key}"}

    def send(path, body=None, method="POST"):
        answer = ask(method, path, body, who=None, headers=headers)
        process_lane.run(world.service.id)
        return answer

    return send


def close(alias="db1/disk", action="close", kind="alias"):
    return f"/v2/alerts/{alias}/{action}?identifierType={kind}"


@pytest.mark.parametrize("path", ["/v2/alerts", "/v2/alerts/"])
def test_a_created_alert_opens_an_incident_that_a_close_by_alias_resolves(send, path):
    created = send(path, ALERT)
    closed = send(close(), {"source": "db1"})

    assert (created.status_code, closed.status_code) == (202, 202)
    assert created.json.keys() == {"result", "took", "requestId"}
    assert created.json["result"] == "Request will be processed"
    assert [(row.title, row.summary, row.status) for row in Incident.select()] == [
        ("Disk full on db1", "/var at 97 %", 3)
    ]


def test_a_request_without_a_body_acknowledges(send):
    send("/v2/alerts", ALERT)
    answer = send(close(action="acknowledge"))

    assert (answer.status_code, Incident.get().status) == (202, 2)


def test_a_note_is_added_to_the_open_incident(send):
    send("/v2/alerts", ALERT)
    send(close(action="notes"), {"note": "Cleaned /var/tmp", "user": "Bob"})

    assert [row.note for row in IncidentNote.select()] == ["Cleaned /var/tmp"]
    assert Incident.get().status == 1


def test_a_note_of_an_acknowledgement_is_added_too(send):
    send("/v2/alerts", ALERT)
    send(close(action="acknowledge"), {"note": "I look at it"})

    assert (Incident.get().status, IncidentNote.get().note) == (2, "I look at it")


def test_a_note_does_not_make_an_entity_fire_again(send):
    send("/v2/alerts", ALERT)
    send(close())
    send(close(action="notes"), {"note": "Late"})

    assert (Incident.get().status, Entity.get().firing) == (3, False)
    assert Event.select().order_by(Event.id.desc()).get().incident_id is None


@pytest.mark.parametrize(("action", "field"), [("message", "message"), ("description", "description")])
def test_a_changed_text_belongs_to_the_open_incident(send, action, field):
    send("/v2/alerts", ALERT)
    answer = send(close(action=action), {field: "Disk full on db1 and db2"}, "PUT")

    assert answer.status_code == 202
    assert Event.select().where(Event.incident == Incident.get().id).count() == 2


@pytest.mark.parametrize(
    ("priority", "level"), [("P1", 3), ("P2", 2), ("P3", 1), ("P4", 0), ("P5", 0), ("P9", 3), (None, 3)]
)
def test_the_priority_is_the_level_and_none_is_critical(send, priority, level):
    send("/v2/alerts", {**ALERT, "priority": priority})

    assert Event.get().alert_type == AlertType(level)


def get_status(send, answer):
    return send(f"/v2/alerts/requests/{answer.json['requestId']}", method="GET").json["data"]


def test_the_status_of_a_request_names_the_alert(send, world):
    created = get_status(send, send("/v2/alerts", ALERT))
    closed = get_status(send, send(close()))

    assert created.pop("processedAt")
    assert created == {
        "success": True,
        "action": "Create",
        "integrationId": world.integration.unique_id,
        "isSuccess": True,
        "status": "Created alert",
        "alertId": "db1/disk",
        "alias": "db1/disk",
    }
    assert (closed["isSuccess"], closed["status"]) == (True, "Closed alert")


def test_the_status_of_a_close_without_an_open_incident_says_so(send):
    status = get_status(send, send(close()))

    assert (status["isSuccess"], status["status"]) == (False, "Alert does not exist")


def test_the_status_says_that_a_request_is_not_processed_yet(ask, world):
    headers = {"Authorization": f"GenieKey {world.integration.integration_key}"}
    created = ask("POST", "/v2/alerts", ALERT, who=None, headers=headers)
    path = f"/v2/alerts/requests/{created.json['requestId']}"
    answer = ask("GET", path, who=None, headers=headers)

    status = answer.json["data"]
    assert (answer.status_code, status["isSuccess"]) == (200, False)
    assert status["status"] == "Request is not processed yet"


def test_the_alert_id_of_the_status_closes_the_alert_too(send):
    alert_id = get_status(send, send("/v2/alerts", {"message": "m"}))["alertId"]
    send(f"/v2/alerts/{alert_id}/close")

    assert Incident.get().status == 3


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        ("/v2/alerts", {}, "message may not be blank"),
        ("/v2/alerts", [], "body must be an object, not a list"),
        (close(action="notes"), {}, "note may not be blank"),
        (close(kind="tiny"), {}, "identifierType must be one of id, alias"),
    ],
)
def test_a_wrong_request_is_refused_with_its_reason(send, path, body, why):
    answer = send(path, body)

    assert (answer.status_code, answer.json["message"]) == (422, why)


@pytest.mark.parametrize("action", ["assign", "delete", "x"])
def test_other_actions_are_not_found(send, action):
    assert send(close(action=action), {}).status_code == 404


@pytest.mark.parametrize("scheme", ["Bearer", "Token", "GenieKey"])
def test_an_api_token_is_no_key(ask, world, scheme):
    answer = ask("POST", "/v2/alerts", ALERT, scheme=scheme)

    assert answer.status_code == 401
    assert "Could not authenticate" in answer.json["message"]


def test_the_key_of_another_integration_shows_no_status(send, ask, world):
    created = send("/v2/alerts", ALERT)
    other = Integration.create(
        unique_id=make_uuid(),
        service=world.service,
        application=GENERIC,
        name="Other",
        integration_key=make_uuid(),
        created_by=world.alice,
        creation_date=world.service.creation_date,
    )
    headers = {"Authorization": f"GenieKey {other.integration_key}"}

    path = f"/v2/alerts/requests/{created.json['requestId']}"
    assert ask("GET", path, who=None, headers=headers).status_code == 404
    assert ask("GET", path).status_code == 404
    assert send(f"/v2/alerts/requests/{make_uuid()}", method="GET").status_code == 404
