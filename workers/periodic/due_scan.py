"""Enqueue wake-ups for due timers and messages, and for alerts whose wake-up was lost.

The clock runs these jobs every second or two.
"""

from datetime import timedelta

from models.domain.enums import MessageStatus, WorkState
from models.store.base import connection, store
from models.tables.events import Event, Receipt
from models.tables.notifications import Message
from models.tables.timers import Timer
from workers import queue

# If an alert is pending for longer than this, its wake-up was lost (design, section 6).
STALE = timedelta(seconds=3)


def enqueue_due() -> None:
    """Enqueue wake-ups for due timers and due messages."""
    with connection():
        now = store().now()
        timers = Timer.select().where(Timer.done_at.is_null(), Timer.due_at <= now).exists()
        channels = (
            Message.select(Message.channel)
            .where(Message.state == MessageStatus.PENDING, Message.next_attempt_at <= now)
            .distinct()
        )
        due_channels = [channel for (channel,) in channels.tuples()]
    if timers:
        queue.enqueue_timers()
    queue.enqueue_deliveries(due_channels)


def enqueue_stale() -> None:
    """Enqueue the lanes of alerts that are pending for so long that their wake-up must be lost."""
    with connection():
        before = store().now() - STALE
        receipts = (
            Receipt.select(Receipt.service)
            .where(Receipt.state == WorkState.PENDING, Receipt.received_at < before)
            .distinct()
        )
        lanes = [(row, "normalize") for (row,) in receipts.tuples()]
        events = (
            Event.select(Event.service, Event.stage)
            .where(Event.state == WorkState.PENDING, Event.creation_date < before)
            .distinct()
        )
        lanes += list(events.tuples())
        routers = (
            Receipt.select(Receipt.router)
            .where(
                Receipt.state == WorkState.PENDING,
                Receipt.router.is_null(False),
                Receipt.received_at < before,
            )
            .distinct()
        )
        pending_routers = [row for (row,) in routers.tuples()]
    for router_row in pending_routers:
        queue.enqueue_router(router_row)
    for service_row, stage in lanes:
        if service_row is not None:
            queue.enqueue_lane(service_row, stage)
