"""Due timers: take them, decide again from what is true now, write; and ring for what falls due.

A timer is marked done in the transaction of its effects, so one that was taken by a killed worker is
simply due again.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import peewee
import structlog

from models.apply import apply
from models.base import STORE_ERRORS, connection, store
from models.effects import ArmTimers, Outcome
from models.enums import IncidentStatus, MessageState, TimerKind, WorkState
from models.events import Event, Receipt
from models.incidents import Incident
from models.loading import lock_incident, lock_service, open_incidents_after, service_surroundings
from models.notices import Message
from models.timers import Timer
from schedules import due
from schedules.timers import wanted
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
    try:
        with store().writing():
            channels = _decide(incident_row, now or store().now())
    except STORE_ERRORS:
        raise
    except Exception:
        log.exception("a timer failed", incident=incident_row)
        return False
    for channel in channels:
        bell.ring_deliver(channel)
    return True


def _decide(incident_row: int, now: datetime) -> set[int]:
    found = lock_incident(incident_row)
    channels: set[int] = set()
    if found is None:
        return channels
    for timer in _due_of(incident_row, now):
        outcome, effects = due.decide(
            TimerKind(timer.kind), found.incident, found.service, found.directory, now
        )
        channels |= apply(Outcome(effects=list(effects))).channels
        _finish(timer, outcome, now)
        found = lock_incident(incident_row) or found
    return channels


def _due_of(incident_row: int, now: datetime) -> list[Timer]:
    """Read under the lock: another worker may have been here meanwhile."""
    query = Timer.select().where(Timer.incident == incident_row, Timer.done_at.is_null(), Timer.due_at <= now)
    return list(query.order_by(Timer.due_at))


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
    for channel in ringing:
        bell.ring_deliver(channel)


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
    for service_row, stage in lanes:
        if service_row is not None:
            bell.ring_road(service_row, stage)


# Incidents that the audit looks at in one transaction.
AUDITED_AT_ONCE = 200


def audit(now: datetime | None = None) -> int:
    """Make every open incident's timers what they should be; returns how many incidents were looked at.

    Finds what a change of a policy or a service moved, and would mend a timer that was never written. A
    service on which our own code fails keeps none of the others from it.
    """
    looked_at = 0
    with connection():
        open_ones = Incident.select(Incident.service).where(Incident.status < IncidentStatus.RESOLVED)
        services = [row for (row,) in open_ones.distinct().tuples() if row is not None]
        for service_row in services:
            try:
                looked_at += _audit_service(service_row, now)
            except STORE_ERRORS:
                raise
            except Exception:
                log.exception("a service's timers could not be audited", service=service_row)
    return looked_at


def _audit_service(service_row: int, now: datetime | None) -> int:
    looked_at, last = 0, 0
    while rows := _audit_some(service_row, last, now):
        looked_at += len(rows)
        last = rows[-1]
    return looked_at


def _audit_some(service_row: int, after: int, now: datetime | None) -> list[int]:
    with store().writing():
        lock_service(service_row)
        found = open_incidents_after(service_row, after, AUDITED_AT_ONCE)
        policies = {one.escalation_policy for one in found if one.escalation_policy}
        around = service_surroundings(service_row, policies)
        if around is None:
            return []
        service, directory = around
        at = now or store().now()
        effects = [
            ArmTimers(one.unique_id, wanted(one, service, directory), at, "planned anew by the audit")
            for one in found
        ]
        rows = {one.unique_id: one.row for one in found if one.row is not None}
        apply(Outcome(effects=list(effects)), rows)
    return list(rows.values())


# How long the road of an alert can be told (contract, section 6).
RETENTION = timedelta(days=30)
# Receipts forgotten in one transaction: about a tenth of a second of the store's lock.
FORGOTTEN_AT_ONCE = 1_000


def clean_up(now: datetime | None = None) -> int:
    """Forget receipts older than the retention, with their events; returns how many.

    What still waits, was set aside, or belongs to an open incident stays. Receipts are read in the
    order of their acceptance, so the first young one ends the search.
    """
    forgotten, last = 0, 0
    with connection():
        before = (now or store().now()) - RETENTION
        while old := _old_receipts(last, before):
            last = old[-1]
            forgotten += _forget(old)
    return forgotten


def _old_receipts(after: int, before: datetime) -> list[int]:
    query = Receipt.select(Receipt.id, Receipt.received_at).where(Receipt.id > after)
    found = query.order_by(Receipt.id).limit(FORGOTTEN_AT_ONCE).tuples()
    return [row for row, received_at in found if received_at < before]


def _forget(receipts: list[int]) -> int:
    kept = (
        Event.select(Event.receipt)
        .join(Incident, peewee.JOIN.LEFT_OUTER)
        .where(
            Event.receipt.in_(receipts),
            (Event.state != WorkState.DONE) | (Incident.status < IncidentStatus.RESOLVED),
        )
    )
    with store().writing():
        query = Receipt.delete().where(
            Receipt.id.in_(receipts), Receipt.state == WorkState.DONE, Receipt.id.not_in(kept)
        )
        return int(query.execute())
