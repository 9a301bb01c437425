"""A delivery and a lane that change the same notifications, on a database with row locks."""

import threading

import psycopg
import pytest

from models.domain.enums import NotificationStatus
from models.store.base import connection
from models.tables.notifications import Notification
from tests.support.alerts import accept
from tests.support.polling import wait_until
from tests.support.stores import get_url
from workers.alerts import process_lane
from workers.delivery.attempts import DeliveryOutcome
from workers.delivery.outbox import Claimed, DeliveryAttempt, record_attempt

PENDING_LOCKS = """
select count(*) from pg_stat_activity
where datname = current_database() and wait_event_type = 'Lock'
"""
CANCEL = f"update notification set state = {NotificationStatus.CANCELLED:d} where id = %s"


def test_a_delivery_locks_notifications_in_the_same_order_as_a_lane(world, now, store, home):
    """Otherwise they deadlock: the database ends one of them, and its mail is sent again."""
    if store.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    for name in ("db1", "db2", "db3"):
        accept(world, now, message=name, alert_type="critical", entity_id=name, exactly=True)
    process_lane.run(world.service.id)
    first, second, third = Notification.select().order_by(Notification.id)
    assert first.message_id == third.message_id
    sent = DeliveryAttempt(
        Claimed(first.message_id),
        now,
        DeliveryOutcome.SENT,
        "taken",
        1,
        (second.id, first.id),
        {third.id: "resolved"},
    )

    def deliver_all():
        with connection(), store.write_transaction():
            record_attempt(sent)

    with (
        psycopg.connect(get_url(home)) as lane_connection,
        psycopg.connect(get_url(home), autocommit=True) as observer,
    ):
        lane_connection.execute(CANCEL, (first.id,))
        delivery = threading.Thread(target=deliver_all)
        delivery.start()
        wait_until(lambda: observer.execute(PENDING_LOCKS).fetchone() == (1,))
        lane_connection.execute("set local lock_timeout = '500ms'")
        lane_connection.execute(CANCEL, (third.id,))
        lane_connection.commit()
        delivery.join()

    states = [notification.state for notification in Notification.select().order_by(Notification.id)]
    assert states == [NotificationStatus.SENT, NotificationStatus.SENT, NotificationStatus.CANCELLED]
