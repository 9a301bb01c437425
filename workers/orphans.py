"""What waited for a service, an integration or a router that was deleted meanwhile: set aside, and told.

Nobody says any more whom it should reach, or what it means. Where its service is left, that service's people
are told; what has lost even that is listed (`tocsin aside`), counted and logged.
"""

from dataclasses import dataclass
from typing import Any

import peewee
import structlog

from models.base import store
from models.enums import WorkState
from models.events import Event, Receipt
from models.loading import lock_service
from workers import bell, telling

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Loss:
    """`lost` picks the rows of a table that have lost `owner`; `told` when their service is left."""

    table: Any
    owner: str
    lost: Any
    told: bool = False


LOSSES = (
    Loss(
        Receipt,
        "service or router",
        Receipt.router.is_null() & Receipt.service.is_null() & Receipt.integration.is_null(),
    ),
    Loss(Receipt, "integration", Receipt.service.is_null(False) & Receipt.integration.is_null(), told=True),
    Loss(Event, "service", Event.service.is_null()),
    Loss(Event, "integration", Event.service.is_null(False) & Event.integration.is_null(), told=True),
)


def abandon() -> None:
    """Set aside all of it, and tell whom there is to tell."""
    for loss in LOSSES:
        waiting = (loss.table.state == WorkState.WAITING) & loss.lost
        if not loss.table.select().where(waiting).exists():
            continue
        if loss.told:
            for (service,) in loss.table.select(loss.table.service).where(waiting).distinct().tuples():
                _abandon_of(service, loss, waiting & (loss.table.service == service))
        else:
            with store().writing():
                count = _set_aside(loss, waiting)
            log.error("alerts are set aside, and nobody is left to tell", lost=loss.owner, count=count)


def _set_aside(loss: Loss, waiting: Any) -> int:
    gone = loss.table.update(state=WorkState.ASIDE, error=f"its {loss.owner} was deleted")
    return int(gone.where(waiting).execute())


def _abandon_of(service_row: int, loss: Loss, waiting: Any) -> None:
    with store().writing():
        service = lock_service(service_row)
        first = loss.table.select(peewee.fn.MIN(loss.table.id)).where(waiting).scalar()
        count = _set_aside(loss, waiting)
        if service is None or not count:
            return
        name = f"{loss.table._meta.table_name} {first}"
        channels = telling.tell_lost(service, name, count, store().now())
    bell.ring_deliveries(channels)
