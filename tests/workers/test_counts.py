"""Workers count their work after the commit, batch by batch."""

from datetime import UTC, datetime, timedelta

import pytest

from models.domain.enums import ContactType
from models.tables.incidents import Incident
from models.tables.notifications import Message
from pipeline.stages import dedupe
from pipeline.topology import build_segments
from runtime import metrics
from runtime.metrics import Counters
from tests.support.alerts import accept
from tests.support.relays import relay
from tests.support.scenarios.delivery import alert, deliver_to
from tests.support.scenarios.segments import build_segments_with
from tests.support.scenarios.timers import MINUTE, open_incident, set_policy
from workers.alerts import process_lane
from workers.delivery import deliver
from workers.timers import fire

__all__ = ["deliver_to"]

MAIL = ContactType.EMAIL


@pytest.fixture
def get_count(monkeypatch):
    """get_count(name, **labels): the value of a counter in this test."""
    counters = Counters()
    monkeypatch.setattr(metrics, "counters", counters)

    def get_count(name: str, **labels: str) -> float:
        return counters.registry.get_sample_value(name, labels) or 0.0

    return get_count


def test_a_timer_is_counted_with_its_lateness(world, now, get_count):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incident(world, now)
    fire.fire_due(now + 5 * MINUTE + timedelta(seconds=1.5))

    assert get_count("tocsin_timer_lateness_seconds_count", kind="escalate") == 1
    assert get_count("tocsin_timer_lateness_seconds_sum", kind="escalate") == 1.5


def test_a_sent_message_is_counted_with_its_notifications(world, now, deliver_to, get_count):
    alert(world, now, "db1")
    alert(world, now, "db2")
    with relay() as box:
        deliver_to(box.port)
        deliver.send_due(MAIL, now + timedelta(seconds=1))

    assert (
        get_count("tocsin_delivery_attempts_total", channel="email", outcome="sent")
        == Message.select().count()
        == 2
    )
    assert get_count("tocsin_notifications_total", channel="email", outcome="sent") == 2


@pytest.mark.parametrize(
    ("answer", "attempt"),
    [
        pytest.param("550 unknown", "refused", id="refused"),
        pytest.param("450 later", "retry", id="temporary"),
    ],
)
def test_a_refusal_is_counted_as_an_attempt(world, now, deliver_to, get_count, answer, attempt):
    alert(world, now)
    with relay({"RCPT": answer}) as box:
        deliver_to(box.port)
        deliver.send_due(MAIL, now)

    assert get_count("tocsin_delivery_attempts_total", channel="email", outcome=attempt) == 1
    assert get_count("tocsin_notifications_total", channel="email", outcome="failed") == 0


def test_a_cancelled_notification_is_not_counted_as_an_attempt(world, now, deliver_to, get_count):
    alert(world, now)
    Incident.update(status=3).execute()
    with relay() as box:
        deliver_to(box.port)
        deliver.send_due(MAIL, now)

    assert get_count("tocsin_notifications_total", channel="email", outcome="cancelled") == 1
    assert get_count("tocsin_delivery_attempts_total", channel="email", outcome="sent") == 0


def test_a_timer_is_not_counted_after_a_rollback(world, now, get_count, monkeypatch):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incident(world, now)
    real = fire._mark_done

    def fail_afterwards(*arguments):
        real(*arguments)
        raise ZeroDivisionError

    monkeypatch.setattr(fire, "_mark_done", fail_afterwards)
    fire.fire_due(now + 5 * MINUTE)

    assert get_count("tocsin_timer_lateness_seconds_count", kind="escalate") == 0


@pytest.mark.parametrize("queue_splits", [(), ("normalize",), ("normalize", "rules")], ids=str)
def test_each_stage_counts_ended_and_continued_alerts(world, now, get_count, queue_splits, monkeypatch):
    monkeypatch.setattr(process_lane, "_segments", build_segments(queue_splits))
    for kind, entity in (("critical", "a"), ("critical", "a"), ("info", "b"), ("critical", "c")):
        accept(world, now, message="m", alert_type=kind, entity_id=entity)
    while process_lane.process_pending_lanes():
        pass
    found = {
        (name, outcome): get_count("tocsin_alerts_processed_total", stage=name, outcome=outcome)
        for name in ("normalize", "rules", "dedupe", "incident", "notify")
        for outcome in ("continued", "ended")
    }

    assert found == {
        ("normalize", "continued"): 4, ("normalize", "ended"): 0,
        ("rules", "continued"): 4, ("rules", "ended"): 0,
        ("dedupe", "continued"): 3, ("dedupe", "ended"): 1,
        ("incident", "continued"): 2, ("incident", "ended"): 1,
        ("notify", "continued"): 0, ("notify", "ended"): 2,
    }  # fmt: skip
    assert get_count("tocsin_incidents_opened_total") == 2
    assert get_count("tocsin_batch_alerts_sum") == 4 * (len(queue_splits) + 1)
    assert get_count("tocsin_accept_to_done_seconds_count") == 1


def test_a_dead_letter_is_not_counted_as_processed(world, now, get_count, monkeypatch):
    def fail_on_poison(alert, state, at):
        if alert.message == "poison":
            raise ZeroDivisionError
        return dedupe_decide(alert, state, at)

    dedupe_decide = dedupe.decide
    monkeypatch.setattr(process_lane, "_segments", build_segments_with(fail_on_poison))
    for message in ("first", "poison", "last"):
        accept(world, now, message=message, alert_type="critical", entity_id=message)
    process_lane.run(world.service.id)

    assert get_count("tocsin_alerts_processed_total", stage="normalize", outcome="dead letter") == 1
    assert get_count("tocsin_alerts_processed_total", stage="notify", outcome="ended") == 2


def test_the_processing_time_is_measured_by_the_database_clock(world, now, get_count, monkeypatch):
    monkeypatch.setattr(metrics.store_clock, "offset", now + timedelta(seconds=7) - datetime.now(UTC))
    accept(world, now, message="m", alert_type="critical", exactly=True)
    process_lane.run(world.service.id)

    assert 7 <= get_count("tocsin_accept_to_done_seconds_sum") < 17
