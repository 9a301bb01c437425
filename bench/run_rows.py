"""Read the rows of a run from the instance's tables, and compare them with the accepted alerts."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain

from peewee import fn

from bench.load import Accepted
from models.domain.enums import IncidentStatus, NotificationKind, NotificationStatus, WorkState
from models.store.base import Table, connection, db
from models.tables.events import Entity, Event, Receipt
from models.tables.incidents import Incident
from models.tables.notifications import Message, Notification

# Number of faults of each kind that are shown.
MAX_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Baseline:
    """The newest rows before a run. Newer rows belong to the run."""

    receipt: int
    incident: int
    notification: int


def take_baseline() -> Baseline:
    with connection():
        return Baseline(*(_get_newest_id(table) for table in (Receipt, Incident, Notification)))


def _get_newest_id(table: type[Table]) -> int:
    newest = table.select(table.id).order_by(table.id.desc()).limit(1).scalar()
    return int(newest or 0)


def has_pending() -> bool:
    """Return whether a receipt, an event or a message is pending. The query is cheap."""
    with connection():
        return any(
            db.execute_sql(f'select 1 from "{table}" where state = 0 limit 1').fetchone()
            for table in ("receipt", "event", "message")
        )


def count_pending_alerts() -> int:
    """Return the number of pending alerts."""
    with connection():
        return int(
            Receipt.select(fn.SUM(Receipt.alerts)).where(Receipt.state == WorkState.PENDING).scalar() or 0
        )


@dataclass(slots=True)
class RunRows:
    """The rows of a run. `arrivals` has the arrival times of messages; None without a sink.

    `receipts` has row and state of each receipt, by its trace_id and by the unique_id of its alerts.
    """

    receipts: Mapping[str, tuple[int, int]]
    events: Mapping[int, list[tuple[str, int]]]
    opened: Mapping[str, list[int]]
    opening_receipts: Mapping[int, int]
    open_incidents: frozenset[int]
    entity_incidents: Mapping[str, int | None]
    notifications: Mapping[int, list[tuple[int, str]]]
    sent_at: Mapping[str, float | None]
    arrivals: Mapping[str, list[float]] | None = None
    faults: list[str] = field(default_factory=list)

    def first_sent_at(self, incident: int) -> float | None:
        """Return when the first message of an incident arrived in the sink, or was accepted by the relay."""
        moments = (self._get_message_sent_at(message) for _, message in self.notifications.get(incident, ()))
        return min((moment for moment in moments if moment is not None), default=None)

    def list_latencies_ms(self, accepted: Iterable[Accepted]) -> Iterator[float]:
        """Yield the times from the 2xx of the alert that opened an incident to its mail.

        If the mail arrives before the answer, the time is 0.
        """
        answered = {self.receipts[request.alert_id][0]: request.at for request in accepted}
        for incident, receipt in self.opening_receipts.items():
            first_sent_at = self.first_sent_at(incident)
            if first_sent_at is not None and receipt in answered:
                yield max(first_sent_at - answered[receipt], 0.0) * 1000

    def _get_message_sent_at(self, message: str) -> float | None:
        if self.arrivals is None:
            return self.sent_at.get(message)
        return min(self.arrivals.get(message, ()), default=None)

    def find_faults(self, accepted: Sequence[Accepted]) -> list[str]:
        """Return the faults as text; empty if every accepted alert was stored and notified once."""
        entities = {name for request in accepted for name in request.entities}
        self._add_fault("accepted alerts are not processed", self._list_unprocessed(accepted))
        self._add_fault("entities do not have exactly one open incident", self._list_wrong_entities(entities))
        self._add_fault(
            "incidents without exactly one notification in exactly one mail", self._list_unnotified()
        )
        return self.faults

    def _add_fault(self, text: str, examples: Iterable[str]) -> None:
        found = list(examples)
        if found:
            self.faults.append(f"{len(found)} {text}, such as {', '.join(found[:MAX_EXAMPLES])}")

    def _list_unprocessed(self, accepted: Sequence[Accepted]) -> Iterator[str]:
        for request in accepted:
            row, state = self.receipts.get(request.alert_id, (0, -1))
            events = self.events.get(row, [])
            is_complete = Counter(entity for entity, _ in events) == Counter(request.entities)
            done = state == WorkState.DONE and all(state == WorkState.DONE for _, state in events)
            if not (is_complete and done):
                yield request.alert_id

    def _list_wrong_entities(self, entities: set[str]) -> Iterator[str]:
        for name in entities:
            opened = [incident for incident in self.opened.get(name, ()) if incident in self.open_incidents]
            if len(opened) != 1 or self.entity_incidents.get(name) != opened[0]:
                yield name

    def _list_unnotified(self) -> Iterator[str]:
        for incidents in self.opened.values():
            for incident in incidents:
                states = [state for state, _ in self.notifications.get(incident, ())]
                mails = [message for _, message in self.notifications.get(incident, ())]
                is_sent_once = self.arrivals is None or all(len(self.arrivals.get(m, ())) == 1 for m in mails)
                if states != [NotificationStatus.SENT] or not is_sent_once:
                    yield f"incident row {incident}"


def load_run(since: Baseline, run: str, arrivals: Mapping[str, list[float]] | None) -> RunRows:
    """Load the rows of a run with few statements, without the mails that say that an incident is resolved.

    All its entities begin with its name; "" means all rows.
    """
    with connection():
        events, opened, opening_receipts = _load_events(since, run)
        receipts = Receipt.select(Receipt.trace_id, Receipt.id, Receipt.state).where(
            Receipt.id > since.receipt
        )
        by_alert = (
            Event.select(Event.unique_id, Receipt.id, Receipt.state)
            .join(Receipt)
            .where(Receipt.id > since.receipt)
        )
        still_open = Incident.select(Incident.id).where(
            Incident.id > since.incident, Incident.status < IncidentStatus.RESOLVED
        )
        entity_incidents = Entity.select(Entity.entity_id, Entity.incident).where(
            Entity.entity_id.startswith(f"{run}-")
        )
        notifications, sent_at = _load_notifications(since, opening_receipts)
        return RunRows(
            receipts={name: (row, state) for name, row, state in chain(receipts.tuples(), by_alert.tuples())},
            events=events,
            opened=opened,
            opening_receipts=opening_receipts,
            open_incidents=frozenset(row for (row,) in still_open.tuples()),
            entity_incidents=dict(entity_incidents.tuples()),
            notifications=notifications,
            sent_at=sent_at,
            arrivals=arrivals,
        )


def _load_events(
    since: Baseline, run: str
) -> tuple[dict[int, list[tuple[str, int]]], dict[str, list[int]], dict[int, int]]:
    events: dict[int, list[tuple[str, int]]] = defaultdict(list)
    opened: dict[str, list[int]] = defaultdict(list)
    opening_receipts: dict[int, int] = {}
    query = Event.select(
        Event.receipt, Event.entity_id, Event.state, Event.incident, Event.incident_created
    ).where(Event.receipt > since.receipt, Event.entity_id.startswith(f"{run}-" if run else ""))
    for receipt, entity, state, incident, created in query.tuples().iterator():
        events[receipt].append((entity, state))
        if created:
            opened[entity].append(incident)
            opening_receipts[incident] = receipt
    return events, opened, opening_receipts


def _load_notifications(
    since: Baseline, incidents: Container[int]
) -> tuple[dict[int, list[tuple[int, str]]], dict[str, float | None]]:
    notifications: dict[int, list[tuple[int, str]]] = defaultdict(list)
    sent_at: dict[str, float | None] = {}
    query = (
        Notification.select(Notification.incident, Notification.state, Message.message_id, Message.done_at)
        .join(Message)
        .where(Notification.id > since.notification, Notification.kind != NotificationKind.RECOVERY)
    )
    for incident, state, message, done_at in query.tuples().iterator():
        if incident not in incidents:
            continue
        notifications[incident].append((state, message))
        sent_at[message] = _to_seconds(done_at)
    return notifications, sent_at


def _to_seconds(moment: datetime | None) -> float | None:
    return moment.astimezone(UTC).timestamp() if moment else None
