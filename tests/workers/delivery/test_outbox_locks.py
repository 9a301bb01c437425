"""A delivery and a lane that change the same notifications, on a database with row locks."""

import json
import threading

import psycopg
import pytest

from models.domain.enums import MessageStatus, NotificationStatus
from models.domain.reasons import make_reason
from models.store.store import connection
from models.tables.notifications import Message, Notification
from models.write import notifications
from tests.support.alerts import accept
from tests.support.large_groups import run_piece, set_piece_size
from tests.support.polling import wait_until
from tests.support.stores import get_url
from workers.alerts import process_lane
from workers.delivery.attempts import DeliveryOutcome
from workers.delivery.outbox import CLAIM, Claimed, DeliveryAttempt, record_attempt

TAKEN = make_reason("text", text="taken")
PENDING_LOCKS = """
select count(*) from pg_stat_activity
where datname = current_database() and wait_event_type = 'Lock'
"""
CANCEL = f"update notification set state = {NotificationStatus.CANCELLED:d} where id = %s"


def test_a_delivery_locks_notifications_in_the_same_order_as_a_lane(world, now, store, home):
    """Otherwise they deadlock: the database ends one of them, and its mail is sent again."""
    if store.has_single_writer:
        pytest.skip("the store has one writer at a time")
    for name in ("db1", "db2", "db3"):
        accept(world, now, message=name, alert_type="critical", entity_id=name, exactly=True)
    process_lane.run(world.service.id)
    first, second, third = Notification.select().order_by(Notification.id)
    assert first.message_id == third.message_id
    sent = DeliveryAttempt(
        Claimed(first.message_id),
        now,
        DeliveryOutcome.SENT,
        TAKEN,
        1,
        (second.id, first.id),
        {third.id: TAKEN},
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


@pytest.mark.parametrize("size", [1, 3])
def test_a_piece_waits_for_no_delivery_of_a_message_of_the_same_body(
    world, now, store, home, monkeypatch, size
):
    """The piece holds the notification of a resolved incident, the delivery the message: no deadlock."""
    if store.has_single_writer:
        pytest.skip("the store has one writer at a time")
    set_piece_size(monkeypatch, size)
    hosts = [*((f"host{n}", "firing") for n in range(size)), ("host0", "resolved"), ("other", "firing")]
    alerts = [
        {"fingerprint": name, "status": status, "labels": {"alertname": name, "severity": "critical"}}
        for name, status in hosts
    ]
    accept(world, now, source="prometheus", body=json.dumps({"alerts": alerts}).encode())
    run_piece(world)
    set_piece_size(monkeypatch, 2)
    (message,) = Message.select()
    Message.update(claimed_until=store.now() + CLAIM).execute()
    included = tuple(notification.id for notification in Notification.select())
    sent = DeliveryAttempt(Claimed(message.id), now, DeliveryOutcome.SENT, TAKEN, 1, included)
    real, deliveries, errors = notifications.find_shared, [], []

    def deliver():
        try:
            with connection(), store.write_transaction():
                record_attempt(sent)
        except Exception as error:
            errors.append(error)

    def deliver_before(names):
        """Let a delivery wait for the notification that the piece has locked."""
        deliveries.append(threading.Thread(target=deliver))
        deliveries[0].start()
        with psycopg.connect(get_url(home), autocommit=True) as observer:
            wait_until(lambda: observer.execute(PENDING_LOCKS).fetchone() == (1,))
        return real(names)

    monkeypatch.setattr(notifications, "find_shared", deliver_before)
    run_piece(world)
    deliveries[0].join()

    assert errors == []
    assert Message.get_by_id(message.id).state == MessageStatus.SENT
    states = {notification.key: notification.state for notification in Notification.select()}
    assert list(states.values()).count(NotificationStatus.PENDING) == 1
