"""What a simulation reads, and that it can do nothing else."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import peewee
import pytest

from models.domain.enums import NotificationKind, TimerKind
from models.load.simulation import load_contact_names, load_pending_notifications, load_users
from models.load.timers import find_all_fired, list_pending_keys
from models.store import base
from models.tables.accounts import Account
from models.tables.incidents import Incident
from models.tables.notifications import Notification
from models.tables.timers import Timer
from models.tables.users import ContactMethod, NotificationRule
from tests.support.alerts import accept
from tests.workers.timers.test_fire import set_policy
from workers.alerts import process_lane


def test_what_reads_cannot_write(world):
    with pytest.raises((peewee.OperationalError, peewee.InternalError)), base.store().read_transaction():
        Account.update(name="Changed").execute()

    Account.update(name="Changed").execute()
    assert Account.get_by_id(world.account.id).name == "Changed"


def test_what_reads_sees_one_moment_and_keeps_nobody_from_writing(world):
    def rename():
        with base.connection(), base.store().write_transaction():
            Account.update(name="Changed").execute()

    with base.store().read_transaction():
        before = Account.get_by_id(world.account.id).name
        with ThreadPoolExecutor(1) as another:
            another.submit(rename).result()
        assert Account.get_by_id(world.account.id).name == before

    assert Account.get_by_id(world.account.id).name == "Changed"


def test_what_is_owed_is_read_with_the_moment_of_its_message(world, now):
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


def test_what_is_done_once_is_known_by_what_it_said(world, now):
    accept(world, now, message="Disk full", alert_type="critical")
    process_lane.run(world.service.id)
    incident = Incident.get()
    for key, kind, outcome in (
        ("a", TimerKind.SLA_BREACH, "done once: told"),
        ("b", TimerKind.SLA_BREACH, "planned anew"),
        ("c", TimerKind.ESCALATE, "done once: told"),
    ):
        Timer.create(incident=incident, kind=kind, key=key, due_at=now, done_at=now, outcome=outcome)

    assert find_all_fired({incident.id: incident.unique_id}) == {(incident.unique_id, "a")}


def test_timers_that_wait_are_in_the_order_in_which_they_began_to(world, now):
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
