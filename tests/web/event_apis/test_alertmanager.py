"""Alertmanager's API: Prometheus pushes alerts with the key of an integration, and sends them again."""

import base64
from datetime import UTC, datetime, timedelta

import pytest

from models.tables.events import Entity, Event, Receipt
from models.tables.incidents import Incident
from tests.support.rules import add_router, add_router_rule
from workers.alerts import process_lane, process_router


@pytest.fixture
def key(world):
    return world.integration.integration_key


def alert(name="DiskFull", ends_in_s=240, **more):
    now = datetime.now(UTC)
    return {
        "labels": {"alertname": name, "instance": "db1", "severity": "critical"},
        "annotations": {"summary": f"{name} on db1"},
        "startsAt": (now - timedelta(minutes=5)).isoformat(),
        "endsAt": (now + timedelta(seconds=ends_in_s)).isoformat(),
        "generatorURL": "http://prometheus.example.org/graph",
        **more,
    }


@pytest.fixture
def push(ask, world, key):
    """push(alerts): the answer to a push of Prometheus, after its alerts were processed."""

    def push(alerts, path="/api/v2/alerts", key=key):
        answer = ask("POST", path, alerts, who=None, headers={"Authorization": f"Bearer {key}"})
        process_lane.run(world.service.id)
        return answer

    return push


def basic(key):
    return "Basic " + base64.b64encode(f"prometheus:{key}".encode()).decode()


@pytest.mark.parametrize(
    ("path", "header"),
    [
        ("/api/v2/alerts", "Bearer {key}"),
        ("/api/v2/alerts/", "Bearer {key}"),
        ("/api/v2/alerts", "basic"),
        ("/api/v2/alerts?key={key}", ""),
        ("/integration/alertmanager/{key}/api/v2/alerts", ""),
        ("/integration/alertmanager/{key}/api/v2/alerts/", ""),
    ],
)
def test_the_key_may_be_at_each_place_where_senders_can_put_it(ask, world, key, path, header):
    header = basic(key) if header == "basic" else header.format(key=key)
    headers = {"Authorization": header} if header else {}
    answer = ask("POST", path.format(key=key), [alert()], who=None, headers=headers)

    assert (answer.status_code, answer.data) == (200, b"")
    assert Receipt.get().integration_id == world.integration.id


def test_an_alert_opens_an_incident_and_its_end_resolves_it(push):
    push([alert("DiskFull"), alert("CpuHot")])
    push([alert("DiskFull", ends_in_s=-1), alert("CpuHot")])

    assert {(row.title, row.status) for row in Incident.select()} == {
        ("DiskFull on db1", 3),
        ("CpuHot on db1", 1),
    }


def test_an_alert_that_is_sent_again_extends_its_entity_and_is_not_stored(push):
    push([alert()])
    before = Entity.get().expires_at
    push([alert(ends_in_s=600)])

    assert Event.select().count() == 1
    assert Entity.get().expires_at > before
    assert Receipt.select().where(Receipt.state == 1).count() == 2


def test_the_trace_of_a_push_that_says_nothing_new_has_no_alerts(push, ask):
    push([alert()])
    push([alert(ends_in_s=600)])
    second = Receipt.select().order_by(Receipt.id.desc()).get()

    trace = ask("GET", f"/api/tocsin/alerts/{second.trace_id}/").json
    assert (trace["status"], trace["alerts"]) == ("completed", [])


def test_a_resolve_that_is_sent_again_is_not_stored(push):
    push([alert()])
    for _ in range(3):
        push([alert(ends_in_s=-60)])

    assert [row.alert_type for row in Event.select().order_by(Event.id)] == [3, 5]


def test_an_incident_that_a_person_resolved_stays_resolved_when_the_alert_is_sent_again(push, ask):
    push([alert()])
    number = Incident.get().incident_number
    assert ask("PUT", f"/api/incidents/{number}/", {"status": 3}).status_code == 200
    push([alert(ends_in_s=600)])

    assert [row.status for row in Incident.select()] == [3]


def test_an_alert_that_fires_again_after_its_end_opens_a_new_incident(push):
    push([alert()])
    push([alert(ends_in_s=-60)])
    push([alert(startsAt=datetime.now(UTC).isoformat())])

    assert [row.status for row in Incident.select().order_by(Incident.id)] == [3, 1]


def test_alerts_without_labels_are_refused_and_the_others_are_stored(push):
    answer = push([{"labels": {}}, alert(), {"labels": {"alertname": ""}}, 5])

    assert answer.status_code == 400
    assert answer.json == "Alerts without labels that can be read, which are not stored: 3."
    assert [row.title for row in Incident.select()] == ["DiskFull on db1"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ([], "body has no alert with labels"),
        ([{}], "body has no alert with labels"),
        ({"alerts": []}, "body must be a list, not an object"),
    ],
)
def test_a_body_without_alerts_is_refused_with_its_reason(push, body, why):
    answer = push(body)

    assert (answer.status_code, answer.json) == (400, why)


def test_an_api_token_is_no_key(ask, world):
    answer = ask("POST", "/api/v2/alerts", [alert()])

    assert (answer.status_code, answer.json) == (401, "The request needs the key of an integration.")
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert ask("POST", "/api/v2/alerts", [alert()], who=None).status_code == 401


def test_labels_with_the_same_texts_at_other_places_are_different_problems(push):
    push(
        [alert(labels={"a": "b", "c": "d"}), alert(labels={"a": "b,c=d"}), alert(labels={"c": "d", "a": "b"})]
    )

    assert Entity.select().count() == 2


@pytest.fixture
def answer(ask):
    """answer(): what the trace of the last push answers."""

    def answer():
        last = Receipt.select().order_by(Receipt.id.desc()).get()
        return ask("GET", f"/api/tocsin/alerts/{last.trace_id}/").json["answer"]

    return answer


def test_a_push_that_says_nothing_new_names_the_incident_that_has_its_alert(push, answer):
    push([alert()])
    push([alert(ends_in_s=600)])
    of_one = answer()
    push([alert("CpuHot")])
    push([alert("CpuHot"), alert(ends_in_s=700)])

    has = "the alert repeats one that is known: incident #1 has it and is triggered"
    assert of_one == [f"NOBODY WAS NOTIFIED: {has}."]
    both = "the alerts repeat ones that are known: incident #1 (triggered), incident #2 (triggered)"
    assert answer() == [f"NOBODY WAS NOTIFIED: {both}."]


def test_an_end_that_is_sent_again_names_the_incident_that_it_resolved(push, answer):
    push([alert()])
    for _ in range(2):
        push([alert(ends_in_s=-60)])

    assert "incident #1 has it and is resolved" in answer()[0]


def test_an_alert_that_opens_no_incident_and_is_sent_again_names_none(push, answer):
    labels = {"alertname": "DiskFull", "severity": "info"}
    push([alert(labels=labels)])
    first = answer()
    push([alert(labels=labels)])

    assert "info alerts open no incident here" in first[0]
    assert answer() == ["NOBODY WAS NOTIFIED: the source sent again what is known, and nothing else."]


def test_a_push_of_a_router_that_says_nothing_new_names_the_incident(ask, world, answer):
    router = add_router(world)
    add_router_rule(router, world.integration)
    for ends_in_s in (240, 600):
        headers = {"Authorization": f"Bearer {router.integration_key}"}
        ask("POST", "/api/v2/alerts", [alert(ends_in_s=ends_in_s)], who=None, headers=headers)
        process_router.run(router.id)
        process_lane.run(world.service.id, "rules")

    assert "incident #1 has it and is triggered" in answer()[0]
