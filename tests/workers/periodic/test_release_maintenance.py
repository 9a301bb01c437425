"""Deferred alerts are released once, by one of several workers, and only after the maintenance."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from models.domain.applications import GENERIC
from models.domain.enums import ServiceStatus, WorkState
from models.people import provisioning
from models.store.ids import make_uuid
from models.store.store import connection
from models.tables.accounts import bump_version
from models.tables.events import Entity, Event, list_reasons
from models.tables.incidents import Incident
from models.tables.notifications import Message
from models.tables.services import Maintenance, MaintenanceService, Service
from tests.support.alerts import accept, list_rows
from workers.alerts import lane_actors, process_lane
from workers.alerts.batches import BatchSize
from workers.periodic import release_maintenance

HOUR = timedelta(hours=1)
STEPS = [
    ("critical", "a"), ("critical", "b"), ("resolved", "a"), ("critical", "a"), ("info", "c"),
    ("error", "d"), ("critical", "c"), ("acknowledged", "b"), ("critical", "b"), ("resolved", "c"),
    ("critical", "e"), ("critical", "c"), ("resolved", "c"), ("warning", "e"), ("critical", "f"),
]  # fmt: skip


@pytest.fixture
def window(world, now):
    row = Maintenance.create(
        unique_id=f"00000000-0000-4000-8000-{1:012d}", team=world.team, name="Deploy", creation_date=now,
        start_time=now - HOUR, end_time=now + HOUR,
    )  # fmt: skip
    MaintenanceService.create(unique_id=make_uuid(), maintenance=row, service=world.service)
    bump_version(world.account.id)
    return row


@pytest.fixture
def deferred_alerts(world, now, window):
    """Ten alerts that maintenance defers."""
    for number in range(10):
        accept(world, now, message="m", alert_type="critical", entity_id=f"db{number}")
    process_lane.run(world.service.id, now=now)
    assert Entity.select().where(Entity.deferred_alert.is_null(False)).count() == 10


def count_deferred():
    return Entity.select().where(Entity.deferred_alert.is_null(False)).count()


WINDOW_LENGTH = {
    "the window": {},
    "the flag": {"under_maintenance": True},
    "the service is disabled": {"status": ServiceStatus.DISABLED},
}


@pytest.mark.parametrize("by", WINDOW_LENGTH)
def test_the_clock_enqueues_only_after_maintenance_ended(world, now, window, deferred_alerts, enqueued, by):
    enqueued.clear()
    Maintenance.update(end_time=now - HOUR if WINDOW_LENGTH[by] else now + HOUR * 10**5).execute()
    Service.update(WINDOW_LENGTH[by] or {"name": "x"}).execute()
    release_maintenance.enqueue_ended()
    assert enqueued == []

    Maintenance.update(end_time=now - HOUR / 2).execute()
    Service.update(under_maintenance=False, status=ServiceStatus.ACTIVE).execute()
    release_maintenance.enqueue_ended()
    assert enqueued == [("maintenance",)]

    release_maintenance.release_deferred()
    release_maintenance.enqueue_ended()
    assert enqueued.count(("maintenance",)) == 1


@pytest.mark.parametrize("by", WINDOW_LENGTH)
def test_a_change_before_the_lock_is_respected(world, now, window, deferred_alerts, by):
    at = now + 2 * HOUR if WINDOW_LENGTH[by] else now
    Service.update(WINDOW_LENGTH[by] or {"name": "x"}).execute()

    assert release_maintenance._release_service(world.service.id, at) == 0
    assert count_deferred() == 10


def test_a_deleted_service_releases_nothing(world, now, window, deferred_alerts):
    Service.delete().where(Service.id == world.service.id).execute()

    assert release_maintenance._release_service(world.service.id, now + 2 * HOUR) == 0


def test_concurrent_workers_release_each_alert_once(world, now, window, deferred_alerts, monkeypatch):
    monkeypatch.setattr(release_maintenance, "BATCH_SIZE", 2)

    def release_once(_):
        with connection():
            return release_maintenance.release_deferred(now + HOUR)

    with ThreadPoolExecutor(4) as pool:
        total = sum(pool.map(release_once, range(8)))
    while more := release_maintenance.release_deferred(now + HOUR):
        total += more
        process_lane.run(world.service.id, now=now + HOUR)
    process_lane.run(world.service.id, now=now + HOUR)
    # A worker skips a service while released alerts are still pending; the next run releases the others.
    total += release_maintenance.release_deferred(now + HOUR)
    process_lane.run(world.service.id, now=now + HOUR)

    assert (total, count_deferred()) == (10, 0)
    assert Incident.select().count() == 10
    assert all(list_reasons(event)[-1][1].code == "notifies" for event in Event.select())


@pytest.mark.parametrize(("limit", "most", "pages"), [(2, 100, 1), (1, 100, 2), (2, 5, 2)])
def test_the_end_of_a_window_leads_to_few_messages(
    world, now, window, deferred_alerts, monkeypatch, limit, most, pages
):
    monkeypatch.setattr(process_lane, "MAX_RELEASED", most)
    monkeypatch.setattr(release_maintenance, "BATCH_SIZE", 4)
    monkeypatch.setattr(process_lane, "_batch_size", BatchSize(target_s=1e9, limit=limit))
    monkeypatch.setattr(BatchSize, "adjust", lambda *_: None)
    # An idle worker processes the wake-up at once.
    monkeypatch.setattr(lane_actors, "send", lambda row, *stage: process_lane.run(row, now=now + HOUR))

    assert release_maintenance.release_deferred(now + HOUR) == 10
    assert Incident.select().count() == 10
    assert Message.select().count() == pages


def test_alerts_after_the_end_are_processed_in_normal_batches(
    world, now, window, deferred_alerts, monkeypatch
):
    """A batch of alerts that were not deferred has the usual size after a large batch of released ones."""
    release_maintenance.release_deferred(now + HOUR)
    for number in range(10):
        accept(world, now + HOUR, message="m", alert_type="critical", entity_id=f"web{number}")
    taken = []
    monkeypatch.setattr(process_lane, "_batch_size", BatchSize(target_s=1e9, limit=5))
    monkeypatch.setattr(BatchSize, "adjust", lambda batch_size, count, seconds: taken.append(count))
    process_lane.run(world.service.id, now=now + HOUR)

    assert taken == [10, 5, 5]


def test_a_service_that_fails_does_not_stop_others(world, now, window, deferred_alerts, monkeypatch):
    monkeypatch.setattr(release_maintenance, "_list_ended_services", lambda at: [-1, world.service.id])
    real = release_maintenance._release_batch

    def fail(service_row, at):
        return 1 // 0 if service_row == -1 else real(service_row, at)

    monkeypatch.setattr(release_maintenance, "_release_batch", fail)

    assert release_maintenance.release_deferred(now + HOUR) == 10


def test_a_service_whose_windows_fail_does_not_stop_others(
    world, now, window, deferred_alerts, enqueued, monkeypatch
):
    other = provisioning.create_service(world.team, "Search", world.policy, world.alice, now)
    other_integration = provisioning.create_integration(other, "Webhook", GENERIC, world.alice, now)
    Entity.create(integration=other_integration, entity_id="db1", deferred_alert="alert")
    Maintenance.update(end_time=now + HOUR * 10**5).execute()

    def fail(windows, at):
        return 1 // 0 if windows else None

    monkeypatch.setattr(release_maintenance, "find_in_force", fail)
    enqueued.clear()
    release_maintenance.enqueue_ended()

    assert enqueued == [("maintenance",)]
    assert release_maintenance.release_deferred(now) == 1
    assert count_deferred() == 10


def test_an_entity_whose_deferred_alert_was_deleted_is_cleared(world, now, window, deferred_alerts):
    Event.delete().execute()

    assert release_maintenance.release_deferred(now + HOUR) == 10
    assert count_deferred() == 0


def test_statements_do_not_grow_with_the_released_alerts(world, now, window, deferred_alerts, statements):
    def count():
        with statements() as seen:
            release_maintenance.release_deferred(now + HOUR)
        return len(seen)

    statements_for_many = count()
    Event.delete().where(Event.state == WorkState.PENDING, Event.entity_id != "db0").execute()
    process_lane.run(world.service.id, now=now + HOUR)
    Maintenance.update(end_time=now + 3 * HOUR).execute()
    bump_version(world.account.id)
    accept(world, now + 2 * HOUR, message="m", alert_type="critical", entity_id="db5", exactly=True)
    process_lane.run(world.service.id, now=now + 2 * HOUR)
    Maintenance.update(end_time=now).execute()

    assert count_deferred() == 1
    assert count() == statements_for_many


@pytest.fixture(scope="module")
def outcomes() -> dict[str, object]:
    return {}


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_batches_of_any_size_defer_and_release_the_same_alerts(
    world, now, window, monkeypatch, outcomes, size
):
    monkeypatch.setattr(process_lane, "_batch_size", BatchSize(target_s=1e9, limit=size))
    for level, entity in STEPS:
        accept(world, now, message=entity, alert_type=level, entity_id=entity)
    process_lane.run(world.service.id, now=now + timedelta(seconds=1))
    within = list_rows(Event, Entity, Incident)
    release_maintenance.release_deferred(now + HOUR)
    process_lane.run(world.service.id, now=now + HOUR)
    after = list_rows(Event, Entity, Incident)

    assert (within, after) == outcomes.setdefault("rows", (within, after))
    assert sorted(incident.title for incident in Incident.select()) == ["a", "b", "e", "f"]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_batches_of_any_size_agree_if_an_incident_ends_in_maintenance(
    world, now, window, monkeypatch, outcomes, size
):
    """The incident is older than the window, in which one entity fires again and the others recover."""
    Service.update(collation=1, collation_time=10).execute()
    Maintenance.update(start_time=now).execute()
    bump_version(world.account.id)
    monkeypatch.setattr(process_lane, "_batch_size", BatchSize(target_s=1e9, limit=size))
    early = now - timedelta(seconds=5)
    for at, level, entity in (
        (early, "critical", "a"), (early, "critical", "b"), (early, "critical", "c"), (now, "resolved", "b"),
        (now, "critical", "b"), (now, "critical", "c"), (now, "resolved", "c"), (now, "resolved", "a"),
        (now, "critical", "d"),
    ):  # fmt: skip
        accept(world, at, message=entity, alert_type=level, entity_id=entity)
    process_lane.run(world.service.id, now=now + timedelta(seconds=1))
    release_maintenance.release_deferred(now + HOUR)
    process_lane.run(world.service.id, now=now + HOUR)
    found = list_rows(Event, Entity, Incident)

    assert found == outcomes.setdefault("ends within", found)
    assert sorted(incident.title for incident in Incident.select()) == ["a", "b"]
