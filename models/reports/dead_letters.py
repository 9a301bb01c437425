"""List dead letters (invariant 9, design, section 2). The module models/write/change_dead_letters.py replays
and drops them.

A dead letter is a Receipt (a whole body that Tocsin could not process) or an Event (one alert of a body).
Users see one `id`: the trace_id of a body, the unique_id of an alert.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import peewee

from models.domain.enums import WorkState
from models.domain.reasons import Reason, make_reason
from models.store.fields import Table
from models.tables.events import Event, Receipt, list_reasons
from models.tables.routers import GlobalRouter
from models.tables.services import Integration, Service

# A literal and not a parameter: otherwise SQLite does not use the partial indexes of dead letters.
_DEAD_LETTER = peewee.SQL(str(int(WorkState.DEAD_LETTER)))


class Key(NamedTuple):
    """Identifies a dead letter. `receipt` and `position` give the order of acceptance."""

    is_alert: bool
    row: int
    receipt: int
    position: int


class ObjectRef(NamedTuple):
    unique_id: str
    name: str


class Step(NamedTuple):
    """The reason of a stage for an alert before it became a dead letter."""

    stage: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Scope:
    """Limits for a list of dead letters; None: no limit.

    `teams` is a query of team rows; it leaves out dead letters of deleted services. `service` and
    `integration` are a unique_id or a name.
    """

    account: int | None = None
    teams: peewee.ModelSelect | None = None
    service: str | None = None
    integration: str | None = None


EVERYTHING = Scope()


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter with its service, integration and router; deleted ones are None.

    `size` is the size of the body in bytes. `error` is the class of the error and the stage, or the reason
    why the alert was not processed. `position` and `message` are None for a body.
    """

    key: Key
    id: str
    trace_id: str
    account: int
    team: int | None
    error: Reason
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


def count() -> int:
    """Return the number of dead letters in the whole installation."""
    bodies, alerts = (_select(table, EVERYTHING).count() for table in (Receipt, Event))
    return int(bodies + alerts)


def list_keys(scope: Scope = EVERYTHING) -> list[Key]:
    """Return the keys of all dead letters within a scope, in the order of acceptance."""
    return [Key(*row) for row in select_keys(scope)]


def select_keys(scope: Scope = EVERYTHING, *, newest_first: bool = False) -> peewee.ModelCompoundSelectQuery:
    """Return a query in the order of acceptance; each of its tuples is the content of a Key."""
    bodies = _select(Receipt, scope).select(peewee.SQL("0"), Receipt.id, Receipt.id, peewee.SQL("-1"))
    alerts = _select(Event, scope).select(peewee.SQL("1"), Event.id, Event.receipt, Event.position)
    direction = "DESC" if newest_first else "ASC"
    return (
        bodies.union_all(alerts).order_by(peewee.SQL(f"3 {direction}, 4 {direction}, 2 {direction}")).tuples()
    )


def find_keys(reference: str) -> list[Key]:
    """Return the dead letters with this trace_id (body or alerts), or the alert with this unique_id."""
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
    """Return the dead letter with this id, or None."""
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
    """Load the dead letters of these keys in their order, in a constant number of statements."""
    rows: dict[tuple[bool, int], DeadLetter] = {}
    rows.update({(False, row.id): _build_body(row) for row in _load_bodies(filter_rows(keys, False))})
    rows.update({(True, row.id): _build_alert(row) for row in _load_alerts(filter_rows(keys, True))})
    return [rows[key.is_alert, key.row] for key in keys if (key.is_alert, key.row) in rows]


def load_body(trace_id: str) -> bytes:
    """Return the body as its sender sent it."""
    (body,) = Receipt.select(Receipt.body).where(Receipt.trace_id == trace_id).tuples().get()
    return bytes(body)


def filter_rows(keys: Sequence[Key], is_alert: bool) -> list[int]:
    """Return the row numbers of the alerts among these keys, or of the whole bodies."""
    return [key.row for key in keys if bool(key.is_alert) == is_alert]


Row = TypeVar("Row", bound=Table)


def _select(table: type[Row], scope: Scope) -> "peewee.ModelSelect[Row]":
    """Return a query for the dead letters in this table, within a scope."""
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


def _load_bodies(rows: list[int]) -> "peewee.ModelSelect[Receipt]":
    query = Receipt.select(*_BODY_COLUMNS, *_OWNER_COLUMNS, *_ROUTER_COLUMNS)
    for owner in (Service, Integration, GlobalRouter):
        query = query.switch(Receipt).join(owner, peewee.JOIN.LEFT_OUTER)
    return query.where(Receipt.id.in_(rows))


def _load_alerts(rows: list[int]) -> "peewee.ModelSelect[Event]":
    query = Event.select(*_ALERT_COLUMNS, *_BODY_COLUMNS, *_OWNER_COLUMNS, *_ROUTER_COLUMNS).join(Receipt)
    query = query.join(GlobalRouter, peewee.JOIN.LEFT_OUTER)
    for owner in (Service, Integration):
        query = query.switch(Event).join(owner, peewee.JOIN.LEFT_OUTER)
    return query.where(Event.id.in_(rows))


def _build_body(row: Receipt) -> DeadLetter:
    return DeadLetter(
        key=Key(False, row.id, row.id, -1),
        id=row.trace_id,
        error=row.error or make_reason("unknown_error"),
        accepted_at=row.received_at,
        **_build_common(row, row),
    )


def _build_alert(row: Event) -> DeadLetter:
    return DeadLetter(
        key=Key(True, row.id, row.receipt_id, row.position),
        id=row.unique_id,
        error=row.error or make_reason("unknown_error"),
        accepted_at=row.creation_date,
        position=row.position,
        message=row.message,
        stages=tuple(Step(*each) for each in list_reasons(row)),
        **_build_common(row, row.receipt),
    )


def _build_common(row: Receipt | Event, receipt: Receipt) -> dict[str, Any]:
    """Return the fields that a body and an alert have in common."""
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


def _build_ref(row: Service | Integration | GlobalRouter | None) -> ObjectRef | None:
    return ObjectRef(row.unique_id, row.name) if row else None
