"""Timers that fail, and lanes with database errors, do not stop others and do not fill the log."""

from datetime import timedelta

import peewee
import psycopg
import pytest
from structlog.testing import capture_logs

from models.domain.enums import TimerKind
from models.store.store import store
from models.tables.accounts import bump_version
from models.tables.incidents import Incident
from models.tables.services import Service
from models.tables.timers import Timer
from pipeline.incidents.decide_timer import decide_timer
from tests.support import stores
from tests.support.scenarios.sla import sla
from tests.support.scenarios.timers import (
    MINUTE,
    failing_for,
    list_notified,
    open_incidents,
    other_service,
    set_policy,
)
from tests.support.stores import get_url
from workers.timers import backoff, fire

__all__ = ["other_service"]

SECOND = timedelta(seconds=1)


@pytest.fixture
def oldest_incident(world, other_service, now):
    """The row of the oldest of two incidents of Checkout. An incident of Search is due after both."""
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incidents(world, now, "db1", "db2")
    open_incidents(other_service, now + SECOND, "db3")
    return Incident.select().order_by(Incident.id).get().id


def list_bobs_notifications():
    return [name for name, _ in list_notified()].count("Bob")


def fail_for(incident, attempts=None):
    """Build a decision during which the database ends the transaction, `attempts` times or always."""
    left = iter(range(attempts)) if attempts else iter(int, 1)

    def decide(context, kind, key):
        if context.incident.row == incident and next(left, None) is not None:
            raise peewee.OperationalError("the store ended it")
        return decide_timer(context, kind, key)

    return decide


def test_a_lane_with_a_database_error_does_not_stop_others(oldest_incident, now, monkeypatch):
    monkeypatch.setattr(fire, "decide_timer", fail_for(oldest_incident))
    with capture_logs() as logs:
        assert fire.fire_due(now + 6 * MINUTE) == 1

    assert list_bobs_notifications() == 1
    services = [line["service"] for line in logs if line["event"] == "timers of a lane could not be fired"]
    assert services == [Incident.get_by_id(oldest_incident).service_id]


def test_a_failed_lane_is_retried_after_a_delay(oldest_incident, now, monkeypatch):
    monkeypatch.setattr(fire, "decide_timer", fail_for(oldest_incident, attempts=1))

    fired = [fire.fire_due(now + 6 * MINUTE + delay) for delay in (0 * SECOND, 0.5 * SECOND, SECOND)]
    assert fired == [1, 0, 2]


def test_only_the_timer_that_causes_database_errors_stays_due(oldest_incident, now, monkeypatch):
    monkeypatch.setattr(fire, "decide_timer", fail_for(oldest_incident))
    for second in range(3):
        fire.fire_due(now + 6 * MINUTE + second * SECOND)

    assert list_bobs_notifications() == 2
    assert [timer.incident_id for timer in Timer.select().where(Timer.done_at.is_null())] == [oldest_incident]


@pytest.mark.skipif(not stores.SERVER, reason="for PostgreSQL")
def test_a_damaged_row_does_not_stop_other_timers(oldest_incident, now, home):
    """A database trigger simulates a damaged page of the oldest incident."""
    damage = f"""
    create function broken() returns trigger language plpgsql as $$ begin
        if new.id = {oldest_incident} then raise exception 'invalid page' using errcode = 'XX001'; end if;
        return new;
    end $$;
    create trigger broken before update on incident for each row execute function broken();
    """
    with psycopg.connect(get_url(home), autocommit=True) as server:
        server.execute(damage)
        try:
            for second in range(3):
                fire.fire_due(now + 6 * MINUTE + second * SECOND)
        finally:
            server.execute("drop function broken cascade")

    assert list_bobs_notifications() == 2


def test_a_pass_without_a_processed_lane_raises_the_database_error(oldest_incident, now, monkeypatch):
    attempted = []

    def decide(context, *_):
        attempted.append(context.incident.service)
        raise peewee.OperationalError("the store ended it")

    monkeypatch.setattr(fire, "decide_timer", decide)
    with pytest.raises(peewee.OperationalError):
        fire.fire_due(now + 6 * MINUTE)
    assert len(attempted) == 2

    assert fire.fire_due(now + 6 * MINUTE) == 0, "all delays are running"


def test_an_unavailable_database_is_tried_once(oldest_incident, now, monkeypatch):
    attempted = []

    def decide(*_):
        attempted.append(1)
        raise peewee.OperationalError("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr(type(store()), "is_unavailable", lambda *_: True)
        patched.setattr(fire, "decide_timer", decide)
        for second in range(5):
            with pytest.raises(peewee.OperationalError):
                fire.fire_due(now + 6 * MINUTE + 2 * second * SECOND)
    assert len(attempted) == 5

    assert fire.fire_due(now + 6 * MINUTE + 10 * SECOND) == 3, "no lane has a long delay because of it"


def test_a_failing_timer_does_not_stop_others_of_its_incident(world, now, monkeypatch):
    set_policy(world, (0, world.alice), (10, world.bob))
    Service.update(sla=sla(world, acknowledge=5)).execute()
    bump_version(world.account.id)
    open_incidents(world, now, "db1")

    def decide(context, kind, key):
        if kind == TimerKind.SLA_BREACH:
            raise ZeroDivisionError
        return decide_timer(context, kind, key)

    monkeypatch.setattr(fire, "decide_timer", decide)
    for minute in (6, 11):
        fire.fire_due(now + minute * MINUTE)

    assert list_bobs_notifications() == 1


def test_a_failing_timer_is_logged_with_a_traceback_once(oldest_incident, now, monkeypatch):
    monkeypatch.setattr(fire, "decide_timer", failing_for(oldest_incident))
    with capture_logs() as logs:
        for second in range(60):
            fire.fire_due(now + 6 * MINUTE + second * SECOND)

    assert sum("exc_info" in line for line in logs) == 1
    assert [line["delay_s"] for line in logs if line["event"] == "timer failed"] == [2, 4, 8, 16, 32]


def test_other_timers_of_the_service_still_fire_in_one_batch(oldest_incident, world, now, monkeypatch):
    monkeypatch.setattr(fire, "decide_timer", failing_for(oldest_incident))
    fire.fire_due(now + 6 * MINUTE)
    open_incidents(world, now + 6 * MINUTE, *"abcdef")
    with capture_logs() as logs:
        fire.fire_due(now + 12 * MINUTE)

    assert [line["count"] for line in logs if line["event"] == "timers fired"] == [6]


def test_a_failed_timer_that_is_no_longer_due_is_forgotten(oldest_incident, now, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(fire, "decide_timer", failing_for(oldest_incident))
        fire.fire_due(now + 6 * MINUTE)
    failed = Timer.get(Timer.incident == oldest_incident, Timer.done_at.is_null())
    Timer.update(due_at=now + 20 * MINUTE).where(Timer.id == failed.id).execute()
    fire.fire_due(now + 10 * MINUTE)

    assert failed.id not in fire._failed_timers
    assert fire.fire_due(now + 20 * MINUTE) == 1


def test_more_failures_than_remembered_do_not_stop_other_timers(oldest_incident, world, now, monkeypatch):
    monkeypatch.setattr(backoff, "MAX_KEYS", 1)
    checkout = Incident.get_by_id(oldest_incident).service_id

    def decide(context, kind, key):
        if context.incident.service == checkout:
            raise ZeroDivisionError
        return decide_timer(context, kind, key)

    monkeypatch.setattr(fire, "decide_timer", decide)

    assert fire.fire_due(now + 6 * MINUTE) == 1
