"""What the instance's own tables say of a run, and whether that is what was accepted."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from peewee import fn

from bench.load import Accepted
from models.base import Table, connection, db
from models.enums import IncidentStatus, NoticeState, WorkState
from models.events import Entity, Event, Receipt
from models.incidents import Incident
from models.notices import Message, Notice

# How many of each kind of fault are told.
SHOWN = 5
PART = 500


@dataclass(frozen=True, slots=True)
class Mark:
    """The newest rows before a run: what is newer belongs to it."""

    receipt: int
    incident: int
    notice: int


def mark() -> Mark:
    with connection():
        return Mark(*(_newest(table) for table in (Receipt, Incident, Notice)))


def _newest(table: type[Table]) -> int:
    newest = table.select(table.id).order_by(table.id.desc()).limit(1).scalar()
    return int(newest or 0)


def waiting() -> bool:
    """Whether a receipt, an event or a message is still to be dealt with; costs the store next to nothing."""
    with connection():
        return any(
            db.execute_sql(f'select 1 from "{table}" where state = 0 limit 1').fetchone()
            for table in ("receipt", "event", "message")
        )


def alerts_waiting() -> int:
    """Alerts that are accepted and not yet worked on."""
    with connection():
        return int(
            Receipt.select(fn.SUM(Receipt.alerts)).where(Receipt.state == WorkState.WAITING).scalar() or 0
        )


@dataclass(slots=True)
class Books:
    """Rows of one run. `arrivals` is when each message came to the sink, or None without a sink."""

    receipts: Mapping[str, tuple[int, int]]
    events: Mapping[int, list[tuple[str, int]]]
    opened: Mapping[str, list[int]]
    opened_by: Mapping[int, int]
    open_incidents: frozenset[int]
    held: Mapping[str, int | None]
    notices: Mapping[int, list[tuple[int, str]]]
    handed_over: Mapping[str, float | None]
    arrivals: Mapping[str, list[float]] | None = None
    faults: list[str] = field(default_factory=list)

    def told_at(self, incident: int) -> float | None:
        """When the first word of an incident was out: in the sink, or handed to the relay."""
        moments = (self._out_at(message) for _, message in self.notices.get(incident, ()))
        return min((moment for moment in moments if moment is not None), default=None)

    def notice_waits_ms(self, accepted: Iterable[Accepted]) -> Iterator[float]:
        """From the 2xx of the alert that opened an incident to its mail in the sink.

        A mail may overtake the answer on its way to the sender: that counts as no wait.
        """
        answered = {self.receipts[request.trace_id][0]: request.at for request in accepted}
        for incident, receipt in self.opened_by.items():
            told_at = self.told_at(incident)
            if told_at is not None and receipt in answered:
                yield max(told_at - answered[receipt], 0.0) * 1000

    def _out_at(self, message: str) -> float | None:
        if self.arrivals is None:
            return self.handed_over.get(message)
        return min(self.arrivals.get(message, ()), default=None)

    def check(self, accepted: Sequence[Accepted]) -> list[str]:
        """What is wrong, in words; nothing when every accepted alert was kept and told of once."""
        entities = {name for request in accepted for name in request.entities}
        self._tell("accepted alerts are not processed", self._unprocessed(accepted))
        self._tell("entities do not have exactly one open incident", self._not_one(entities))
        self._tell("incidents without exactly one notice in exactly one mail", self._untold())
        return self.faults

    def _tell(self, what: str, which: Iterable[str]) -> None:
        found = list(which)
        if found:
            self.faults.append(f"{len(found)} {what}, such as {', '.join(found[:SHOWN])}")

    def _unprocessed(self, accepted: Sequence[Accepted]) -> Iterator[str]:
        for request in accepted:
            row, state = self.receipts.get(request.trace_id, (0, -1))
            events = self.events.get(row, [])
            kept = Counter(entity for entity, _ in events) == Counter(request.entities)
            done = state == WorkState.DONE and all(state == WorkState.DONE for _, state in events)
            if not (kept and done):
                yield request.trace_id

    def _not_one(self, entities: set[str]) -> Iterator[str]:
        for name in entities:
            opened = [incident for incident in self.opened.get(name, ()) if incident in self.open_incidents]
            if len(opened) != 1 or self.held.get(name) != opened[0]:
                yield name

    def _untold(self) -> Iterator[str]:
        for incidents in self.opened.values():
            for incident in incidents:
                states = [state for state, _ in self.notices.get(incident, ())]
                mails = [message for _, message in self.notices.get(incident, ())]
                once = self.arrivals is None or all(len(self.arrivals.get(m, ())) == 1 for m in mails)
                if states != [NoticeState.SENT] or not once:
                    yield f"incident row {incident}"


def read(since: Mark, run: str, arrivals: Mapping[str, list[float]] | None) -> Books:
    """The rows of a run, in a handful of statements."""
    with connection():
        events, opened, opened_by = _events(since)
        receipts = Receipt.select(Receipt.trace_id, Receipt.id, Receipt.state).where(
            Receipt.id > since.receipt
        )
        still_open = Incident.select(Incident.id).where(
            Incident.id > since.incident, Incident.status < IncidentStatus.RESOLVED
        )
        held = Entity.select(Entity.entity_id, Entity.incident).where(Entity.entity_id.startswith(f"{run}-"))
        notices, handed_over = _notices(since)
        return Books(
            receipts={trace_id: (row, state) for trace_id, row, state in receipts.tuples()},
            events=events,
            opened=opened,
            opened_by=opened_by,
            open_incidents=frozenset(row for (row,) in still_open.tuples()),
            held=dict(held.tuples()),
            notices=notices,
            handed_over=handed_over,
            arrivals=arrivals,
        )


def _events(since: Mark) -> tuple[dict[int, list[tuple[str, int]]], dict[str, list[int]], dict[int, int]]:
    events: dict[int, list[tuple[str, int]]] = defaultdict(list)
    opened: dict[str, list[int]] = defaultdict(list)
    opened_by: dict[int, int] = {}
    query = Event.select(
        Event.receipt, Event.entity_id, Event.state, Event.incident, Event.incident_created
    ).where(Event.receipt > since.receipt)
    for receipt, entity, state, incident, created in query.tuples().iterator():
        events[receipt].append((entity, state))
        if created:
            opened[entity].append(incident)
            opened_by[incident] = receipt
    return events, opened, opened_by


def _notices(since: Mark) -> tuple[dict[int, list[tuple[int, str]]], dict[str, float | None]]:
    notices: dict[int, list[tuple[int, str]]] = defaultdict(list)
    handed_over: dict[str, float | None] = {}
    query = (
        Notice.select(Notice.incident, Notice.state, Message.message_id, Message.done_at)
        .join(Message)
        .where(Notice.id > since.notice)
    )
    for incident, state, message, done_at in query.tuples().iterator():
        notices[incident].append((state, message))
        handed_over[message] = _seconds(done_at)
    return notices, handed_over


def _seconds(moment: datetime | None) -> float | None:
    return moment.astimezone(UTC).timestamp() if moment else None
