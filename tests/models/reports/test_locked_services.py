"""A service whose work waits for a lock of a process that hangs is named."""

from datetime import timedelta

import psycopg
import pytest

from models.reports import locked_services
from models.reports.locked_services import list_locked_services
from models.store.store import store
from models.tables.notifications import Message
from tests.support import stores
from tests.support.alerts import accept
from tests.support.scenarios.timers import MINUTE, open_incident, set_policy

pytestmark = pytest.mark.skipif(not stores.SERVER, reason="with a single writer, no commit succeeds")


@pytest.fixture
def hang(world, home):
    """A transaction of another process that has locked the service in a savepoint."""
    with psycopg.connect(stores.get_url(home)) as other:
        other.execute("savepoint step")
        other.execute("select id from service where id = %s for no key update", (world.service.id,))
        other.execute("release savepoint step")
        yield other
        other.rollback()


@pytest.fixture
def at_once(monkeypatch):
    """Every open transaction counts as long."""
    monkeypatch.setattr(locked_services, "LOCKED_FOR_S", 0.0)
    monkeypatch.setattr(locked_services, "BETWEEN_LOOKS_S", 0.0)


def test_a_service_with_pending_alerts_is_named(world, now, hang, at_once):
    accept(world, now, message="m", alert_type="critical", entity_id="db1")

    assert list_locked_services(now) == [world.service.unique_id]


def test_a_service_is_named_although_others_refer_to_it_meanwhile(world, now, home, hang, at_once):
    accept(world, now, message="m", alert_type="critical", entity_id="db1")
    with psycopg.connect(stores.get_url(home)) as sender:
        sender.execute("select id from service for key share")

        assert list_locked_services(now) == [world.service.unique_id]


def test_a_service_with_due_timers_is_named(world, now, home, at_once):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incident(world, now)
    with psycopg.connect(stores.get_url(home)) as other:
        other.execute("select id from service for no key update")
        assert list_locked_services(now + 4 * MINUTE) == []
        assert list_locked_services(now + 6 * MINUTE) == [world.service.unique_id]


def test_the_service_of_a_due_message_is_named(world, now, home, at_once):
    set_policy(world, (0, world.alice))
    open_incident(world, now)
    with psycopg.connect(stores.get_url(home)) as other:
        other.execute("select id from message for update")

        assert list_locked_services(now - MINUTE) == []
        assert list_locked_services(now + MINUTE) == [world.service.unique_id]


def test_a_message_that_a_worker_is_sending_is_no_problem(world, now, home, at_once):
    set_policy(world, (0, world.alice))
    open_incident(world, now)
    Message.update(claimed_until=now + 2 * MINUTE).execute()
    with psycopg.connect(stores.get_url(home)) as other:
        other.execute("select id from message for update")

        assert list_locked_services(now + MINUTE) == []


def test_a_service_without_work_and_one_without_a_lock_are_not_named(world, now, home, hang, at_once):
    assert list_locked_services(now) == []
    accept(world, now, message="m", alert_type="critical", entity_id="db1")
    hang.rollback()
    hang.execute("select id from team for no key update")

    assert list_locked_services(now) == []


def test_a_lock_of_a_young_transaction_is_no_problem(world, now, hang):
    accept(world, now, message="m", alert_type="critical", entity_id="db1")

    assert store().has_long_writer(3600.0) is False
    assert list_locked_services(now + timedelta(seconds=1)) == []


def test_a_lock_that_changes_hands_is_no_problem(world, now, home, hang, at_once, monkeypatch):
    accept(world, now, message="m", alert_type="critical", entity_id="db1")
    with psycopg.connect(stores.get_url(home)) as next_one:

        def pass_on(seconds):
            hang.rollback()
            next_one.execute("select id from service for no key update")

        monkeypatch.setattr(locked_services.time, "sleep", pass_on)

        assert list_locked_services(now) == []
