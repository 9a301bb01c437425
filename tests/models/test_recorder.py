"""From a trace_id alone one can tell why someone was, or was not, told (law 5)."""

from models import recorder
from tests.alerts import accept
from workers import road


def story(world, trace_id):
    road.run(world.service.id)
    return recorder.story(recorder.receipt_of(trace_id))


def test_it_tells_the_road_the_incident_and_who_is_owed_word(world, now):
    receipt = accept(world, now, message="Disk full", alert_type="critical", entity_id="db1")
    told = story(world, receipt.trace_id)

    assert told["status"] == "completed"
    assert [step["stage"] for step in told["alerts"][0]["road"]] == [
        "normalize", "route", "rules", "dedupe", "incident", "notify",
    ]  # fmt: skip
    (incident,) = told["incidents"]
    assert [entry["what"] for entry in incident["log"]] == ["opened", "escalated"]
    assert incident["deliveries"][0]["person"] == "Alice"
    assert incident["deliveries"][0]["contact"] == "Primary Email"


def test_it_says_why_nobody_was_told(world, now):
    receipt = accept(world, now, message="Disk nearly full", alert_type="warning")
    told = story(world, receipt.trace_id)

    assert told["incidents"] == []
    assert told["alerts"][0]["road"][-1]["reason"].startswith("warning opens no incident here")


def test_an_alert_that_waits_is_queued(world, now):
    receipt = accept(world, now, message="Disk full", alert_type="critical")

    assert recorder.story(recorder.receipt_of(receipt.trace_id))["status"] == "queued"


def test_the_number_of_statements_does_not_grow_with_the_receipt(world, now, statements):
    def count(alerts, number):
        body = (
            '{"alerts":[' + ",".join(f'{{"fingerprint":"{number}-{n}"}}' for n in range(alerts)) + "]}"
        ).encode()
        receipt = accept(world, now, source="prometheus", body=body)
        road.run(world.service.id)
        found = recorder.receipt_of(receipt.trace_id)
        with statements() as seen:
            recorder.story(found)
        return len(seen)

    assert count(1, 1) == count(50, 2)
