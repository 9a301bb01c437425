"""Replay and drop dead letters. workers/alerts/ creates them, models/reports/dead_letters.py lists them.

A replayed dead letter is pending in its lane; the caller of `replay` enqueues the lane afterwards.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from models.domain.enums import WorkState
from models.domain.reasons import Reason, make_reason
from models.reports.dead_letters import Key, filter_rows
from models.store import bulk
from models.store.fields import Table
from models.store.store import store
from models.tables.events import Event, Receipt
from models.tables.routers import GlobalRouter
from models.tables.services import Service

# Dead letters that one transaction changes, so that it holds the locks of lanes for less than a second.
CHANGE_BATCH = 500


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """What one transaction changed.

    - `ids`: the changed dead letters.
    - `owner_deleted`: the number of dead letters that were not replayed, because their service, integration
      or router was deleted.
    - `lanes`: services with replayed dead letters, and the next stage (None: before the first stage).
    - `routers`: routers with replayed dead letters.
    """

    ids: tuple[str, ...] = ()
    owner_deleted: int = 0
    lanes: frozenset[tuple[int, str | None]] = frozenset()
    routers: frozenset[int] = frozenset()


def split_keys(keys: Sequence[Key]) -> Iterator[Sequence[Key]]:
    """Split keys into batches of at most CHANGE_BATCH, one for each transaction."""
    for start in range(0, len(keys), CHANGE_BATCH):
        yield keys[start : start + CHANGE_BATCH]


def replay(keys: Sequence[Key], author: str) -> ChangeResult:
    """Make these dead letters pending again, as if accepted now. Skip rows with another state."""
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
                    "reasons": [*row.reasons, _build_step(row, author)],
                }
                for row in replayed_alerts
            ],
        )
    return ChangeResult(
        ids=_list_ids(replayed_bodies, replayed_alerts),
        owner_deleted=len(bodies) + len(alerts) - len(replayed_bodies) - len(replayed_alerts),
        lanes=frozenset(
            [(row.service_id, None) for row in replayed_bodies if row.service_id]
            + [(row.service_id, row.stage) for row in replayed_alerts]
        ),
        routers=frozenset(row.router_id for row in replayed_bodies if row.router_id),
    )


def _build_step(row: Event, author: str) -> tuple[str, Reason]:
    return "replay", make_reason("replayed", by=author, error=row.error)


def drop(keys: Sequence[Key], author: str) -> ChangeResult:
    """Drop these dead letters; the alert trace still shows them. Skip rows with another state."""
    with store().write_transaction():
        bodies, alerts = _lock_rows(keys)
        done = {"state": WorkState.DONE}
        bulk.update(
            Receipt,
            [
                {
                    "id": row.id,
                    **done,
                    "error": _build_dropped(row, author),
                }
                for row in bodies
            ],
        )
        bulk.update(
            Event,
            [
                {
                    "id": row.id,
                    **done,
                    "stage": "",
                    "reasons": [*row.reasons, ["drop", make_reason("dropped", by=author)]],
                }
                for row in alerts
            ],
        )
    return ChangeResult(ids=_list_ids(bodies, alerts))


def _build_dropped(row: Receipt, author: str) -> Reason:
    return make_reason("dead_letter_dropped", by=author, error=row.error)


def _list_ids(bodies: list[Receipt], alerts: list[Event]) -> tuple[str, ...]:
    return (*(row.trace_id for row in bodies), *(row.unique_id for row in alerts))


def _lock_rows(keys: Sequence[Key]) -> tuple[list[Receipt], list[Event]]:
    """Lock the lanes, then return the rows that are still dead letters. Only one of two callers gets a row.

    Routers are locked before services, each in ascending order, as everywhere.
    """
    bodies = Receipt.select(
        Receipt.id, Receipt.trace_id, Receipt.service, Receipt.integration, Receipt.router, Receipt.error
    ).where(Receipt.id.in_(filter_rows(keys, False)), Receipt.state == WorkState.DEAD_LETTER)
    alerts = Event.select(
        Event.id, Event.unique_id, Event.service, Event.integration, Event.stage, Event.error, Event.reasons
    ).where(Event.id.in_(filter_rows(keys, True)), Event.state == WorkState.DEAD_LETTER)
    affected = [*bodies.clone(), *alerts.clone()]
    _lock(GlobalRouter, {row.router_id for row in affected if isinstance(row, Receipt)})
    _lock(Service, {row.service_id for row in affected})
    return (
        list(store().for_update(bodies.order_by(Receipt.id))),
        list(store().for_update(alerts.order_by(Event.id))),
    )


def _lock(table: type[Table], rows: set[int | None]) -> None:
    query = table.select(table.id).where(table.id.in_([row for row in rows if row is not None]))
    list(store().for_update(query.order_by(table.id)))
