"""What waited for a service, an integration or a router that was deleted meanwhile: set aside, and told.

Nobody says any more whom it should reach, or what it means. Where its service is left, that service's people
are told; what has lost even that is listed (`tocsin dead-letters`), counted and logged.
"""

from dataclasses import dataclass
from typing import Any

import peewee
import structlog

from models.domain.enums import WorkState
from models.load.lane import lock_service
from models.store.base import store
from models.tables.events import Event, Receipt
from workers import queue
from workers.alerts import dead_letter_incidents

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class LostOwner:
    """`lost` picks the rows of a table that have lost `owner`; `told` when their service is left."""

    table: Any
    owner: str
    condition: Any
    has_service: bool = False


LOST_OWNERS = (
    LostOwner(
        Receipt,
        "service or router",
        Receipt.router.is_null() & Receipt.service.is_null() & Receipt.integration.is_null(),
    ),
    LostOwner(
        Receipt,
        "integration",
        Receipt.service.is_null(False) & Receipt.integration.is_null(),
        has_service=True,
    ),
    LostOwner(Event, "service", Event.service.is_null()),
    LostOwner(
        Event, "integration", Event.service.is_null(False) & Event.integration.is_null(), has_service=True
    ),
)


def collect_dead_letters() -> None:
    """Set aside all of it, and tell whom there is to tell."""
    for owner_lost in LOST_OWNERS:
        pending = (owner_lost.table.state == WorkState.PENDING) & owner_lost.condition
        if not owner_lost.table.select().where(pending).exists():
            continue
        if owner_lost.has_service:
            for (service,) in (
                owner_lost.table.select(owner_lost.table.service).where(pending).distinct().tuples()
            ):
                _collect_of_service(service, owner_lost, pending & (owner_lost.table.service == service))
        else:
            with store().write_transaction():
                count = _mark_dead_letters(owner_lost, pending)
            log.error("alerts are set aside, and nobody is left to tell", owner=owner_lost.owner, count=count)


def _mark_dead_letters(owner_lost: LostOwner, pending: Any) -> int:
    query = owner_lost.table.update(state=WorkState.DEAD_LETTER, error=f"its {owner_lost.owner} was deleted")
    return int(query.where(pending).execute())


def _collect_of_service(service_row: int, owner_lost: LostOwner, pending: Any) -> None:
    with store().write_transaction():
        service = lock_service(service_row)
        first = owner_lost.table.select(peewee.fn.MIN(owner_lost.table.id)).where(pending).scalar()
        count = _mark_dead_letters(owner_lost, pending)
        if service is None or not count:
            return
        name = f"{owner_lost.table._meta.table_name} {first}"
        channels = dead_letter_incidents.report_deleted_integration(service, name, count, store().now())
    queue.enqueue_deliveries(channels)
