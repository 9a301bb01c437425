"""What the clock asks the database each second or two: what to ring for, as it is due or was forgotten."""

from datetime import timedelta

from models.base import connection, store
from models.enums import MessageState, WorkState
from models.events import Event, Receipt
from models.notices import Message
from models.timers import Timer
from workers import bell

# Waiting longer than this means that a bell was lost (design, section 6).
STALE = timedelta(seconds=3)


def ring_due() -> None:
    """The clock's tick: ring for timers and messages that are due."""
    with connection():
        now = store().now()
        timers = Timer.select().where(Timer.done_at.is_null(), Timer.due_at <= now).exists()
        channels = (
            Message.select(Message.channel)
            .where(Message.state == MessageState.PENDING, Message.next_at <= now)
            .distinct()
        )
        ringing = [channel for (channel,) in channels.tuples()]
    if timers:
        bell.ring_timers()
    bell.ring_deliveries(ringing)


def ring_stale() -> None:
    """The clock's sweep: ring for alerts that have waited so long that their bell must be lost."""
    with connection():
        before = store().now() - STALE
        receipts = (
            Receipt.select(Receipt.service)
            .where(Receipt.state == WorkState.WAITING, Receipt.received_at < before)
            .distinct()
        )
        lanes = [(row, "normalize") for (row,) in receipts.tuples()]
        events = (
            Event.select(Event.service, Event.stage)
            .where(Event.state == WorkState.WAITING, Event.creation_date < before)
            .distinct()
        )
        lanes += list(events.tuples())
        routers = (
            Receipt.select(Receipt.router)
            .where(
                Receipt.state == WorkState.WAITING,
                Receipt.router.is_null(False),
                Receipt.received_at < before,
            )
            .distinct()
        )
        waiting_routers = [row for (row,) in routers.tuples()]
    for router_row in waiting_routers:
        bell.ring_router(router_row)
    for service_row, stage in lanes:
        if service_row is not None:
            bell.ring_road(service_row, stage)
