"""Measure the backlog, and store and list the signs of life of all processes on all hosts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import peewee

from models.domain.channels import DELIVERY_CHANNELS
from models.domain.enums import AttemptOutcome, WorkState
from models.reports import dead_letters
from models.store import bulk
from models.store.fields import Table
from models.tables.accounts import Liveness
from models.tables.events import Event, Receipt
from models.tables.notifications import Attempt, Message
from models.tables.outbound import OutboundDelivery, OutboundTarget
from models.tables.timers import Timer


@dataclass(frozen=True, slots=True)
class Overdue:
    """The number of overdue rows, and since when the oldest is due (None: there are none)."""

    count: int = 0
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class UnsentMessages(Overdue):
    """Overdue messages of a channel.

    `since` ignores messages whose first attempt failed while other messages were sent: then the recipient is
    the cause, not the channel. `failed` counts the messages that failed since the last sent one, without
    those that the recipient refused permanently.
    """

    failed: int = 0


@dataclass(frozen=True, slots=True)
class Backlog:
    """The pending work.

    - `received`: pending bodies. `in_pipeline`: alerts that are pending after a queue split.
    - `lanes`: the number of services and routers with pending bodies or alerts.
    - `oldest`: since when the oldest body or alert is pending. Only the first one of each lane is read.
    - `timers` and `messages`: overdue ones; messages by channel.
    - `outbound`: deliveries of outbound integrations that are due. A target that failed is not due before its
      next attempt.
    """

    received: int
    in_pipeline: int
    lanes: int
    oldest: datetime | None
    dead_letters: int
    timers: Overdue
    messages: Mapping[int, UnsentMessages] = field(default_factory=dict)
    outbound: Overdue = Overdue()


# A literal and not a parameter: otherwise SQLite does not use the partial indexes of pending rows.
_PENDING = peewee.SQL(str(int(WorkState.PENDING)))


def measure_backlog(now: datetime) -> Backlog:
    """Measure the backlog. Uses partial indexes of pending rows, and reads only the first row of a lane."""
    received = _count_lanes(Receipt, Receipt.service, Receipt.id)
    routed = _count_lanes(Receipt, Receipt.router, Receipt.id)
    in_pipeline = _count_lanes(Event, Event.service, Event.receipt)
    services = {lane.owner for lane in (*received, *in_pipeline)} - {None}
    first_receipts = sorted(lane.first for lane in (*received, *routed) if lane.owner is not None)
    since = [
        moment for moment in (_find_oldest_body(first_receipts), _find_oldest_alert()) if moment is not None
    ]
    return Backlog(
        received=sum(lane.size for lane in received),
        in_pipeline=sum(lane.size for lane in in_pipeline),
        lanes=len(services) + len(routed),
        oldest=min(since, default=None),
        dead_letters=dead_letters.count(),
        timers=_count_overdue_timers(now),
        messages={int(channel): _count_unsent(channel, now) for channel in DELIVERY_CHANNELS},
        outbound=_count_due_outbound(now),
    )


class _Lane(NamedTuple):
    """The number of pending rows of a service or router, and their first receipt.

    `owner` None: rows without an owner of this kind.
    """

    owner: int | None
    size: int
    first: int


def _count_lanes(table: type[Table], owner: peewee.Field, receipt: peewee.Field) -> list[_Lane]:
    query = table.select(owner, peewee.fn.COUNT(receipt), peewee.fn.MIN(receipt))
    pending = table.state == _PENDING
    if owner is Receipt.router:
        pending &= owner.is_null(False)
    return [_Lane(*row) for row in query.where(pending).group_by(owner).tuples()]


# Lanes whose first body is read, oldest first: a statement has a limited number of parameters.
MAX_LANES = 1_000


def _find_oldest_body(first_receipts: list[int]) -> datetime | None:
    """Return since when the oldest body is pending; a replayed body counts from its replay."""
    since = peewee.fn.MIN(peewee.fn.COALESCE(Receipt.replayed_at, Receipt.received_at))
    return _read_moment(
        Receipt.received_at, Receipt.select(since).where(Receipt.id.in_(first_receipts[:MAX_LANES]))
    )


def _find_oldest_alert() -> datetime | None:
    pending = Event.alias()
    heads = (
        pending.select(pending.service, peewee.fn.MIN(pending.receipt).alias("head"))
        .where(pending.state == _PENDING)
        .group_by(pending.service)
        .alias("heads")
    )
    first = (Event.service == heads.c.service_id) & (Event.receipt == heads.c.head)
    query = Event.select(peewee.fn.MIN(Event.creation_date)).join(heads, on=first)
    return _read_moment(Event.creation_date, query.where(Event.state == _PENDING))


def _count_overdue_timers(now: datetime) -> Overdue:
    overdue = Timer.select(peewee.fn.COUNT(Timer.id), peewee.fn.MIN(Timer.due_at)).where(
        Timer.done_at.is_null(), Timer.due_at <= now
    )
    ((count, since),) = overdue.tuples()
    return Overdue(count, Timer.due_at.python_value(since))


def _count_due_outbound(now: datetime) -> Overdue:
    """Count the due deliveries of outbound integrations, and find since when the oldest is due."""
    due_at, retry_at = OutboundDelivery.next_attempt_at, OutboundTarget.retry_at
    since = peewee.Case(None, [(retry_at > due_at, retry_at)], due_at)
    query = OutboundDelivery.select(peewee.fn.COUNT(OutboundDelivery.id), peewee.fn.MIN(since))
    due = query.join(OutboundTarget).where(
        OutboundDelivery.state == peewee.SQL("0"), due_at <= now, retry_at.is_null() | (retry_at <= now)
    )
    ((count, oldest),) = due.tuples()
    return Overdue(count, due_at.python_value(oldest))


# Longer than any retry delay and hold (schedules/timers/retries.py).
MAX_RETRY_DELAY = timedelta(hours=1)
# Earlier than any stored time.
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _count_unsent(channel: int, now: datetime) -> UnsentMessages:
    """Count the overdue messages of a channel.

    A message is overdue since its due time or, after an attempt, since its first attempt: each attempt
    changes the due time.
    """
    sent_at = _find_last_sent(channel)
    first = Message.first_attempt_at
    since = peewee.fn.MIN(peewee.fn.COALESCE(first, Message.next_attempt_at))
    pending = Message.select(
        peewee.fn.COUNT(Message.id), since.filter(first.is_null() | (first > sent_at))
    ).where(
        Message.state == peewee.SQL("0"),
        Message.channel == channel,
        Message.next_attempt_at <= now + MAX_RETRY_DELAY,
        (Message.next_attempt_at <= now) | first.is_null(False),
    )
    ((count, oldest),) = pending.tuples()
    return UnsentMessages(
        count, Message.next_attempt_at.python_value(oldest), _count_failed(channel, sent_at)
    )


def _find_last_sent(channel: int) -> datetime:
    last = Message.select(peewee.fn.MAX(Message.done_at))
    sent = (Message.state == peewee.SQL("1")) & (Message.channel == channel)
    return _read_moment(Message.done_at, last.where(sent)) or EPOCH


def _count_failed(channel: int, moment: datetime) -> int:
    """Count the messages that failed after this time, without refused ones.

    A refused address is not a failure of the mail relay: the address may be misspelled.
    """
    refused = Attempt.select().where(
        Attempt.message == Message.id, Attempt.outcome == AttemptOutcome.REFUSED.value
    )
    failed = (Message.state == peewee.SQL("3")) & (Message.channel == channel) & (Message.done_at > moment)
    count: int = Message.select().where(failed, ~peewee.fn.EXISTS(refused)).count()
    return count


def _read_moment(column: peewee.Field, query: peewee.BaseQuery) -> datetime | None:
    ((value,),) = query.tuples()
    found: datetime | None = column.python_value(value)
    return found


# Three periods of liveness: a killed process counts as live until then.
DEAD_AFTER = timedelta(seconds=45)
# A killed process does not delete its row. By this time, its missing sign of life was reported.
FORGET_AFTER = timedelta(hours=1)
# Liveness is written every 15 s, or a little later. A longer gap means that the database was unavailable or
# that the clock was changed. The process may have taken no pings in this gap.
LATE_AFTER = timedelta(seconds=25)
# A row with a time further in the future was written before the clock was set back.
MAX_SKEW = timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class ProcessLiveness:
    """The liveness of one process. `row` is its unique name.

    `seen_at` is its last sign of life. Since `unbroken_since`, no sign of life was late. `settings` are its
    settings by variable, without values of secrets.
    """

    kind: str
    row: str
    started_at: datetime
    seen_at: datetime = EPOCH
    unbroken_since: datetime = EPOCH
    settings: Mapping[str, object] = field(default_factory=dict)


def record_liveness(liveness: ProcessLiveness, now: datetime) -> None:
    """Record a sign of life, and delete rows older than FORGET_AFTER. Needs a write transaction."""
    last = Liveness.get_or_none(Liveness.process == liveness.row)
    is_unbroken = last is not None and abs(now - last.at) <= LATE_AFTER
    bulk.insert(
        Liveness,
        [
            {
                "process": liveness.row,
                "at": now,
                "detail": {
                    "kind": liveness.kind,
                    "since": liveness.started_at,
                    "unbroken_since": last.detail["unbroken_since"] if is_unbroken else now,
                    "settings": liveness.settings,
                },
            }
        ],
        conflict=["process"],
        replacing=["at", "detail"],
    )
    Liveness.delete().where(_is_process(), Liveness.at < now - FORGET_AFTER).execute()


def remove_future(now: datetime) -> None:
    """Delete the rows that were written before the clock was set back. Needs a write transaction."""
    Liveness.delete().where(_is_process(), Liveness.at > now + MAX_SKEW).execute()


def remove_process(liveness: ProcessLiveness) -> None:
    """Delete the row of a process that stops normally. Needs a write transaction."""
    Liveness.delete().where(Liveness.process == liveness.row).execute()


def list_live(now: datetime) -> list[ProcessLiveness]:
    """Return the processes with a sign of life within DEAD_AFTER."""
    return _load_processes(_is_process(), Liveness.at >= now - DEAD_AFTER)


def has_live(kind: str, now: datetime) -> bool:
    """Return whether a process of this kind had a sign of life within DEAD_AFTER."""
    is_kind = Liveness.process.startswith(f"{kind}:")
    found: bool = Liveness.select().where(is_kind, Liveness.at >= now - DEAD_AFTER).exists()
    return found


def list_recent(kind: str, now: datetime) -> list[ProcessLiveness]:
    """Return the processes of a kind that did not stop normally, if seen within FORGET_AFTER."""
    return _load_processes(Liveness.process.startswith(f"{kind}:"), Liveness.at <= now + MAX_SKEW)


def _load_processes(*conditions: peewee.Expression) -> list[ProcessLiveness]:
    return [
        ProcessLiveness(
            row.detail["kind"],
            row.process,
            datetime.fromisoformat(row.detail["since"]),
            row.at,
            datetime.fromisoformat(row.detail["unbroken_since"]),
            row.detail["settings"],
        )
        for row in Liveness.select().where(*conditions)
    ]


def _is_process() -> peewee.Expression:
    """Return the condition for rows of processes.

    The table also has rows by kind, of the clock process and the probe; their names have no colon.
    """
    return Liveness.process.contains(":")
