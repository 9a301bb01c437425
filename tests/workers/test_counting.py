"""What workers do is counted once it is committed, by whole batches."""

from datetime import UTC, datetime, timedelta

import pytest

from models.enums import ContactType
from models.incidents import Incident
from models.metrics import totals
from models.notices import Message
from pipeline.stages import dedupe
from pipeline.topology import segments
from tests.alerts import accept
from tests.relays import relay
from tests.workers.test_deliver import alert, posted
from tests.workers.test_road import road_with
from tests.workers.test_timers import MINUTE, open_one, set_policy
from tocsin import metrics
from tocsin.metrics import Counts
from workers import deliver, road, timers

__all__ = ["posted"]

MAIL = ContactType.EMAIL


@pytest.fixture
def counted(monkeypatch):
    """counted(name, labels): what was counted in this test."""
    counts = Counts()
    monkeypatch.setattr(metrics, "counts", counts)

    def counted(name: str, labels: str = "{}") -> float:
        counts.flush()
        return totals().get((name, labels), 0.0)

    return counted


def outcome(word):
    return f'{{"channel": "email", "outcome": "{word}"}}'


def test_a_timer_is_counted_with_its_lateness(world, now, counted):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_one(world, now)
    timers.run_due(now + 5 * MINUTE + timedelta(seconds=1.5))

    assert counted("tocsin_timer_lateness_seconds_count", '{"kind": "escalate"}') == 1
    assert counted("tocsin_timer_lateness_seconds_sum", '{"kind": "escalate"}') == 1.5


def test_a_message_that_is_sent_is_an_attempt_and_its_notices(world, now, posted, counted):
    alert(world, now, "db1")
    alert(world, now, "db2")
    with relay() as box:
        posted(box.port)
        deliver.drain(MAIL, now + timedelta(seconds=1))

    assert counted("tocsin_delivery_attempts_total", outcome("sent")) == Message.select().count() == 2
    assert counted("tocsin_notices_total", outcome("sent")) == 2


@pytest.mark.parametrize(
    ("answer", "attempt", "failed"),
    [
        pytest.param("550 unknown", "refused", 1, id="for good"),
        pytest.param("450 later", "retry", 0, id="for now"),
    ],
)
def test_a_refusal_is_an_attempt(world, now, posted, counted, answer, attempt, failed):
    alert(world, now)
    with relay({"RCPT": answer}) as box:
        posted(box.port)
        deliver.drain(MAIL, now)

    assert counted("tocsin_delivery_attempts_total", outcome(attempt)) == 1
    assert counted("tocsin_notices_total", outcome("failed")) == failed


def test_what_is_over_is_no_attempt(world, now, posted, counted):
    alert(world, now)
    Incident.update(status=3).execute()
    with relay() as box:
        posted(box.port)
        deliver.drain(MAIL, now)

    assert counted("tocsin_notices_total", outcome("void")) == 1
    assert counted("tocsin_delivery_attempts_total", outcome("sent")) == 0


def test_what_was_rolled_back_is_not_counted(world, now, counted, monkeypatch):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_one(world, now)
    real = timers._finish

    def fails_afterwards(*what):
        real(*what)
        raise ZeroDivisionError

    monkeypatch.setattr(timers, "_finish", fails_afterwards)
    timers.run_due(now + 5 * MINUTE)

    assert counted("tocsin_timer_lateness_seconds_count", '{"kind": "escalate"}') == 0


def stage(name, outcome):
    return f'{{"outcome": "{outcome}", "stage": "{name}"}}'


@pytest.mark.parametrize("cuts", [(), ("normalize",), ("normalize", "rules")], ids=str)
def test_each_stage_counts_whose_road_ended_there_and_who_went_on(world, now, counted, cuts, monkeypatch):
    monkeypatch.setattr(road, "_road", segments(cuts))
    for kind, entity in (("critical", "a"), ("critical", "a"), ("info", "b"), ("critical", "c")):
        accept(world, now, message="m", alert_type=kind, entity_id=entity)
    while road.sweep():
        pass
    found = {
        (name, outcome): counted("tocsin_alerts_processed_total", stage(name, outcome))
        for name in ("normalize", "rules", "dedupe", "incident", "notify")
        for outcome in ("went on", "ended")
    }

    assert found == {
        ("normalize", "went on"): 4, ("normalize", "ended"): 0,
        ("rules", "went on"): 4, ("rules", "ended"): 0,
        ("dedupe", "went on"): 3, ("dedupe", "ended"): 1,
        ("incident", "went on"): 2, ("incident", "ended"): 1,
        ("notify", "went on"): 0, ("notify", "ended"): 2,
    }  # fmt: skip
    assert counted("tocsin_incidents_opened_total") == 2
    assert counted("tocsin_batch_alerts_sum") == 4 * (len(cuts) + 1)
    assert counted("tocsin_accept_to_done_seconds_count") == 1


def test_what_is_set_aside_is_counted_and_not_as_processed(world, now, counted, monkeypatch):
    def fails_on_poison(alert, state, at):
        if alert.message == "poison":
            raise ZeroDivisionError
        return dedupe_decide(alert, state, at)

    dedupe_decide = dedupe.decide
    monkeypatch.setattr(road, "_road", road_with(fails_on_poison))
    for message in ("first", "poison", "last"):
        accept(world, now, message=message, alert_type="critical", entity_id=message)
    road.run(world.service.id)

    assert counted("tocsin_alerts_processed_total", stage("normalize", "set aside")) == 1
    assert counted("tocsin_alerts_processed_total", stage("notify", "ended")) == 2


def test_time_on_the_road_is_told_by_the_stores_clock(world, now, counted, monkeypatch):
    monkeypatch.setattr(metrics.clock, "ahead", now + timedelta(seconds=7) - datetime.now(UTC))
    accept(world, now, message="m", alert_type="critical", exactly=True)
    road.run(world.service.id)

    assert 7 <= counted("tocsin_accept_to_done_seconds_sum") < 17
