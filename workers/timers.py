"""Due timers: take them, decide again from what is true now, write; and ring for what falls due.

A timer is marked done in the transaction of its effects, so one that was taken by a killed worker is
simply due again.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog

from models.apply import apply
from models.base import STORE_ERRORS, connection, store
from models.effects import Outcome
from models.enums import MessageState, TimerKind, WorkState
from models.events import Event, Receipt
from models.loading import lock_incident
from models.notices import Message
from models.timers import Timer
from schedules import due
from tocsin import metrics
from workers import bell

log = structlog.get_logger()

# Waiting longer than this means that a bell was lost (design, section 6).
STALE = timedelta(seconds=3)


def run_due(now: datetime | None = None) -> int:
    """Fire every timer that is due, oldest first; returns how many incidents were looked at."""
    looked_at = 0
    failed: set[int] = set()
    with connection():
        while incidents := _due_incidents(now or store().now(), failed):
            for incident_row in incidents:
                if not _fire(incident_row, now):
                    failed.add(incident_row)
                looked_at += 1
    return looked_at


def _due_incidents(now: datetime, failed: set[int]) -> Sequence[int]:
    query = (
        Timer.select(Timer.incident)
        .where(Timer.done_at.is_null(), Timer.due_at <= now, Timer.incident.not_in(list(failed)))
        .order_by(Timer.due_at)
        .limit(100)
    )
    return list(dict.fromkeys(row for (row,) in query.tuples()))


def _fire(incident_row: int, now: datetime | None) -> bool:
    """All due timers of one incident, in one transaction; False when our own code failed on it.

    A timer that cannot be decided must not stop the others: it stays due and is tried at each pass.
    """
    fired: list[tuple[str, float]] = []
    try:
        with store().writing():
            channels = _decide(incident_row, now or store().now(), fired)
    except STORE_ERRORS:
        raise
    except Exception:
        log.exception("a timer failed", incident=incident_row)
        return False
    for kind, late_s in fired:
        metrics.count_timer(kind, late_s)
    bell.ring_deliveries(channels)
    return True


def _decide(incident_row: int, now: datetime, fired: list[tuple[str, float]]) -> set[int]:
    """The channels with something to send; `fired` gets each timer's kind and its lateness in seconds."""
    found = lock_incident(incident_row, at=now)
    channels: set[int] = set()
    if found is None:
        return channels
    for timer in _due_of(incident_row, now):
        outcome, effects = due.decide(TimerKind(timer.kind), found, now, timer.key)
        rows = {found.incident.unique_id: incident_row}
        channels |= apply(Outcome(effects=list(effects)), rows).channels
        _finish(timer, outcome, now)
        fired.append((timer.kind, (now - timer.due_at).total_seconds()))
        found = lock_incident(incident_row, at=now) or found
    return channels


def _due_of(incident_row: int, now: datetime) -> list[Timer]:
    """Read under the lock: another worker may have been here meanwhile."""
    query = Timer.select().where(Timer.incident == incident_row, Timer.done_at.is_null(), Timer.due_at <= now)
    return list(query.order_by(Timer.due_at, Timer.id))


def _finish(timer: Timer, outcome: str, now: datetime) -> None:
    """Done, unless the decision moved it to a later moment. Lateness is measured (design, section 6)."""
    late_ms = int((now - timer.due_at).total_seconds() * 1000)
    query = Timer.update(done_at=now, outcome=f"{outcome} ({late_ms} ms late)")
    query.where(Timer.id == timer.id, Timer.due_at <= now).execute()
    log.info("timer fired", kind=timer.kind, outcome=outcome, late_ms=late_ms)


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
