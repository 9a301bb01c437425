"""What alerts and timers do to merged incidents (contract 4.3), whoever's service they are of."""

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from models import founding
from models.applications import GENERIC
from models.apply import apply
from models.base import connection, store
from models.effects import Actor, Outcome
from models.enums import ActorKind, IncidentStatus
from models.events import Entity, Event, Receipt
from models.incidents import Incident, IncidentLog, IncidentNote
from models.loading import lock_families, lock_incident, lock_services
from models.notices import Notice
from models.services import Service
from models.timers import Timer
from pipeline import moves
from tests import stores
from tests.alerts import accept, rows
from tests.histories import Manner, worked
from tests.people import World
from tests.stores import url_of
from tests.waiting import until
from tests.workers.test_timers import MINUTE
from workers import road, timers

ALICE = Actor(ActorKind.USER, "Alice")


@pytest.fixture
def far(world, now):
    """The world as seen from another service, which was made later: its row comes after Checkout's."""
    service = founding.new_service(world.team, "Search", world.policy, world.alice, now)
    door = founding.new_integration(service, "Door", GENERIC, world.alice, now)
    return _from(world, service, door)


def _from(world, service, integration):
    values = {name: getattr(world, name) for name in World.__slots__}
    return World(**{**values, "service": service, "integration": integration})


def come(place, at, entity, level="critical"):
    accept(place, at, message=f"{entity} {level}", alert_type=level, entity_id=entity, exactly=True)
    road.run(place.service.id)
    return Event.select().order_by(Event.id.desc()).get()


def merge(parent, *children, at):
    with store().writing():
        found = lock_families([parent, *children])
        states = [found.incidents[row] for row in (parent, *children)]
        assert moves.against_merging(states[0], states[1:]) is None
        effects = moves.merge(states[0], states[1:], [], ALICE, at)
        apply(Outcome(effects=list(effects)), {states[0].unique_id: parent})


def statuses():
    return [incident.status for incident in Incident.select().order_by(Incident.id)]


@pytest.fixture
def family(world, far, now):
    """The entity "p" is the parent's, "a" and "b" are of a child beside it, "c" of a child of another
    service; six notices at most were owed before."""
    Service.update(collation=0).execute()
    for place, entity in ((world, "p"), (world, "a"), (far, "c")):
        come(place, now, entity)
    parent, near, beyond = Incident.select().order_by(Incident.id)
    merge(parent.id, near.id, beyond.id, at=now)
    return parent, near, beyond


def test_what_comes_for_a_child_joins_it_and_tells_nobody(family, world, far, now):
    before = Notice.select().count()

    for place, entity, child in ((world, "a", family[1]), (far, "c", family[2])):
        event = come(place, now + MINUTE, entity)
        assert (event.incident, event.incident_created) == (child, False)

    assert Notice.select().count() == before
    assert not Timer.select().where(Timer.incident.in_(family[1:]), Timer.done_at.is_null()).exists()


def test_an_alert_that_resolves_all_of_a_child_resolves_it_alone(family, far, now):
    come(far, now + MINUTE, "c", "resolved")

    assert statuses() == [1, 2, 3]
    assert Incident.get_by_id(family[2].id).parent == family[0]


def test_an_alert_that_resolves_the_parent_resolves_its_children_of_every_service(family, world, now):
    come(world, now + MINUTE, "p", "resolved")

    assert statuses() == [3, 3, 3]
    assert not Entity.select().where(Entity.firing | Entity.incident.is_null(False)).exists()
    ended = (
        IncidentLog.select().where(IncidentLog.incident == family[2], IncidentLog.what == "resolved").get()
    )
    assert ended.reason == "merged into #1, which is resolved"


def test_so_does_one_whose_service_is_locked_after_that_of_its_children(world, far, now):
    for place, entity in ((far, "p"), (world, "c")):
        come(place, now, entity)
    parent, child = Incident.select().order_by(Incident.id)
    merge(parent.id, child.id, at=now)

    come(far, now + MINUTE, "p", "resolved")

    assert statuses() == [3, 3]


def test_what_fires_again_after_its_parent_is_over_is_told(family, world, far, now):
    come(world, now + MINUTE, "p", "resolved")
    event = come(far, now + 2 * MINUTE, "c")

    assert event.incident_created
    assert Notice.select().where(Notice.incident == event.incident).exists()


@pytest.mark.parametrize("poison", [False, True], ids=["a batch", "one by one"])
def test_a_batch_that_ends_a_family_may_go_on_with_its_entities(family, world, now, poison, monkeypatch):
    if poison:
        monkeypatch.setattr(road, "_transaction", _fails)
    for level, entity in (("resolved", "p"), ("critical", "a"), ("resolved", "a"), ("critical", "p")):
        accept(world, now + MINUTE, message=entity, alert_type=level, entity_id=entity)
    road.run(world.service.id)

    assert statuses() == [3, 3, 3, 3, 1]
    assert not Event.select().where(Event.error.is_null(False)).exists()
    assert not Receipt.select().where(Receipt.state != 1).exists()


def _fails(*_):
    raise ZeroDivisionError


TABLES = (Event, Incident, Entity, Notice, Timer, IncidentLog, IncidentNote)
HISTORY = (
    ("critical", "a"), ("resolved", "b"), ("acknowledged", "p"), ("critical", "x"), ("resolved", "p"),
    ("critical", "a"), ("critical", "a"), ("resolved", "a"), ("critical", "p"), ("critical", "b"),
)  # fmt: skip


@pytest.fixture(scope="module")
def outcomes():
    return []


@pytest.mark.parametrize("size", [1000, 1, 2, 3, 7])
@pytest.mark.parametrize("cuts", [(), ("rules",)], ids=["uncut", "cut"])
def test_the_end_of_a_family_leaves_the_same_rows_in_batches_of_any_size(
    family, world, now, size, cuts, outcomes
):
    for level, entity in HISTORY:
        accept(world, now + MINUTE, message=entity, alert_type=level, entity_id=entity)
    with worked(Manner(size, cuts), now):
        for segment in road._road:
            road.run(world.service.id, segment.name)

    # The other service has other ids in each test.
    outcomes.append(rows(*TABLES, without={"service", "integration"}))
    assert outcomes[-1] == outcomes[0]
    assert statuses() == [3, 3, 3, 1, 3, 1, 1]


def test_an_incident_that_resolves_itself_takes_its_children_with_it(family, now):
    Service.update(auto_resolve_timeout=600).where(Service.id == family[0].service_id).execute()
    with store().writing():
        found = lock_incident(family[0].id)
        armed = moves.rearm(found.incident, found.service, found.directory, now)
        apply(Outcome(effects=list(armed)))
    timers.run_due(now + 11 * MINUTE)

    assert statuses() == [3, 3, 3]


def test_two_lanes_that_end_each_others_children_do_not_wait_for_each_other(world, far, now):
    """Each parent has a child of the other's service; all are ended at the same time, again and again."""
    for round_ in range(4):
        at = now + round_ * MINUTE
        entities = [f"{name}{round_}" for name in ("p", "q", "a", "b")]
        made = [
            come(place, at, entity).incident.id
            for place, entity in zip((world, far, far, world), entities, strict=True)
        ]
        merge(made[0], made[2], at=at)
        merge(made[1], made[3], at=at)
        for place, entity in ((world, entities[0]), (far, entities[1])):
            accept(place, at, message="over", alert_type="resolved", entity_id=entity)
        errors = []
        threads = [threading.Thread(target=_run, args=(p.service.id, errors)) for p in (world, far)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert errors == []
        assert set(statuses()) == {IncidentStatus.RESOLVED}


def _run(service_row, errors):
    try:
        with connection():
            road.run(service_row)
    except Exception as error:
        errors.append(error)


WAITING = """
select count(*) from pg_stat_activity
where datname = current_database() and wait_event_type = 'Lock'
"""


@pytest.mark.skipif(not stores.SERVER, reason="SQLite has one lock for all")
def test_whoever_finds_a_child_too_late_waits_for_its_service_holding_nothing(world, far, now, home):
    """Else its lane, which has that service, would wait for the child, and each for the other."""
    for place, entity in ((world, "p"), (far, "c")):
        come(place, now, entity)
    parent, child = Incident.select().order_by(Incident.id)
    families = []

    def look():
        with connection(), store().writing():
            families.append(set(lock_families([parent.id]).incidents))

    def lane():
        with connection(), store().writing():
            lock_services([far.service.id])
            until(lambda: waiting(1))
            Incident.update(title="moved by its lane").where(Incident.id == child.id).execute()

    with psycopg.connect(url_of(home), autocommit=True) as watch, ThreadPoolExecutor(2) as pool:

        def waiting(count):
            return watch.execute(WAITING).fetchone() == (count,)

        with store().writing():
            lock_services([world.service.id, far.service.id])
            looks = pool.submit(look)
            until(lambda: waiting(1))
            works = pool.submit(lane)
            until(lambda: waiting(2))
            merge(parent.id, child.id, at=now)
        works.result(timeout=10)
        looks.result(timeout=10)

    assert families == [{parent.id, child.id}]
    assert Incident.get_by_id(child.id).title == "moved by its lane"
