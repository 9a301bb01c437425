"""What was set aside with its error (law 9): told, taken up again, or dropped by those whom it concerns.

A whole body that could not be worked on is a Receipt, a single alert of one an Event. Outside they go by
one `id`: the trace_id of a body, the unique_id of an alert. What is taken up again waits in its lane; whoever
calls `replay` rings there afterwards.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import peewee

from models.domain.enums import WorkState
from models.store import bulk
from models.store.base import store
from models.tables.events import Event, Receipt
from models.tables.routers import GlobalRouter
from models.tables.services import Integration, Service

# Changed in one transaction: a fraction of a second of the lanes' locks.
CHANGE_BATCH = 500

# Spelled out, not a parameter: SQLite uses the indexes of what is set aside only then.
_DEAD_LETTER = peewee.SQL(str(int(WorkState.DEAD_LETTER)))


# How the error of a body begins that was dropped.
DROPPED = "dropped: "


class Key(NamedTuple):
    """Names a row, without reading it. `receipt` and `position` give the order of acceptance."""

    is_alert: bool
    row: int
    receipt: int
    position: int


class ObjectRef(NamedTuple):
    unique_id: str
    name: str


class Step(NamedTuple):
    """What a stage said of an alert before it was set aside."""

    stage: str
    reason: str


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose, of all that is set aside: None sets no limit.

    `teams` is a query of team rows; what has no service any more is nobody's but the account's. `service`
    and `integration` are a unique_id or a name.
    """

    account: int | None = None
    teams: Any = None
    service: str | None = None
    integration: str | None = None


EVERYTHING = Scope()


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One body or alert, with what it belongs to as far as that still exists. `size` is the body's, in bytes.

    `error` is the class of the error and the stage, or why nobody worked on it. `position` and `message` are
    an alert's only.
    """

    key: Key
    id: str
    trace_id: str
    account: int
    team: int | None
    error: str
    source: str
    size: int
    alerts: int
    accepted_at: datetime
    service: ObjectRef | None
    integration: ObjectRef | None
    router: ObjectRef | None
    position: int | None = None
    message: str | None = None
    stages: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """What one transaction changed. `orphans` stay aside: what they belonged to was deleted.

    `lanes` are services, each with the stage at which something waits now (None: before the first);
    `routers` likewise.
    """

    ids: tuple[str, ...] = ()
    ownerless: int = 0
    lanes: frozenset[tuple[int, str | None]] = frozenset()
    routers: frozenset[int] = frozenset()


def count() -> int:
    """How many bodies and alerts are set aside in the whole installation."""
    bodies, alerts = (_select(table, EVERYTHING).count() for table in (Receipt, Event))
    return int(bodies + alerts)


def list_keys(scope: Scope = EVERYTHING) -> list[Key]:
    """All that is set aside within a scope, in the order of acceptance."""
    return [Key(*row) for row in select_keys(scope)]


def select_keys(scope: Scope = EVERYTHING, *, newest_first: bool = False) -> Any:
    """A query in the order of acceptance; each of its tuples makes a Key."""
    bodies = _select(Receipt, scope).select(peewee.SQL("0"), Receipt.id, Receipt.id, peewee.SQL("-1"))
    alerts = _select(Event, scope).select(peewee.SQL("1"), Event.id, Event.receipt, Event.position)
    direction = "DESC" if newest_first else "ASC"
    return (
        bodies.union_all(alerts).order_by(peewee.SQL(f"3 {direction}, 4 {direction}, 2 {direction}")).tuples()
    )


def find_keys(reference: str) -> list[Key]:
    """What is set aside of a trace_id (its body, or alerts of it), or the alert with this unique_id."""
    bodies = _select(Receipt, EVERYTHING).where(Receipt.trace_id == reference)
    receipt = Receipt.select(Receipt.id).where(Receipt.trace_id == reference)
    named = (Event.unique_id == reference) | (Event.receipt.in_(receipt))
    alerts = (
        Event.select().where(Event.state == WorkState.DEAD_LETTER, named).order_by(Event.position, Event.id)
    )
    return [
        *(Key(False, row.id, row.id, -1) for row in bodies.select(Receipt.id)),
        *(
            Key(True, row.id, row.receipt_id, row.position)
            for row in alerts.select(Event.id, Event.receipt, Event.position)
        ),
    ]


def find(identity: str) -> DeadLetter | None:
    """The one with this id, or None."""
    body = Receipt.select(Receipt.id).where(
        Receipt.trace_id == identity, Receipt.state == WorkState.DEAD_LETTER
    )
    alert = Event.select(Event.id, Event.receipt, Event.position).where(
        Event.unique_id == identity, Event.state == WorkState.DEAD_LETTER
    )
    found = [Key(False, row.id, row.id, -1) for row in body]
    found = found or [Key(True, row.id, row.receipt_id, row.position) for row in alert]
    return next(iter(load_all(found)), None)


def load_all(keys: Sequence[Key]) -> list[DeadLetter]:
    """What these keys name, in their order; a constant number of statements."""
    rows: dict[tuple[bool, int], DeadLetter] = {}
    rows.update({(False, row.id): _build_body(row) for row in _load_bodies(_filter_rows(keys, False))})
    rows.update({(True, row.id): _build_alert(row) for row in _load_alerts(_filter_rows(keys, True))})
    return [rows[key.is_alert, key.row] for key in keys if (key.is_alert, key.row) in rows]


def load_body(trace_id: str) -> bytes:
    """The body as its sender sent it."""
    (body,) = Receipt.select(Receipt.body).where(Receipt.trace_id == trace_id).tuples().get()
    return bytes(body)


def split_keys(keys: Sequence[Key]) -> Iterator[Sequence[Key]]:
    """Many keys, cut into what one transaction may change."""
    for start in range(0, len(keys), CHANGE_BATCH):
        yield keys[start : start + CHANGE_BATCH]


def replay(keys: Sequence[Key], actor: str) -> ChangeResult:
    """Have those that are still set aside worked on again, as if accepted now. One transaction."""
    with store().write_transaction():
        bodies, alerts = _lock_rows(keys)
        at = store().now()
        replayed_bodies = [row for row in bodies if row.router_id or (row.service_id and row.integration_id)]
        replayed_alerts = [row for row in alerts if row.service_id and row.integration_id]
        pending = {"state": WorkState.PENDING, "error": None}
        bulk.update(Receipt, [{"id": row.id, **pending, "replayed_at": at} for row in replayed_bodies])
        bulk.update(
            Event,
            [
                {
                    "id": row.id,
                    **pending,
                    "creation_date": at,
                    "reasons": [*row.reasons, _build_step(row, actor)],
                }
                for row in replayed_alerts
            ],
        )
    return ChangeResult(
        ids=_list_ids(replayed_bodies, replayed_alerts),
        ownerless=len(bodies) + len(alerts) - len(replayed_bodies) - len(replayed_alerts),
        lanes=frozenset(
            [(row.service_id, None) for row in replayed_bodies if row.service_id]
            + [(row.service_id, row.stage) for row in replayed_alerts]
        ),
        routers=frozenset(row.router_id for row in replayed_bodies if row.router_id),
    )


def _build_step(row: Event, actor: str) -> list[str]:
    return ["replay", f"taken up again by {actor}; it was set aside: {row.error}"]


def drop(keys: Sequence[Key], actor: str) -> ChangeResult:
    """Have those that are still set aside worked on no more; the recorder still tells them. In one go."""
    with store().write_transaction():
        bodies, alerts = _lock_rows(keys)
        done = {"state": WorkState.DONE}
        bulk.update(
            Receipt, [{"id": row.id, **done, "error": f"{DROPPED}{row.error}, by {actor}"} for row in bodies]
        )
        bulk.update(
            Event,
            [
                {
                    "id": row.id,
                    **done,
                    "stage": "",
                    "reasons": [*row.reasons, ["aside", f"dropped by {actor}"]],
                }
                for row in alerts
            ],
        )
    return ChangeResult(ids=_list_ids(bodies, alerts))


def _list_ids(bodies: list[Receipt], alerts: list[Event]) -> tuple[str, ...]:
    return (*(row.trace_id for row in bodies), *(row.unique_id for row in alerts))


def _lock_rows(keys: Sequence[Key]) -> tuple[list[Receipt], list[Event]]:
    """The rows that are still set aside, under the locks of their lanes: only one of two gets them.

    Routers before services, each in ascending order, as everybody locks them.
    """
    bodies = Receipt.select(
        Receipt.id, Receipt.trace_id, Receipt.service, Receipt.integration, Receipt.router, Receipt.error
    ).where(Receipt.id.in_(_filter_rows(keys, False)), Receipt.state == WorkState.DEAD_LETTER)
    alerts = Event.select(
        Event.id, Event.unique_id, Event.service, Event.integration, Event.stage, Event.error, Event.reasons
    ).where(Event.id.in_(_filter_rows(keys, True)), Event.state == WorkState.DEAD_LETTER)
    affected = [*bodies.clone(), *alerts.clone()]
    _lock(GlobalRouter, {row.router_id for row in affected if isinstance(row, Receipt)})
    _lock(Service, {row.service_id for row in affected})
    return (
        list(store().for_update(bodies.order_by(Receipt.id))),
        list(store().for_update(alerts.order_by(Event.id))),
    )


def _lock(table: Any, rows: set[int | None]) -> None:
    query = table.select(table.id).where(table.id.in_([row for row in rows if row is not None]))
    list(store().for_update(query.order_by(table.id)))


def _filter_rows(keys: Sequence[Key], is_alert: bool) -> list[int]:
    return [key.row for key in keys if bool(key.is_alert) == is_alert]


def _select(table: Any, scope: Scope) -> Any:
    """What is set aside of this table, within a scope."""
    query = table.select().where(table.state == _DEAD_LETTER)
    if scope.account is not None:
        owned = Receipt.account == scope.account
        query = (query.join(Receipt) if table is Event else query).where(owned)
    if scope.teams is not None:
        query = query.where(
            table.service.in_(Service.select(Service.id).where(Service.team.in_(scope.teams)))
        )
    for field, owner, name in (
        (table.service, Service, scope.service),
        (table.integration, Integration, scope.integration),
    ):
        if name is not None:
            named = (owner.unique_id == name) | (owner.name == name)
            query = query.where(field.in_(owner.select(owner.id).where(named)))
    return query


# Without the body, which may be 8 MiB.
_BODY_COLUMNS = (
    Receipt.id, Receipt.trace_id, Receipt.account, Receipt.error, Receipt.source, Receipt.alerts,
    Receipt.received_at, peewee.fn.LENGTH(Receipt.body).alias("size"),
)  # fmt: skip
_ALERT_COLUMNS = (
    Event.id, Event.unique_id, Event.receipt, Event.position, Event.message, Event.reasons, Event.error,
    Event.creation_date,
)  # fmt: skip
_OWNER_COLUMNS = (
    Service.id, Service.unique_id, Service.name, Service.team, Integration.id, Integration.unique_id,
    Integration.name,
)  # fmt: skip
_ROUTER_COLUMNS = (GlobalRouter.id, GlobalRouter.unique_id, GlobalRouter.name)


def _load_bodies(rows: list[int]) -> Any:
    query = Receipt.select(*_BODY_COLUMNS, *_OWNER_COLUMNS, *_ROUTER_COLUMNS)
    for owner in (Service, Integration, GlobalRouter):
        query = query.switch(Receipt).join(owner, peewee.JOIN.LEFT_OUTER)
    return query.where(Receipt.id.in_(rows))


def _load_alerts(rows: list[int]) -> Any:
    query = Event.select(*_ALERT_COLUMNS, *_BODY_COLUMNS, *_OWNER_COLUMNS, *_ROUTER_COLUMNS).join(Receipt)
    query = query.join(GlobalRouter, peewee.JOIN.LEFT_OUTER)
    for owner in (Service, Integration):
        query = query.switch(Event).join(owner, peewee.JOIN.LEFT_OUTER)
    return query.where(Event.id.in_(rows))


def _build_body(row: Receipt) -> DeadLetter:
    return DeadLetter(
        key=Key(False, row.id, row.id, -1),
        id=row.trace_id,
        error=row.error or "set aside",
        accepted_at=row.received_at,
        **_build_common(row, row),
    )


def _build_alert(row: Event) -> DeadLetter:
    return DeadLetter(
        key=Key(True, row.id, row.receipt_id, row.position),
        id=row.unique_id,
        error=row.error or "set aside",
        accepted_at=row.creation_date,
        position=row.position,
        message=row.message,
        stages=tuple(Step(stage, reason) for stage, reason in row.reasons),
        **_build_common(row, row.receipt),
    )


def _build_common(row: Any, receipt: Any) -> dict[str, Any]:
    """What a body and an alert have in common: what they came in, and what they belong to."""
    return {
        "trace_id": receipt.trace_id,
        "account": receipt.account_id,
        "team": row.service.team_id if row.service else None,
        "source": receipt.source,
        "size": row.size,
        "alerts": receipt.alerts,
        "service": _build_ref(row.service),
        "integration": _build_ref(row.integration),
        "router": _build_ref(receipt.router),
    }


def _build_ref(row: Any) -> ObjectRef | None:
    return ObjectRef(row.unique_id, row.name) if row else None
