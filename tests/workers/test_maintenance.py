"""What maintenance kept back is released once, by whoever looks first, and only when it is over."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from models import founding
from models.accounts import raise_version
from models.applications import GENERIC
from models.base import connection
from models.enums import ServiceStatus, WorkState
from models.events import Entity, Event
from models.ids import new_uuid
from models.incidents import Incident
from models.maintenance import Maintenance, MaintenanceService
from models.notices import Message
from models.services import Service
from tests.alerts import accept, rows
from workers import bell, maintenance, road
from workers.pace import Pace

HOUR = timedelta(hours=1)
HISTORY = [
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
    MaintenanceService.create(unique_id=new_uuid(), maintenance=row, service=world.service)
    raise_version(world.account.id)
    return row


@pytest.fixture
def kept(world, now, window):
    """Ten alerts that maintenance keeps back."""
    for number in range(10):
        accept(world, now, message="m", alert_type="critical", entity_id=f"db{number}")
    road.run(world.service.id, now=now)
    assert Entity.select().where(Entity.kept_back.is_null(False)).count() == 10


def still_kept():
    return Entity.select().where(Entity.kept_back.is_null(False)).count()


LASTING = {
    "the window": {},
    "the flag": {"under_maintenance": True},
    "the service is disabled": {"status": ServiceStatus.DISABLED},
}


@pytest.mark.parametrize("by", LASTING)
def test_the_clock_rings_only_when_it_is_over(world, now, window, kept, monkeypatch, by):
    rung = []
    monkeypatch.setattr(bell, "ring_maintenance", lambda: rung.append(1))
    Maintenance.update(end_time=now - HOUR if LASTING[by] else now + HOUR * 10**5).execute()
    Service.update(LASTING[by] or {"name": "x"}).execute()
    maintenance.ring_over()
    assert rung == []

    Maintenance.update(end_time=now - HOUR / 2).execute()
    Service.update(under_maintenance=False, status=ServiceStatus.ACTIVE).execute()
    maintenance.ring_over()
    assert rung == [1]

    maintenance.release()
    maintenance.ring_over()
    assert rung == [1]


@pytest.mark.parametrize("by", LASTING)
def test_what_changed_between_the_look_and_the_lock_counts(world, now, window, kept, by):
    at = now + 2 * HOUR if LASTING[by] else now
    Service.update(LASTING[by] or {"name": "x"}).execute()

    assert maintenance._release_of(world.service.id, at) == 0
    assert still_kept() == 10


def test_a_service_that_is_gone_by_then_releases_nothing(world, now, window, kept):
    Service.delete().where(Service.id == world.service.id).execute()

    assert maintenance._release_of(world.service.id, now + 2 * HOUR) == 0


def test_several_workers_release_it_once(world, now, window, kept, monkeypatch):
    monkeypatch.setattr(maintenance, "RELEASED_AT_ONCE", 2)

    def released(_):
        with connection():
            return maintenance.release(now + HOUR)

    with ThreadPoolExecutor(4) as pool:
        total = sum(pool.map(released, range(8)))
    while more := maintenance.release(now + HOUR):
        total += more
        road.run(world.service.id, now=now + HOUR)
    road.run(world.service.id, now=now + HOUR)
    # What one of them had released still waited when another one looked: it is left for the next look.
    total += maintenance.release(now + HOUR)
    road.run(world.service.id, now=now + HOUR)

    assert (total, still_kept()) == (10, 0)
    assert Incident.select().count() == 10
    assert all(event.reasons[-1][1].startswith("to be told now") for event in Event.select())


@pytest.mark.parametrize(("limit", "pages"), [(2, 1), (1, 2)])
def test_the_end_of_a_window_is_told_in_few_pages(world, now, window, kept, monkeypatch, limit, pages):
    monkeypatch.setattr(maintenance, "RELEASED_AT_ONCE", 4)
    monkeypatch.setattr(road, "_pace", Pace(target_s=1e9, limit=limit))
    monkeypatch.setattr(Pace, "took", lambda *_: None)
    # An idle worker hears the bell at once.
    monkeypatch.setattr(bell, "ring_road", lambda row, *stage: road.run(row, now=now + HOUR))

    assert maintenance.release(now + HOUR) == 10
    assert Incident.select().count() == 10
    assert Message.select().count() == pages


def test_what_comes_after_the_end_is_taken_by_itself(world, now, window, kept, monkeypatch):
    """No more of it than at any other time, however much was released before it."""
    maintenance.release(now + HOUR)
    for number in range(10):
        accept(world, now + HOUR, message="m", alert_type="critical", entity_id=f"web{number}")
    taken = []
    monkeypatch.setattr(road, "_pace", Pace(target_s=1e9, limit=5))
    monkeypatch.setattr(Pace, "took", lambda pace, count, seconds: taken.append(count))
    road.run(world.service.id, now=now + HOUR)

    assert taken == [10, 5, 5]


def test_a_service_that_fails_keeps_none_of_the_others_waiting(world, now, window, kept, monkeypatch):
    monkeypatch.setattr(maintenance, "_services_over", lambda at: [-1, world.service.id])
    real = maintenance._release_some

    def failing(service_row, at):
        return 1 // 0 if service_row == -1 else real(service_row, at)

    monkeypatch.setattr(maintenance, "_release_some", failing)

    assert maintenance.release(now + HOUR) == 10


def test_one_whose_windows_cannot_be_told_keeps_none_of_the_others_waiting(
    world, now, window, kept, monkeypatch
):
    other = founding.new_service(world.team, "Search", world.policy, world.alice, now)
    door = founding.new_integration(other, "Door", GENERIC, world.alice, now)
    Entity.create(integration=door, entity_id="db1", kept_back="alert")
    Maintenance.update(end_time=now + HOUR * 10**5).execute()
    rung = []

    def failing(windows, at):
        return 1 // 0 if windows else None

    monkeypatch.setattr(maintenance, "in_force", failing)
    monkeypatch.setattr(bell, "ring_maintenance", lambda: rung.append(1))
    maintenance.ring_over()

    assert rung == [1]
    assert maintenance.release(now) == 1
    assert still_kept() == 10


def test_what_lost_its_alert_is_forgotten(world, now, window, kept):
    Event.delete().execute()

    assert maintenance.release(now + HOUR) == 10
    assert still_kept() == 0


def test_releasing_takes_as_many_statements_however_much_it_is(world, now, window, kept, statements):
    def count():
        with statements() as seen:
            maintenance.release(now + HOUR)
        return len(seen)

    many = count()
    Event.delete().where(Event.state == WorkState.WAITING, Event.entity_id != "db0").execute()
    road.run(world.service.id, now=now + HOUR)
    Maintenance.update(end_time=now + 3 * HOUR).execute()
    raise_version(world.account.id)
    accept(world, now + 2 * HOUR, message="m", alert_type="critical", entity_id="db5", exactly=True)
    road.run(world.service.id, now=now + 2 * HOUR)
    Maintenance.update(end_time=now).execute()

    assert still_kept() == 1
    assert count() == many


@pytest.fixture(scope="module")
def outcomes() -> dict[str, object]:
    return {}


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_batches_of_any_size_keep_and_release_the_same(world, now, window, monkeypatch, outcomes, size):
    monkeypatch.setattr(road, "_pace", Pace(target_s=1e9, limit=size))
    for level, entity in HISTORY:
        accept(world, now, message=entity, alert_type=level, entity_id=entity)
    road.run(world.service.id, now=now + timedelta(seconds=1))
    within = rows(Event, Entity, Incident)
    maintenance.release(now + HOUR)
    road.run(world.service.id, now=now + HOUR)
    after = rows(Event, Entity, Incident)

    assert (within, after) == outcomes.setdefault("rows", (within, after))
    assert sorted(incident.title for incident in Incident.select()) == ["a", "b", "e", "f"]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_and_so_does_an_incident_that_ends_within(world, now, window, monkeypatch, outcomes, size):
    """It began before; an entity of it burns again, and another, the last that it had, recovers."""
    Service.update(collation=1, collation_time=10).execute()
    Maintenance.update(start_time=now).execute()
    raise_version(world.account.id)
    monkeypatch.setattr(road, "_pace", Pace(target_s=1e9, limit=size))
    early = now - timedelta(seconds=5)
    for at, level, entity in (
        (early, "critical", "a"), (early, "critical", "b"), (early, "critical", "c"), (now, "resolved", "b"),
        (now, "critical", "b"), (now, "critical", "c"), (now, "resolved", "c"), (now, "resolved", "a"),
        (now, "critical", "d"),
    ):  # fmt: skip
        accept(world, at, message=entity, alert_type=level, entity_id=entity)
    road.run(world.service.id, now=now + timedelta(seconds=1))
    maintenance.release(now + HOUR)
    road.run(world.service.id, now=now + HOUR)
    found = rows(Event, Entity, Incident)

    assert found == outcomes.setdefault("ends within", found)
    assert sorted(incident.title for incident in Incident.select()) == ["a", "b"]
