"""The alert trace shows why people were or were not notified (invariant 5, design, section 2)."""

import json
import tracemalloc

import pytest

from models.domain.enums import WorkState
from models.domain.reasons import make_reason
from models.reports import alert_trace, dead_letters
from models.store.ids import make_short_id
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import Attempt, Message
from models.write import change_dead_letters
from tests.support.alerts import accept
from tests.support.dead_letters import add_dead_letter_alert, add_dead_letter_body
from workers.alerts import process_lane


def process_and_trace(world, trace_id):
    process_lane.run(world.service.id)
    return alert_trace.build_trace(alert_trace.find_receipt(trace_id))


def test_an_alert_trace_has_the_stages_the_incident_and_the_notifications(world, now):
    receipt = accept(world, now, message="Disk full", alert_type="critical", entity_id="db1")
    trace = process_and_trace(world, receipt.trace_id)

    assert trace["status"] == "completed"
    assert [step["stage"] for step in trace["alerts"][0]["stages"]] == [
        "normalize", "route", "rules", "dedupe", "incident", "notify",
    ]  # fmt: skip
    (incident,) = trace["incidents"]
    assert [entry["what"] for entry in incident["log"]] == ["opened", "escalated"]
    assert incident["deliveries"][0]["person"] == "Alice"
    assert incident["deliveries"][0]["contact"] == "Primary Email"


def test_an_alert_trace_says_why_nobody_was_notified(world, now):
    receipt = accept(world, now, message="Disk nearly full", alert_type="warning")
    trace = process_and_trace(world, receipt.trace_id)

    assert trace["incidents"] == []
    assert trace["alerts"][0]["stages"][-1]["reason"] == (
        "Warning alerts open no incident here. Integration Probe opens incidents only for critical."
    )


def test_a_pending_alert_has_the_status_queued(world, now):
    receipt = accept(world, now, message="Disk full", alert_type="critical")

    assert alert_trace.build_trace(alert_trace.find_receipt(receipt.trace_id))["status"] == "queued"


def build_trace_of(receipt):
    return alert_trace.build_trace(alert_trace.find_receipt(receipt.trace_id))


def test_a_dead_letter_has_the_status_failed_until_it_is_replayed(world, now):
    body, alert = add_dead_letter_body(world, now), add_dead_letter_alert(world, now)
    before = [build_trace_of(receipt) for receipt in (body, alert.receipt)]
    change_dead_letters.replay(dead_letters.list_keys(), "Bob")
    after = [build_trace_of(receipt) for receipt in (body, alert.receipt)]

    assert [trace["status"] for trace in (*before, *after)] == ["failed", "failed", "queued", "queued"]
    assert (before[0]["replayed_at"], before[1]["alerts"][0]["pending_stage"]) == (None, None)
    assert after[0]["replayed_at"] > body.received_at
    assert (after[1]["alerts"][0]["status"], after[1]["alerts"][0]["pending_stage"]) == (
        "queued",
        "normalize",
    )
    assert after[1]["alerts"][0]["stages"][-1]["stage"] == "replay"


def test_a_dropped_dead_letter_has_the_status_failed_and_names_the_author(world, now):
    body, alert = add_dead_letter_body(world, now), add_dead_letter_alert(world, now)
    change_dead_letters.drop(dead_letters.list_keys(), "Bob")
    trace, trace_alert = (build_trace_of(receipt) for receipt in (body, alert.receipt))

    assert (trace["status"], trace_alert["status"]) == ("failed", "failed")
    assert trace["error"] == "Dropped by Bob. ZeroDivisionError in stage normalize."
    assert trace_alert["alerts"][0]["stages"][-1]["reason"] == "Dropped by Bob."


def test_the_number_of_statements_does_not_grow_with_the_alerts_of_a_receipt(world, now, statements):
    def count(alerts, number):
        body = (
            '{"alerts":[' + ",".join(f'{{"fingerprint":"{number}-{n}"}}' for n in range(alerts)) + "]}"
        ).encode()
        receipt = accept(world, now, source="prometheus", body=body)
        process_lane.run(world.service.id)
        found = alert_trace.find_receipt(receipt.trace_id)
        with statements() as seen:
            alert_trace.build_trace(found)
        return len(seen)

    assert count(1, 1) == count(50, 2)


@pytest.fixture
def large(world, now):
    """A receipt of 250 alerts with large payloads and body, and an incident with 1,500 log entries."""
    accept(world, now, message="Disk full", alert_type="critical", entity_id="db1")
    process_lane.run(world.service.id)
    incident, receipt = Incident.get(), Receipt.get()
    payload = {"payload": {"text": "x" * 40_000}}
    Receipt.update(body=b"x" * 4_000_000).execute()
    Event.insert_many(
        {
            "unique_id": make_short_id(),
            "receipt": receipt,
            "position": position,
            "integration": world.integration,
            "service": world.service,
            "incident": incident,
            "message": f"Alert {position}",
            "alert_type": 0,
            "entity_id": f"e{position}",
            "alert": payload,
            "creation_date": now,
        }
        for position in range(1, 250)
    ).execute()
    why = make_reason("is_resolved")
    IncidentLog.insert_many(
        {"incident": incident, "at": now, "what": "noted", "reason": why, "author_kind": "user"}
        for _ in range(1_500)
    ).execute()
    return receipt.trace_id


def test_a_trace_has_pages_and_the_status_of_all_alerts(large):
    Event.update(state=WorkState.DEAD_LETTER, error=make_reason("is_resolved")).where(
        Event.position == 249
    ).execute()
    receipt = alert_trace.find_receipt(large)
    first, last = (alert_trace.build_trace(receipt, start=start) for start in (0, 200))

    assert (first["status"], first["count"], len(first["alerts"]), len(last["alerts"])) == (
        "failed", 250, 100, 50,
    )  # fmt: skip
    assert [alert["message"] for alert in last["alerts"]][-1] == "Alert 249"
    assert last["incidents"][0]["incident_number"] == 1


def test_a_trace_loads_only_what_it_shows(large, statements):
    """All payloads of this receipt have 10 MB, its body 4 MB."""
    with statements() as seen:
        alert_trace.build_trace(alert_trace.find_receipt(large))
    assert len(seen) <= 12

    tracemalloc.start()
    try:
        trace = alert_trace.build_trace(alert_trace.find_receipt(large))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 6_000_000
    assert len(json.dumps(trace, default=str)) < 300_000


def test_a_trace_says_that_an_incident_has_more_entries(large):
    (incident,) = alert_trace.build_trace(alert_trace.find_receipt(large))["incidents"]

    assert (len(incident["log"]), incident["is_truncated"]) == (alert_trace.MAX_ENTRIES, True)
    assert [entry["what"] for entry in incident["log"][:2]] == ["opened", "escalated"]
    IncidentLog.delete().where(IncidentLog.what == "noted").execute()
    (incident,) = alert_trace.build_trace(alert_trace.find_receipt(large))["incidents"]
    assert (len(incident["log"]), incident["is_truncated"]) == (2, False)


def test_a_trace_has_the_latest_attempts(large, now):
    message = Message.get()
    Attempt.insert_many(
        {
            "message": message,
            "at": now,
            "outcome": "retry",
            "detail": make_reason("is_resolved"),
            "milliseconds": n,
        }
        for n in range(120)
    ).execute()
    Message.update(attempts=120).execute()

    (incident,) = alert_trace.build_trace(alert_trace.find_receipt(large))["incidents"]

    (delivery,) = incident["deliveries"]
    assert delivery["attempt_count"] == 120
    assert [attempt["milliseconds"] for attempt in delivery["attempts"]] == list(range(70, 120))
