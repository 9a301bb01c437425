"""The data that a simulation reads, and read-only transactions."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import peewee
import pytest

from models.domain.enums import NotificationKind, TimerKind
from models.domain.reasons import make_reason
from models.load.simulation import load_contact_names, load_pending_notifications, load_users
from models.load.timers import find_all_fired, list_pending_keys
from models.store.store import connection, store
from models.tables.accounts import Account
from models.tables.incidents import Incident
from models.tables.notifications import Notification
from models.tables.timers import Timer
from models.tables.users import ContactMethod, NotificationRule
from tests.support.alerts import accept
from tests.support.scenarios.timers import set_policy
from workers.alerts import process_lane


def test_a_read_transaction_cannot_write(world):
    with pytest.raises((peewee.OperationalError, peewee.InternalError)), store().read_transaction():
        Account.update(name="Changed").execute()

    Account.update(name="Changed").execute()
    assert Account.get_by_id(world.account.id).name == "Changed"


def test_a_read_transaction_sees_one_snapshot_and_does_not_block_writers(world):
    def rename():
        with connection(), store().write_transaction():
            Account.update(name="Changed").execute()

    with store().read_transaction():
        before = Account.get_by_id(world.account.id).name
        with ThreadPoolExecutor(1) as another:
            another.submit(rename).result()
        assert Account.get_by_id(world.account.id).name == before

    assert Account.get_by_id(world.account.id).name == "Changed"


def test_a_pending_notification_is_loaded_with_the_due_time_of_its_message(world, now):
    set_policy(world, (0, world.bob))
    NotificationRule.update(start_delay=5).where(NotificationRule.user == world.bob).execute()
    accept(world, now, message="Disk full", alert_type="critical", exactly=True)
    process_lane.run(world.service.id)
    incident = Incident.get()

    (pending,) = load_pending_notifications([incident.id])

    notification = Notification.get()
    assert (pending.key, pending.incident, pending.user) == (
        notification.key,
        incident.unique_id,
        world.bob.id,
    )
    assert (pending.kind, pending.not_before) == (NotificationKind.ESCALATION, now + timedelta(minutes=5))
    assert load_contact_names([pending.contact]) == {
        pending.contact: ContactMethod.get_by_id(pending.contact).name
    }
    assert load_users([pending.user]) == {world.bob.id: world.bob}


def test_a_fired_one_time_timer_is_found_by_its_column(world, now):
    accept(world, now, message="Disk full", alert_type="critical")
    process_lane.run(world.service.id)
    incident = Incident.get()
    for key, outcome, fired in (
        ("a", make_reason("breach_logged"), True),
        ("b", make_reason("sla_over"), False),
    ):
        Timer.create(
            incident=incident,
            kind=TimerKind.SLA_BREACH,
            key=key,
            due_at=now,
            done_at=now,
            outcome=outcome,
            fired=fired,
        )

    assert find_all_fired({incident.id: incident.unique_id}) == {(incident.unique_id, "a")}


def test_pending_timers_are_ordered_by_their_creation(world, now):
    accept(world, now, message="Disk full", alert_type="critical")
    process_lane.run(world.service.id)
    incident = Incident.get()
    Timer.delete().execute()
    for key, done_at in (("b", None), ("over", now), ("a", None)):
        Timer.create(incident=incident, kind=TimerKind.ESCALATE, key=key, due_at=now, done_at=done_at)

    assert list_pending_keys({incident.id: incident.unique_id}) == [
        (incident.unique_id, "b"),
        (incident.unique_id, "a"),
    ]
