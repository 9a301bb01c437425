"""From a trace_id alone one can tell why someone was, or was not, told (law 5)."""

from models.reports import alert_trace, dead_letters
from tests.support.alerts import accept
from tests.support.dead_letters import add_dead_letter_alert, add_dead_letter_body
from workers.alerts import process_lane


def story(world, trace_id):
    process_lane.run(world.service.id)
    return alert_trace.build_trace(alert_trace.find_receipt(trace_id))


def test_it_tells_the_road_the_incident_and_who_is_owed_word(world, now):
    receipt = accept(world, now, message="Disk full", alert_type="critical", entity_id="db1")
    trace = story(world, receipt.trace_id)

    assert trace["status"] == "completed"
    assert [step["stage"] for step in trace["alerts"][0]["stages"]] == [
        "normalize", "route", "rules", "dedupe", "incident", "notify",
    ]  # fmt: skip
    (incident,) = trace["incidents"]
    assert [entry["what"] for entry in incident["log"]] == ["opened", "escalated"]
    assert incident["deliveries"][0]["person"] == "Alice"
    assert incident["deliveries"][0]["contact"] == "Primary Email"


def test_it_says_why_nobody_was_told(world, now):
    receipt = accept(world, now, message="Disk nearly full", alert_type="warning")
    trace = story(world, receipt.trace_id)

    assert trace["incidents"] == []
    assert trace["alerts"][0]["stages"][-1]["reason"].startswith("warning opens no incident here")


def test_an_alert_that_waits_is_queued(world, now):
    receipt = accept(world, now, message="Disk full", alert_type="critical")

    assert alert_trace.build_trace(alert_trace.find_receipt(receipt.trace_id))["status"] == "queued"


def build_notified(receipt):
    return alert_trace.build_trace(alert_trace.find_receipt(receipt.trace_id))


def test_what_was_set_aside_has_failed_until_it_is_taken_up_again(world, now):
    body, alert = add_dead_letter_body(world, now), add_dead_letter_alert(world, now)
    before = [build_notified(one) for one in (body, alert.receipt)]
    dead_letters.replay(dead_letters.list_keys(), "Bob")
    after = [build_notified(one) for one in (body, alert.receipt)]

    assert [trace["status"] for trace in (*before, *after)] == ["failed", "failed", "queued", "queued"]
    assert (before[0]["replayed_at"], before[1]["alerts"][0]["pending_stage"]) == (None, None)
    assert after[0]["replayed_at"] > body.received_at
    assert (after[1]["alerts"][0]["status"], after[1]["alerts"][0]["pending_stage"]) == (
        "queued",
        "normalize",
    )
    assert after[1]["alerts"][0]["stages"][-1]["stage"] == "replay"


def test_what_was_dropped_has_failed_and_says_who_dropped_it(world, now):
    body, alert = add_dead_letter_body(world, now), add_dead_letter_alert(world, now)
    dead_letters.drop(dead_letters.list_keys(), "Bob")
    trace, trace_alert = (build_notified(one) for one in (body, alert.receipt))

    assert (trace["status"], trace_alert["status"]) == ("failed", "failed")
    assert trace["error"] == "dropped: ZeroDivisionError at normalize, by Bob"
    assert trace_alert["alerts"][0]["stages"][-1]["reason"] == "dropped by Bob"


def test_the_number_of_statements_does_not_grow_with_the_receipt(world, now, statements):
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
