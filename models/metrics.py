"""What all processes on all hosts have counted, kept where each of them can read it; and what waits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import peewee

from models import aside, bulk
from models.accounts import Heartbeat
from models.base import Table
from models.enums import DELIVERABLE, AttemptOutcome, WorkState
from models.events import Event, Receipt
from models.notices import Attempt, Message
from models.timers import Timer

# A series by its name and its labels, as JSON with sorted keys.
Series = tuple[str, str]


class Sample(Table):
    """One series of a counter or a histogram; `labels` is JSON with sorted keys. Values only grow."""

    name = peewee.CharField(max_length=80)
    labels = peewee.CharField(max_length=255)
    value = peewee.DoubleField(default=0)

    class Meta:
        indexes = ((("name", "labels"), True),)


def add(amounts: Mapping[Series, float]) -> None:
    """Add to what is kept, in one statement. In the same order everywhere, so that nobody waits in a ring."""
    records = [
        {"name": name, "labels": labels, "value": value} for (name, labels), value in sorted(amounts.items())
    ]
    bulk.insert(Sample, records, conflict=["name", "labels"], adding=["value"])


def totals() -> dict[Series, float]:
    """All that was ever counted."""
    query = Sample.select(Sample.name, Sample.labels, Sample.value).tuples()
    return {(name, labels): value for name, labels, value in query}


@dataclass(frozen=True, slots=True)
class Late:
    """How many wait, and since when the oldest does (None: nothing waits)."""

    count: int = 0
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Unsent(Late):
    """Messages of a channel that should be out. `since` passes over those that were tried in vain while
    others were sent: it is their recipients who do not take them. `failed` are those that were given up, or
    could not be tried, since the last one that was sent, without those that were refused for good.
    """

    failed: int = 0


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits now. `received` are bodies, `on_road` alerts behind a cut of the road; `lanes` are the
    services and routers that they wait for. Timers and messages count once they are due; the latter are by
    channel. `oldest` tells since when the first of its lane has waited, for the lane where that is longest.
    """

    received: int
    on_road: int
    lanes: int
    oldest: datetime | None
    aside: int
    timers: Late
    messages: Mapping[int, Unsent] = field(default_factory=dict)


# Spelled out, not a parameter: SQLite uses the indexes of what waits only then.
_WAITING = peewee.SQL(str(int(WorkState.WAITING)))


def backlog(now: datetime) -> Backlog:
    """By indexes that hold only what waits; of the rows behind these only the first of a lane is read."""
    received = _lanes(Receipt, Receipt.service, Receipt.id)
    routed = _lanes(Receipt, Receipt.router, Receipt.id)
    on_road = _lanes(Event, Event.service, Event.receipt)
    services = {lane.owner for lane in (*received, *on_road)} - {None}
    firsts = sorted(lane.first for lane in (*received, *routed) if lane.owner is not None)
    since = [moment for moment in (_oldest_body(firsts), _oldest_alert()) if moment is not None]
    return Backlog(
        received=sum(lane.many for lane in received),
        on_road=sum(lane.many for lane in on_road),
        lanes=len(services) + len(routed),
        oldest=min(since, default=None),
        aside=aside.count(),
        timers=_late_timers(now),
        messages={int(channel): _unsent(channel, now) for channel in sorted(DELIVERABLE)},
    )


class _Lane(NamedTuple):
    """What waits for a service or a router (None: for none of this kind), and the first receipt of it."""

    owner: int | None
    many: int
    first: int


def _lanes(table: Any, owner: peewee.Field, receipt: peewee.Field) -> list[_Lane]:
    query = table.select(owner, peewee.fn.COUNT(receipt), peewee.fn.MIN(receipt))
    waiting = table.state == _WAITING
    if owner is Receipt.router:
        waiting &= owner.is_null(False)
    return [_Lane(*row) for row in query.where(waiting).group_by(owner).tuples()]


# Lanes whose first body is looked at, beginning with what came first: a statement cannot name endlessly many.
MOST_FIRSTS = 1_000


def _oldest_body(firsts: list[int]) -> datetime | None:
    """One that was taken up again has waited since then."""
    since = peewee.fn.MIN(peewee.fn.COALESCE(Receipt.replayed_at, Receipt.received_at))
    return _moment(Receipt.received_at, Receipt.select(since).where(Receipt.id.in_(firsts[:MOST_FIRSTS])))


def _oldest_alert() -> datetime | None:
    waiting = Event.alias()
    heads = (
        waiting.select(waiting.service, peewee.fn.MIN(waiting.receipt).alias("head"))
        .where(waiting.state == _WAITING)
        .group_by(waiting.service)
        .alias("heads")
    )
    first = (Event.service == heads.c.service_id) & (Event.receipt == heads.c.head)
    query = Event.select(peewee.fn.MIN(Event.creation_date)).join(heads, on=first)
    return _moment(Event.creation_date, query.where(Event.state == _WAITING))


def _late_timers(now: datetime) -> Late:
    overdue = Timer.select(peewee.fn.COUNT(Timer.id), peewee.fn.MIN(Timer.due_at)).where(
        Timer.done_at.is_null(), Timer.due_at <= now
    )
    ((count, since),) = overdue.tuples()
    return Late(count, Timer.due_at.python_value(since))


# No message that is tried again waits for longer (schedules/retries.py has two minutes).
TRIED_AGAIN_WITHIN = timedelta(minutes=5)
# Earlier than anything.
NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def _unsent(channel: int, now: datetime) -> Unsent:
    """A message is late since it was due; once it was tried, since the first try: each one moves the next."""
    sent_at = _last_sent(channel)
    first = Message.first_tried_at
    since = peewee.fn.MIN(peewee.fn.COALESCE(first, Message.next_at))
    waiting = Message.select(
        peewee.fn.COUNT(Message.id), since.filter(first.is_null() | (first > sent_at))
    ).where(
        Message.state == peewee.SQL("0"),
        Message.channel == channel,
        Message.next_at <= now + TRIED_AGAIN_WITHIN,
        (Message.next_at <= now) | first.is_null(False),
    )
    ((count, oldest),) = waiting.tuples()
    return Unsent(count, Message.next_at.python_value(oldest), _failed_since(channel, sent_at))


def _last_sent(channel: int) -> datetime:
    last = Message.select(peewee.fn.MAX(Message.done_at))
    sent = (Message.state == peewee.SQL("1")) & (Message.channel == channel)
    return _moment(Message.done_at, last.where(sent)) or NEVER


def _failed_since(channel: int, moment: datetime) -> int:
    """That an address is refused tells nothing of the relay: it may be somebody's slip of the pen."""
    refused = Attempt.select().where(
        Attempt.message == Message.id, Attempt.outcome == AttemptOutcome.REFUSED.value
    )
    failed = (Message.state == peewee.SQL("3")) & (Message.channel == channel) & (Message.done_at > moment)
    count: int = Message.select().where(failed, ~peewee.fn.EXISTS(refused)).count()
    return count


def _moment(of: peewee.Field, query: Any) -> datetime | None:
    ((value,),) = query.tuples()
    found: datetime | None = of.python_value(value)
    return found


# Three signs of life: a process that was killed counts as living until then.
SILENT = timedelta(seconds=45)
# What was killed left its row behind; by then its silence was told.
FORGOTTEN = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Life:
    """One process of a kind, from its start on, with its last sign of life, where it gave one. `row` names it
    among all of its kind."""

    kind: str
    row: str
    started_at: datetime
    beat_at: datetime | None = None


def beat(life: Life, now: datetime) -> None:
    """A sign of life; forgets those that have been silent for long. Inside a write transaction."""
    bulk.insert(
        Heartbeat,
        [{"process": life.row, "at": now, "detail": {"kind": life.kind, "since": life.started_at}}],
        conflict=["process"],
        replacing=["at", "detail"],
    )
    Heartbeat.delete().where(_of_processes(), Heartbeat.at < now - FORGOTTEN).execute()


def leave(life: Life) -> None:
    """It ends in order. Inside a write transaction."""
    Heartbeat.delete().where(Heartbeat.process == life.row).execute()


def living(now: datetime) -> list[Life]:
    """The processes that gave a sign of life lately."""
    return _lives(_of_processes(), Heartbeat.at >= now - SILENT)


def known(kind: str) -> list[Life]:
    """The processes of a kind that gave a sign of life within the hour, and did not end in order."""
    return _lives(Heartbeat.process.startswith(f"{kind}:"))


def _lives(*which: Any) -> list[Life]:
    query = Heartbeat.select().where(*which)
    return [
        Life(row.detail["kind"], row.process, datetime.fromisoformat(row.detail["since"]), row.at)
        for row in query
    ]


def _of_processes() -> Any:
    """The table holds signs of life by their kind too: the clock's and the probe's, without a colon."""
    return Heartbeat.process.contains(":")
