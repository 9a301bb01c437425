"""Alerts and timers of merged incidents, also of several services (contract 4.3)."""

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from models.domain.applications import GENERIC
from models.domain.effects import Author, ChangeSet
from models.domain.enums import AuthorKind, IncidentStatus
from models.domain.reasons import make_reason
from models.load.lane import lock_incident, lock_services, lock_with_children
from models.people import provisioning
from models.store.store import connection, store
from models.tables.events import Entity, Event, Receipt
from models.tables.incidents import Incident, IncidentLog, IncidentNote
from models.tables.notifications import Notification
from models.tables.services import Service
from models.tables.timers import Timer
from models.write.apply import apply
from pipeline import incidents
from tests.support import stores
from tests.support.alert_sequences import ProcessingMode, patch_processing
from tests.support.alerts import accept, list_rows
from tests.support.polling import PATIENCE_S, wait_until
from tests.support.scenarios.timers import MINUTE
from tests.support.stores import get_url
from tests.support.world import World
from workers.alerts import process_lane
from workers.timers import fire

ALICE = Author(AuthorKind.USER, "Alice")


@pytest.fixture
def second_service(world, now):
    """The world with another service, which was created later: its row comes after the row of Checkout."""
    service = provisioning.create_service(world.team, "Search", world.policy, world.alice, now)
    other_integration = provisioning.create_integration(service, "Webhook", GENERIC, world.alice, now)
    return _from(world, service, other_integration)


def _from(world, service, integration):
    values = {name: getattr(world, name) for name in World.__slots__}
    return World(**{**values, "service": service, "integration": integration})


def process_alert(place, at, entity, level="critical"):
    accept(place, at, message=f"{entity} {level}", alert_type=level, entity_id=entity, exactly=True)
    process_lane.run(place.service.id)
    return Event.select().order_by(Event.id.desc()).get()


def merge(parent, *children, at):
    with store().write_transaction():
        found = lock_with_children([parent, *children])
        states = [found.incidents[row] for row in (parent, *children)]
        assert incidents.check_merge(states[0], states[1:]) is None
        effects = incidents.merge(states[0], states[1:], [], ALICE, at)
        apply(ChangeSet(effects=list(effects)), {states[0].unique_id: parent})


def list_statuses():
    return [incident.status for incident in Incident.select().order_by(Incident.id)]


@pytest.fixture
def parent_with_children(world, second_service, now):
    """A parent with entity "p", a child of its service with "a" and "b", a child elsewhere with "c"."""
    Service.update(collation=0).execute()
    for place, entity in ((world, "p"), (world, "a"), (second_service, "c")):
        process_alert(place, now, entity)
    parent, near, beyond = Incident.select().order_by(Incident.id)
    merge(parent.id, near.id, beyond.id, at=now)
    return parent, near, beyond


def test_an_alert_for_a_child_joins_it_and_notifies_nobody(parent_with_children, world, second_service, now):
    before = Notification.select().count()

    for place, entity, child in (
        (world, "a", parent_with_children[1]),
        (second_service, "c", parent_with_children[2]),
    ):
        event = process_alert(place, now + MINUTE, entity)
        assert (event.incident, event.incident_created) == (child, False)

    assert Notification.select().count() == before
    assert (
        not Timer.select()
        .where(Timer.incident.in_(parent_with_children[1:]), Timer.done_at.is_null())
        .exists()
    )


def test_an_alert_that_resolves_a_child_resolves_only_the_child(parent_with_children, second_service, now):
    process_alert(second_service, now + MINUTE, "c", "resolved")

    assert list_statuses() == [1, 2, 3]
    assert Incident.get_by_id(parent_with_children[2].id).parent == parent_with_children[0]


def test_an_alert_that_resolves_the_parent_resolves_its_children_of_every_service(
    parent_with_children, world, now
):
    process_alert(world, now + MINUTE, "p", "resolved")

    assert list_statuses() == [3, 3, 3]
    assert not Entity.select().where(Entity.firing | Entity.incident.is_null(False)).exists()
    ended = (
        IncidentLog.select()
        .where(IncidentLog.incident == parent_with_children[2], IncidentLog.what == "resolved")
        .get()
    )
    assert ended.reason == make_reason("parent_resolved", parent="#1")


def test_a_parent_of_a_later_service_resolves_its_children(world, second_service, now):
    for place, entity in ((second_service, "p"), (world, "c")):
        process_alert(place, now, entity)
    parent, child = Incident.select().order_by(Incident.id)
    merge(parent.id, child.id, at=now)

    process_alert(second_service, now + MINUTE, "p", "resolved")

    assert list_statuses() == [3, 3]


def test_an_entity_that_fires_after_its_parent_is_resolved_notifies(
    parent_with_children, world, second_service, now
):
    process_alert(world, now + MINUTE, "p", "resolved")
    event = process_alert(second_service, now + 2 * MINUTE, "c")

    assert event.incident_created
    assert Notification.select().where(Notification.incident == event.incident).exists()


@pytest.mark.parametrize("poison", [False, True], ids=["a batch", "one by one"])
def test_a_batch_that_resolves_a_parent_can_reuse_its_entities(
    parent_with_children, world, now, poison, monkeypatch
):
    if poison:
        monkeypatch.setattr(process_lane, "_run_transaction", list_failures)
    for level, entity in (("resolved", "p"), ("critical", "a"), ("resolved", "a"), ("critical", "p")):
        accept(world, now + MINUTE, message=entity, alert_type=level, entity_id=entity)
    process_lane.run(world.service.id)

    assert list_statuses() == [3, 3, 3, 3, 1]
    assert not Event.select().where(Event.error.is_null(False)).exists()
    assert not Receipt.select().where(Receipt.state != 1).exists()


def list_failures(*_):
    raise ZeroDivisionError


TABLES = (Event, Incident, Entity, Notification, Timer, IncidentLog, IncidentNote)
STEPS = (
    ("critical", "a"), ("resolved", "b"), ("acknowledged", "p"), ("critical", "x"), ("resolved", "p"),
    ("critical", "a"), ("critical", "a"), ("resolved", "a"), ("critical", "p"), ("critical", "b"),
)  # fmt: skip


@pytest.fixture(scope="module")
def outcomes_seen():
    return []


@pytest.mark.parametrize("size", [1000, 1, 2, 3, 7])
@pytest.mark.parametrize("queue_splits", [(), ("rules",)], ids=["uncut", "cut"])
def test_resolving_a_parent_leaves_the_same_rows_in_any_batches(
    parent_with_children, world, now, size, queue_splits, outcomes_seen
):
    for level, entity in STEPS:
        accept(world, now + MINUTE, message=entity, alert_type=level, entity_id=entity)
    with patch_processing(ProcessingMode(size, queue_splits), now):
        for segment in process_lane._segments:
            process_lane.run(world.service.id, segment.name)

    # The ids of the other service differ in each test.
    outcomes_seen.append(list_rows(*TABLES, without={"service", "integration"}))
    assert outcomes_seen[-1] == outcomes_seen[0]
    assert list_statuses() == [3, 3, 3, 1, 3, 1, 1]


def test_an_auto_resolved_parent_resolves_its_children(parent_with_children, now):
    Service.update(auto_resolve_timeout=600).where(Service.id == parent_with_children[0].service_id).execute()
    with store().write_transaction():
        context = lock_incident(parent_with_children[0].id, ALICE, now)
        timer_effects = incidents.save_with_timers(context)
        apply(ChangeSet(effects=list(timer_effects)))
    fire.fire_due(now + 11 * MINUTE)

    assert list_statuses() == [3, 3, 3]


def test_two_lanes_that_resolve_each_others_children_do_not_deadlock(world, second_service, now):
    """Each parent has a child in the other service. Both are resolved at the same time, several times."""
    for round_ in range(4):
        at = now + round_ * MINUTE
        entities = [f"{name}{round_}" for name in ("p", "q", "a", "b")]
        made = [
            process_alert(place, at, entity).incident.id
            for place, entity in zip((world, second_service, second_service, world), entities, strict=True)
        ]
        merge(made[0], made[2], at=at)
        merge(made[1], made[3], at=at)
        for place, entity in ((world, entities[0]), (second_service, entities[1])):
            accept(place, at, message="over", alert_type="resolved", entity_id=entity)
        errors = []
        threads = [
            threading.Thread(target=_run, args=(p.service.id, errors)) for p in (world, second_service)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert errors == []
        assert set(list_statuses()) == {IncidentStatus.RESOLVED}


def _run(service_row, errors):
    try:
        with connection():
            process_lane.run(service_row)
    except Exception as error:
        errors.append(error)


PENDING_LOCKS = """
select count(*) from pg_stat_activity
where datname = current_database() and wait_event_type = 'Lock'
"""


@pytest.mark.skipif(not stores.SERVER, reason="SQLite has one lock for all")
def test_a_lane_releases_its_locks_before_it_locks_a_childs_service(world, second_service, now, home):
    """Otherwise it would deadlock with the lane of the child's service, which waits for the child."""
    for place, entity in ((world, "p"), (second_service, "c")):
        process_alert(place, now, entity)
    parent, child = Incident.select().order_by(Incident.id)
    trees = []

    def find_children():
        with connection(), store().write_transaction():
            trees.append(set(lock_with_children([parent.id]).incidents))

    def lane():
        with connection(), store().write_transaction():
            lock_services([second_service.service.id])
            # PostgreSQL may give the lock to the other first: then the other ends without waiting.
            wait_until(lambda: looks.done() or is_waiting(1))
            Incident.update(title="moved by its lane").where(Incident.id == child.id).execute()

    with psycopg.connect(get_url(home), autocommit=True) as observer, ThreadPoolExecutor(2) as pool:

        def is_waiting(count):
            return observer.execute(PENDING_LOCKS).fetchone() == (count,)

        with store().write_transaction():
            lock_services([world.service.id, second_service.service.id])
            looks = pool.submit(find_children)
            wait_until(lambda: is_waiting(1))
            works = pool.submit(lane)
            wait_until(lambda: is_waiting(2))
            merge(parent.id, child.id, at=now)
        works.result(timeout=PATIENCE_S)
        looks.result(timeout=PATIENCE_S)

    assert trees == [{parent.id, child.id}]
    assert Incident.get_by_id(child.id).title == "moved by its lane"
