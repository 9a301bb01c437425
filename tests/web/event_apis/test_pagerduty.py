"""PagerDuty's Events API: senders need another URL and the key of an integration."""

import pytest

from models.domain.enums import AlertType
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident, IncidentNote
from workers.alerts import process_lane

V1 = "/generic/2010-04-15/create_event.json"


@pytest.fixture
def key(world):
    return world.integration.integration_key


@pytest.fixture
def send(ask, world, key):
    """send(event, path): the answer to an event with the key, after its alert was processed."""

    def send(event, path="/v2/enqueue"):
        name = "service_key" if path.startswith(V1) else "routing_key"
        answer = ask("POST", path, {name: key, **event}, who=None)
        process_lane.run(world.service.id)
        return answer

    return send


def trigger(**changes):
    payload = {"summary": "Disk full on db1", "source": "db1", "severity": "critical", **changes}
    return {"event_action": "trigger", "dedup_key": "db1/disk", "payload": payload}


@pytest.mark.parametrize("path", ["/v2/enqueue", "/v2/enqueue/"])
def test_a_trigger_opens_an_incident_that_a_resolve_resolves(send, path):
    opened = send(trigger(), path)
    resolved = send({"event_action": "resolve", "dedup_key": "db1/disk"}, path)

    expected = {"status": "success", "message": "Event processed", "dedup_key": "db1/disk"}
    assert (opened.status_code, opened.json) == (202, expected)
    assert (resolved.status_code, resolved.json) == (202, expected)
    assert [(row.title, row.status) for row in Incident.select()] == [("Disk full on db1", 3)]


def test_an_acknowledge_acknowledges_the_incident(send):
    send(trigger())
    send({"event_action": "acknowledge", "dedup_key": "db1/disk"})

    assert Incident.get().status == 2


@pytest.mark.parametrize("path", [V1, f"{V1}/"])
def test_version_1_opens_and_resolves_an_incident(send, path):
    event = {"incident_key": "db1/disk", "description": "Disk full on db1", "details": {"used": "97 %"}}
    opened = send({"event_type": "trigger", **event}, path)
    send({"event_type": "resolve", **event}, path)

    assert (opened.status_code, opened.json["incident_key"]) == (200, "db1/disk")
    assert [(row.title, row.status) for row in Incident.select()] == [("Disk full on db1", 3)]


def test_the_answer_has_the_key_that_tocsin_makes_for_an_event_without_one(send):
    made = send({**trigger(), "dedup_key": None}).json["dedup_key"]
    send({"event_action": "resolve", "dedup_key": made})

    assert Incident.get().status == 3


def test_links_images_and_the_client_are_kept_and_the_key_is_not(send, key):
    send(
        {
            **trigger(),
            "client": "Nagios",
            "client_url": "https://nagios.example.org",
            "links": [{"href": "https://wiki.example.org", "text": "Runbook"}, {"href": "javascript:x"}],
            "images": [{"src": "https://img.example.org/a.png", "alt": "Graph"}],
        }
    )

    alert = Event.get().alert
    assert [link["link_text"] for link in alert["urls"]] == ["Runbook", "Nagios"]
    assert [image["image_text"] for image in alert["images"]] == ["Graph"]
    assert key not in str(alert)


@pytest.mark.parametrize(
    ("severity", "level"),
    [("critical", 3), ("error", 2), ("warning", 1), ("info", 0), ("fatal", 3), (None, 3)],
)
def test_the_severity_is_the_level_and_an_unknown_one_is_critical(send, severity, level):
    send(trigger(severity=severity))

    assert Event.get().alert_type == AlertType(level)


def test_the_trace_says_that_a_severity_is_unknown(send, ask):
    send(trigger(severity="fatal"))

    trace = ask("GET", f"/api/tocsin/alerts/{Receipt.get().trace_id}/").text
    assert "The source sent the level fatal, which Tocsin does not know" in trace


def test_a_key_without_hyphens_is_the_same_key(ask, world, key):
    answer = ask("POST", "/v2/enqueue", {**trigger(), "routing_key": key.replace("-", "")}, who=None)

    assert answer.status_code == 202
    assert Receipt.get().integration_id == world.integration.id


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ({"event_action": "trigger", "payload": {}}, "payload.summary is missing or blank"),
        ({"event_action": "triggered"}, "event_action must be one of trigger, acknowledge, resolve"),
        ({"event_action": "resolve"}, "dedup_key is required to resolve"),
        ({"event_action": ["trigger"]}, "event_action must be one of trigger, acknowledge, resolve"),
    ],
)
def test_an_invalid_event_is_refused_with_its_reason(send, event, why):
    answer = send(event)

    assert answer.status_code == 400
    assert answer.json == {
        "status": "invalid event",
        "message": "Event object is invalid",
        "errors": [why],
    }
    assert not Receipt.select().exists()


@pytest.mark.parametrize("key", ["", "unknown", "0b0a9b4e-0000-4000-8000-000000000000", 5, None, ["a"]])
def test_an_unknown_key_is_refused(ask, world, key):
    answer = ask("POST", "/v2/enqueue", {**trigger(), "routing_key": key}, who=None)

    assert (answer.status_code, answer.json["errors"]) == (400, ["The key is unknown."])


def test_a_body_that_is_not_json_is_refused(app):
    answer = app.test_client().post("/v2/enqueue", data=b"routing_key=1")

    assert (answer.status_code, answer.json["errors"]) == (400, ["body is not JSON"])


def test_a_body_that_is_too_large_is_refused_in_the_form_of_the_api(app, key):
    answer = app.test_client().post("/v2/enqueue", data=b'{"routing_key": "' + b"a" * 600_000)

    assert (answer.status_code, answer.json["status"]) == (413, "error")


def test_an_api_token_is_no_key(ask, world):
    answer = ask("POST", "/v2/enqueue", {**trigger(), "routing_key": world.tokens["alice"]})

    assert answer.status_code == 400


def test_an_integration_key_is_no_api_token(app, key):
    answer = app.test_client().get("/api/incidents/", headers={"Authorization": f"Bearer {key}"})

    assert answer.status_code == 401


def test_an_event_adds_no_note(send):
    send(trigger())

    assert not IncidentNote.select().exists()


def test_the_answer_names_the_key_by_which_the_event_can_be_resolved(send):
    answer = send({**trigger(), "dedup_key": "", "incident_key": "of version 1"})

    (entity,) = {event.entity_id for event in Event.select()}
    assert answer.json["dedup_key"] == entity
