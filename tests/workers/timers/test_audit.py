"""The audit makes the stored timers of incidents equal to the expected timers."""

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event

import peewee
import pytest
from structlog.testing import capture_logs

from models.domain.reasons import describe, make_reason
from models.load.lane import lock_services
from models.people import provisioning
from models.store.store import store
from models.tables.incidents import Incident
from models.tables.services import Service
from models.tables.timers import Timer
from runtime import metrics
from runtime.metrics import Counters
from tests.support import stores
from tests.support.alerts import accept
from tests.support.polling import PATIENCE_S
from tests.support.scenarios.incident_log import list_log_reasons
from tests.support.scenarios.sla import sla
from tests.support.scenarios.timers import (
    MINUTE,
    list_notified,
    open_incident,
    open_incidents,
    other_service,
    set_policy,
)
from workers import steps
from workers.alerts import process_lane
from workers.timers import audit, fire, reconcile

__all__ = ["other_service"]


def list_pending_timers():
    """List the pending timers, in the order of incidents and keys."""
    rows = Timer.select(Timer.incident, Timer.kind, Timer.key, Timer.due_at).where(Timer.done_at.is_null())
    return sorted(rows.tuples())


def open_in_every_state(world, now):
    """Open incidents that are triggered, acknowledged, snoozed, resolved, and of a deleted service."""
    Service.update(acknowledgement_timeout_enabled=True, auto_resolve_timeout=86_400).execute()
    set_policy(world, (0, world.alice), (5, world.bob), (50, world.bob))
    open_incidents(world, now, *(f"db{number}" for number in range(12)))
    for status_name, entities in (("acknowledged", "3456"), ("resolved", "789")):
        for number in entities:
            accept(world, now, message="m", alert_type=status_name, entity_id=f"db{number}", exactly=True)
    process_lane.run(world.service.id)
    Incident.update(service=None).where(Incident.id > 10).execute()
    audit.audit(now)


@pytest.mark.parametrize("seed", range(8))
def test_one_audit_makes_stored_timers_equal_expected_timers(world, now, seed):
    open_in_every_state(world, now)
    before = list_pending_timers()
    damage_timers(random.Random(seed), now)
    assert list_pending_timers() != before
    audit.audit(now)

    assert list_pending_timers() == before


def damage_timers(chance, now):
    """Delete, end, move and add timers at random."""
    for timer in list(Timer.select().where(Timer.done_at.is_null())):
        what = chance.choice(("nothing", "delete", "end", "move"))
        if what == "delete":
            timer.delete_instance()
        elif what == "end":
            Timer.update(done_at=now, outcome=describe("lost")).where(Timer.id == timer.id).execute()
        elif what == "move":
            later = timer.due_at + timedelta(seconds=chance.randrange(-500, 500) or 1)
            Timer.update(due_at=later).where(Timer.id == timer.id).execute()
    for incident in Incident.select():
        if chance.random() < 0.5:
            key = f"escalate:7:{chance.randrange(9)}"
            Timer.create(incident=incident, kind="escalate", key=key, due_at=now + MINUTE)


def test_repaired_timers_are_logged_in_the_timeline_and_counted(world, now, monkeypatch):
    counters = Counters()
    monkeypatch.setattr(metrics, "counters", counters)
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incidents(world, now, "db1", "db2", "db3")
    first, second, third = Timer.select().order_by(Timer.id)
    first.delete_instance()
    Timer.update(due_at=now + MINUTE).where(Timer.id == second.id).execute()
    Timer.create(incident=third.incident, kind="snooze", key="snooze:1", due_at=now)
    audit.audit(now)

    assert list_log_reasons("timers_repaired") == [
        audit.CAUSE.reason.add(make_reason("timers_missing", keys=("escalate:1:1",))),
        audit.CAUSE.reason.add(make_reason("timers_moved", keys=("escalate:1:1",))),
        audit.CAUSE.reason.add(make_reason("timers_extra", keys=("snooze:1",))),
    ]
    assert Timer.get(Timer.key == "snooze:1").outcome == make_reason("timers_repaired")
    for what in ("missing", "moved", "extra"):
        value = counters.registry.get_sample_value("tocsin_audit_repaired_total", {"difference": what})
        assert value == 1


def test_an_audit_without_differences_locks_and_writes_nothing(world, now, statements):
    open_in_every_state(world, now)
    with statements() as seen:
        assert audit.audit(now) > 0

    assert [sql for sql, _ in seen if not sql.startswith("SELECT")] == []
    assert [sql for sql, _ in seen if "FOR NO KEY UPDATE" in sql] == []


def test_statements_do_not_grow_with_the_incidents_of_a_page(world, now, statements):
    set_policy(world, (0, world.alice), (5, world.bob))

    def count(incidents, *, harmed):
        open_incidents(world, now, *(f"{harmed}{incidents}-{number}" for number in range(incidents)))
        if harmed:
            Timer.update(due_at=now).where(Timer.done_at.is_null()).execute()
        with statements() as seen:
            audit.audit(now)
        return len(seen)

    first = count(1, harmed=False)
    assert count(50, harmed=False) == count(5, harmed=False) < first, "the first reads the configuration"
    assert count(2, harmed=True) == count(60, harmed=True)


def test_an_audit_in_pages_checks_every_incident(world, now, monkeypatch):
    monkeypatch.setattr(reconcile, "PAGE_SIZE", 2)
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incidents(world, now, *"abcde")
    before = list_pending_timers()
    Timer.delete().execute()

    assert audit.audit(now) == 5
    assert list_pending_timers() == before


def test_an_audit_finds_a_changed_policy_once(world, now):
    set_policy(world, (0, world.alice), (50, world.bob))
    open_incident(world, now)
    set_policy(world, (0, world.alice), (5, world.bob))
    for minute in (1, 2):
        audit.audit(now + minute * MINUTE)
    fire.fire_due(now + 5 * MINUTE)

    assert list_log_reasons("timers_repaired") == [
        audit.CAUSE.reason.add(make_reason("timers_moved", keys=("escalate:1:1",)))
    ]
    assert [name for name, _ in list_notified()] == ["Alice", "Bob"]


def test_an_sla_timer_that_fired_is_not_created_again(world, now):
    sla_row = sla(world, (1, -5, world.bob), acknowledge=10)
    Service.update(sla=sla_row).execute()
    open_incident(world, now)
    for minute in (6, 11):
        fire.fire_due(now + minute * MINUTE)
        audit.audit(now + minute * MINUTE)

    assert list_pending_timers() == []
    assert list_log_reasons("timers_repaired") == []


def test_a_service_whose_audit_fails_does_not_stop_others(world, now, monkeypatch):
    open_incident(world, now)
    other = provisioning.create_service(world.team, "Other", world.policy, world.alice, now)
    row = {**Incident.select().dicts().get(), "id": 99, "unique_id": "other", "incident_number": 2}
    Incident.insert(**{**row, "service": other}).execute()
    looked_at = []

    def fail_on_first(incident, *_):
        looked_at.append(incident.service)
        if len(looked_at) == 1:
            raise ZeroDivisionError
        return ()

    monkeypatch.setattr(reconcile, "get_expected_timers", fail_on_first)
    audit.audit(now)

    assert set(looked_at) == {world.service.id, other.id}


def failing_for(row, real=reconcile.get_expected_timers):
    def fail(incident, *rest):
        if incident.row == row:
            raise ZeroDivisionError
        return real(incident, *rest)

    return fail


def test_an_incident_whose_audit_fails_does_not_stop_others(world, now, monkeypatch):
    monkeypatch.setattr(reconcile, "PAGE_SIZE", 3)
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incidents(world, now, *"abcdef")
    poison = Incident.select().order_by(Incident.id).get().id
    before = [timer for timer in list_pending_timers() if timer[0] != poison]
    Timer.delete().execute()
    monkeypatch.setattr(reconcile, "get_expected_timers", failing_for(poison))
    with capture_logs() as logs:
        audit.audit(now)

    assert list_pending_timers() == before
    detailed_errors = [line["incidents"] for line in logs if line.get("exc_info")]
    assert detailed_errors == [[poison, poison + 1, poison + 2]]
    assert [line["incidents"] for line in logs if line["log_level"] == "error"][1:] == [[poison]]


def test_a_service_that_cannot_be_read_does_not_stop_others(world, other_service, now, monkeypatch):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incidents(world, now, "a")
    open_incidents(other_service, now, "b")
    before = list_pending_timers()
    Timer.delete().execute()
    real = audit.list_open_incidents

    def read(service, *rest):
        if service == world.service.id:
            raise peewee.InternalError("invalid page in block 7")
        return real(service, *rest)

    monkeypatch.setattr(audit, "list_open_incidents", read)
    audit.audit(now)

    assert list_pending_timers() == before[1:]


def test_an_audit_that_read_nothing_raises_the_database_error(world, other_service, now, monkeypatch):
    open_incidents(world, now, "a")
    open_incidents(other_service, now, "b")
    asked = []

    def read(*arguments):
        asked.append(arguments)
        raise peewee.InternalError("invalid page in block 7")

    monkeypatch.setattr(audit, "list_open_incidents", read)
    with pytest.raises(peewee.InternalError):
        audit.audit(now)
    assert len(asked) == 2

    monkeypatch.setattr(type(store()), "is_unavailable", lambda *_: True)
    with pytest.raises(peewee.InternalError):
        audit.audit(now)
    assert len(asked) == 3, "the unavailable database is asked once"


@pytest.mark.skipif(not stores.SERVER, reason="SQLite has one lock for all")
def test_a_locked_service_is_left_to_the_next_audit(world, other_service, now, monkeypatch):
    monkeypatch.setattr(reconcile, "LOCK_TIMEOUT_S", 0.05)
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incidents(world, now, "a")
    open_incidents(other_service, now, "b")
    before = list_pending_timers()
    Timer.delete().execute()
    with ThreadPoolExecutor(1) as pool:
        with store().write_transaction():
            lock_services([world.service.id])
            pool.submit(audit.audit, now).result(timeout=PATIENCE_S)
        assert list_pending_timers() == before[1:]

    audit.audit(now)
    assert list_pending_timers() == before


def test_the_audit_notifies_somebody_once_if_the_policy_was_emptied(world, now):
    set_policy(world, (10, world.bob))
    open_incident(world, now)
    assert list_notified() == []
    set_policy(world)
    for minute in (1, 6, 11):
        audit.audit(now + minute * MINUTE)
        fire.fire_due(now + minute * MINUTE)

    assert list_notified() == [("Alice", now + MINUTE)]


def test_the_audit_rests_between_the_pages_of_incidents(world, other_service, now, monkeypatch):
    monkeypatch.setattr(reconcile, "PAGE_SIZE", 2)
    open_incidents(world, now, "a", "b", "c")
    open_incidents(other_service, now, "d")
    rests = []

    assert audit.audit(now, rests.append) == 4
    # After two pages of one service, and one of the other; that of the resolved incidents is the last one.
    assert len(rests) == 3


def test_an_audit_ends_after_its_page_when_the_process_stops(world, now, monkeypatch):
    monkeypatch.setattr(steps, "_stopping", Event())
    monkeypatch.setattr(reconcile, "PAGE_SIZE", 2)
    open_incidents(world, now, "a", "b", "c")

    assert audit.audit(now, lambda _: steps.stop()) == 2
