"""Workers fire due timers, with a real database."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from models.domain.enums import WorkState
from models.domain.reasons import make_reason
from models.load.lane import lock_services
from models.store.store import store
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import Notification
from models.tables.services import Service
from models.tables.timers import Timer
from tests.support import stores
from tests.support.alerts import accept
from tests.support.polling import PATIENCE_S, wait_until
from tests.support.scenarios.timers import (
    MINUTE,
    failing_for,
    list_notified,
    open_incident,
    open_incidents,
    other_service,
    set_policy,
)
from workers.alerts import process_lane
from workers.alerts.batches import BatchSize
from workers.periodic import retention
from workers.timers import due, fire

__all__ = ["other_service"]


def test_the_next_step_runs_when_it_is_due(world, now):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incident(world, now)
    fire.fire_due(now + 4 * MINUTE)
    assert [name for name, _ in list_notified()] == ["Alice"]

    fire.fire_due(now + 5 * MINUTE)

    assert list_notified() == [("Alice", now), ("Bob", now + 5 * MINUTE)]


def test_an_acknowledgement_stops_the_escalation_run(world, now):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incident(world, now)
    accept(world, now, message="on it", alert_type="acknowledged", entity_id="db1")
    process_lane.run(world.service.id)
    fire.fire_due(now + 60 * MINUTE)

    assert [name for name, _ in list_notified()] == ["Alice"]
    assert Timer.get().outcome == make_reason("acknowledged", by="an alert (acknowledged)")


def test_overdue_steps_run_in_order_with_one_notification_each(world, now):
    set_policy(world, (0, world.alice), (5, world.bob), (10, world.bob, world.charlie), repeat_policy=1)
    open_incident(world, now)
    fire.fire_due(now + 24 * 60 * MINUTE)

    names = [name for name, _ in list_notified()]
    assert names == ["Alice", "Bob", "Charlie", "Alice"]
    assert not Timer.select().where(Timer.done_at.is_null()).exists()


def test_the_escalation_run_repeats_as_often_as_the_policy_says(world, now):
    set_policy(world, (0, world.alice), (5, world.bob), repeat_policy=1)
    open_incident(world, now)
    for minute in range(1, 60):
        fire.fire_due(now + minute * MINUTE)

    assert [(name, at - now) for name, at in list_notified()] == [
        ("Alice", 0 * MINUTE), ("Bob", 5 * MINUTE), ("Alice", 10 * MINUTE), ("Bob", 15 * MINUTE),
    ]  # fmt: skip


def test_an_empty_step_is_skipped_if_the_policy_says_so(world, now):
    set_policy(world, (0,), (30, world.bob), move_to_next=True)
    open_incident(world, now)

    assert list_notified() == [("Bob", now)]


def test_an_empty_step_takes_its_time_if_the_policy_says_so(world, now):
    set_policy(world, (0,), (30, world.bob), move_to_next=False)
    open_incident(world, now)
    assert list_notified() == []

    fire.fire_due(now + 30 * MINUTE)

    assert list_notified() == [("Bob", now + 30 * MINUTE)]


def test_an_escalation_run_that_pages_nobody_notifies_the_managers(world, now):
    set_policy(world, (0,), (5,))
    open_incident(world, now)

    assert Notification.get().user == world.alice
    nobody = make_reason("policy_reaches_nobody", policy=world.policy.name)
    assert Notification.get().reason == nobody.add(make_reason("managers_notified"))


@pytest.mark.parametrize(("enabled", "status"), [(True, 1), (False, 2)])
def test_an_acknowledgement_expires_if_the_service_says_so(world, now, enabled, status):
    Service.update(acknowledgement_timeout_enabled=enabled, acknowledgement_timeout=900).execute()
    open_incident(world, now)
    accept(world, now, message="on it", alert_type="acknowledged", entity_id="db1", trace=1)
    process_lane.run(world.service.id)
    fire.fire_due(now + 14 * MINUTE)
    assert Incident.get().status == 2

    fire.fire_due(now + 16 * MINUTE)

    assert Incident.get().status == status
    assert Notification.select().count() == (2 if enabled else 1)


def test_an_old_incident_is_resolved_if_the_service_says_so(world, now):
    Service.update(auto_resolve_timeout=600).execute()
    open_incident(world, now)
    fire.fire_due(now + 11 * MINUTE)

    assert Incident.get().status == 3
    last = IncidentLog.select().order_by(IncidentLog.id.desc()).get()
    assert last.reason == make_reason("open_too_long", within=600)


def test_firing_twice_notifies_once(world, now):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incident(world, now)
    for _ in range(3):
        fire.fire_due(now + 6 * MINUTE)

    assert len(list_notified()) == 2


def test_a_timer_whose_decision_fails_does_not_stop_others(world, now, monkeypatch):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incident(world, now)
    accept(world, now, message="other", alert_type="critical", entity_id="db2")
    process_lane.run(world.service.id)
    first = Incident.select().order_by(Incident.id).get()
    monkeypatch.setattr(fire, "decide_timer", failing_for(first.id))
    fire.fire_due(now + 6 * MINUTE)

    assert [name for name, _ in list_notified()] == ["Alice", "Alice", "Bob"]


def outcomes():
    return [row.outcome for row in Timer.select().where(Timer.done_at.is_null(False)).order_by(Timer.id)]


def test_statements_do_not_grow_with_the_batch(world, now, statements, monkeypatch):
    monkeypatch.setattr(fire, "_batch_size", BatchSize(target_s=1e9, limit=1000))
    set_policy(world, (0, world.alice), (5, world.bob), (10, world.bob))

    def count(incidents):
        at = now + incidents * 60 * MINUTE
        open_incidents(world, at, *(f"{incidents}-{number}" for number in range(incidents)))
        Incident.update(run_started_at=at).where(Incident.next_step == 1).execute()
        Timer.update(due_at=at + 5 * MINUTE).where(Timer.done_at.is_null()).execute()
        with statements() as seen:
            assert fire.fire_due(at + 5 * MINUTE) == incidents
        Incident.update(status=3).execute()
        Timer.update(done_at=at).execute()
        return len(seen)

    first = count(2)
    assert count(300) == count(1) < first, "the first batch reads the configuration"


def test_due_timers_of_one_service_share_one_message(world, now):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incidents(world, now, "db1", "db2", "db3")
    fire.fire_due(now + 5 * MINUTE)

    bob_notified = Notification.select(Notification.message).where(Notification.user == world.bob)
    assert [bob_notified.count(), bob_notified.distinct().count()] == [3, 1]


def test_a_timer_sees_the_effects_of_an_earlier_timer(world, now):
    Service.update(auto_resolve_timeout=240).execute()
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incident(world, now)
    fire.fire_due(now + 6 * MINUTE)

    assert sorted(outcomes(), key=lambda outcome: outcome.code) == [
        make_reason("auto_resolved").add(make_reason("late", ms=120_000)),
        make_reason("is_resolved").add(make_reason("late", ms=60_000)),
    ]
    assert [name for name, _ in list_notified()] == ["Alice"]


def test_timers_of_a_deleted_service_fire(world, now):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incidents(world, now, "db1", "db2")
    Incident.update(service=None).execute()
    fire.fire_due(now + 5 * MINUTE)

    assert [name for name, _ in list_notified()] == ["Alice", "Alice", "Bob", "Bob"]


@pytest.mark.parametrize("scan_limit", [1, 2, 100])
def test_more_due_timers_than_one_search_loads_all_fire(world, other_service, now, monkeypatch, scan_limit):
    monkeypatch.setattr(due, "MAX_TIMERS", 3)
    monkeypatch.setattr(fire, "_batch_size", BatchSize(target_s=1e9, limit=scan_limit))
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incidents(world, now, *"abcdefg")
    open_incidents(other_service, now, *"hijk")

    assert fire.fire_due(now + 5 * MINUTE) == 11
    assert [name for name, _ in list_notified()].count("Bob") == 11


def test_workers_that_fire_at_the_same_time_fire_each_timer_once(world, other_service, now, monkeypatch):
    monkeypatch.setattr(fire, "_batch_size", BatchSize(target_s=1e9, limit=3))
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incidents(world, now, *(f"a{number}" for number in range(20)))
    open_incidents(other_service, now, *(f"b{number}" for number in range(20)))
    counts = run_in_threads(*[lambda: fire.fire_due(now + 5 * MINUTE)] * 3)

    assert sum(counts) == 40
    assert IncidentLog.select().where(IncidentLog.what == "escalated").count() == 80
    assert [name for name, _ in list_notified()].count("Bob") == 40


def run_in_threads(*works):
    """Run each function in a thread of its own and return the results."""
    with ThreadPoolExecutor(len(works)) as pool:
        return [each.result() for each in [pool.submit(work) for work in works]]


@pytest.mark.skipif(not stores.SERVER, reason="SQLite has one lock for all")
def test_a_locked_lane_is_skipped_first_and_waited_for_later(world, other_service, now):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incidents(world, now, "db1")
    open_incidents(other_service, now + timedelta(seconds=1), "db2")
    with ThreadPoolExecutor(1) as pool:
        with store().write_transaction():
            lock_services([world.service.id])
            fired = pool.submit(fire.fire_due, now + 6 * MINUTE)
            wait_until(lambda: Timer.select().where(Timer.done_at.is_null(False)).count() == 1)
            assert not fired.done()
        assert fired.result(timeout=PATIENCE_S) == 2


def test_a_timer_that_cannot_be_decided_stays_due(world, now, monkeypatch):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incidents(world, now, "db1", "db2")
    first = Incident.select().order_by(Incident.id).get()
    with monkeypatch.context() as broken:
        broken.setattr(fire, "decide_timer", failing_for(first.id))
        assert fire.fire_due(now + 6 * MINUTE) == 1

    assert fire.fire_due(now + 7 * MINUTE) == 1
    assert [name for name, _ in list_notified()] == ["Alice", "Alice", "Bob", "Bob"]


def test_receipts_are_deleted_after_30_days_except_for_open_incidents(world, now):
    for kind in ("critical", "info", "critical", "resolved"):
        entity = "open" if kind == "critical" and not Receipt.select().exists() else "closed"
        accept(world, now, message="m", alert_type=kind, entity_id=entity)
    process_lane.run(world.service.id)
    accept(world, now + timedelta(days=20), message="young", alert_type="info")
    accept(world, now, message="waiting", alert_type="info")

    assert retention.clean_up(now + timedelta(days=29)) == 0
    assert retention.clean_up(now + timedelta(days=31)) == 3
    assert Event.get().incident.status == 1
    assert Receipt.select().count() == 3


def test_a_dead_letter_is_never_deleted(world, now):
    accept(world, now, message="m", alert_type="info")
    process_lane.run(world.service.id)
    Event.update(state=WorkState.DEAD_LETTER).execute()

    assert retention.clean_up(now + timedelta(days=31)) == 0
