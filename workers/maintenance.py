"""What maintenance kept back, and still burns when it is over, is told then.

While a service is under maintenance its alerts are stored only, and entities remember the last one of which
people would have been told. As soon as it is over, however that came about, these alerts wait in the
service's lane again, as of that moment; what is decided about them is decided there, as of any other.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

import structlog

from models import bulk
from models.base import STORE_ERRORS, connection, store
from models.enums import ServiceStatus, WorkState
from models.events import Entity, Event, Receipt
from models.facts import WindowFacts
from models.loading import lock_service
from models.prepared import Prepared, given
from models.services import Integration, Service
from models.teams import Team
from models.windows import windows_of
from pipeline.stages import dedupe
from pipeline.topology import AFTER_MAINTENANCE
from schedules.windows import in_force
from workers import bell

log = structlog.get_logger()

# Alerts that are released in one transaction.
RELEASED_AT_ONCE = 100
# What has waited in a lane for longer than this may say that something burns no more, and is heard first.
HEARD_WITHIN = timedelta(seconds=1)


def ring_over() -> None:
    """The clock's tick: ring when something was kept back that no maintenance keeps any more."""
    with connection():
        is_over = bool(_services_over(store().now()))
    if is_over:
        bell.ring_maintenance()


def release(now: datetime | None = None) -> int:
    """Have what was kept back wait in its lanes again where maintenance is over; returns how many alerts."""
    released = 0
    with connection():
        for service_row in _services_over(now or store().now()):
            try:
                released += _release_of(service_row, now)
            except STORE_ERRORS:
                raise
            except Exception:
                log.exception("what maintenance kept back could not be released", service=service_row)
    return released


def _services_over(at: datetime) -> list[int]:
    """Services with something kept back that are not under maintenance."""
    keeping = Integration.id.in_(Entity.select(Entity.integration).where(Entity.kept_back.is_null(False)))
    query = Integration.select(Integration.service).join(Service).where(keeping, _is_on()).distinct()
    services = [row for (row,) in query.tuples()]
    windows = windows_of(services, at)
    return [row for row in services if _is_over(row, windows.get(row, ()), at)]


def _is_over(service_row: int, windows: Iterable[WindowFacts], at: datetime) -> bool:
    """Whether none of a service's windows holds; one of which that cannot be told keeps none of the others
    waiting."""
    try:
        return in_force(windows, at) is None
    except Exception:
        log.exception("whether maintenance is over could not be told", service=service_row)
        return False


def _is_on() -> Any:
    """Neither disabled nor under maintenance until somebody says otherwise."""
    return (Service.status != ServiceStatus.DISABLED) & ~Service.under_maintenance


def _release_of(service_row: int, now: datetime | None) -> int:
    if _is_behind(service_row, (now or store().now()) - HEARD_WITHIN):
        return 0
    released = 0
    try:
        while some := _release_some(service_row, now):
            released += some
    finally:
        # Not before all of it waits: what is taken together is told together.
        if released:
            bell.ring_road(service_row, AFTER_MAINTENANCE)
    return released


def _is_behind(service_row: int, before: datetime) -> bool:
    """Whether alerts that came before a moment still wait, here or at one of the account's routers."""
    return any(waiting.first(service=service_row, before=before) for waiting in _BEFORE)


def _first(table: Any, came: Any, where: Callable[[], Any]) -> Prepared:
    """The first of a table that waits since before a moment."""
    waits = table.state == WorkState.WAITING
    return Prepared(lambda: table.select(table.id).where(where(), waits, came < given("before")).limit(1))


def _account() -> Any:
    return Team.select(Team.account).join(Service).where(Service.id == given("service"))


_BEFORE = (
    _first(Receipt, Receipt.received_at, lambda: Receipt.service == given("service")),
    _first(Event, Event.creation_date, lambda: Event.service == given("service")),
    _first(
        Receipt,
        Receipt.received_at,
        lambda: Receipt.router.is_null(False) & (Receipt.account == _account()),
    ),
)


def _release_some(service_row: int, now: datetime | None) -> int:
    """Some of what a service's entities keep, under its lock; 0 when that is none, or none any more."""
    with store().writing():
        service = lock_service(service_row)
        at = now or store().now()
        if service is None or service.status == ServiceStatus.DISABLED or service.under_maintenance:
            return 0
        if in_force(windows_of([service_row], at).get(service_row, ()), at) is not None:
            return 0
        kept = _kept_by(service_row)
        if kept:
            _wait_again(kept.values(), at)
            Entity.update(kept_back=None).where(Entity.id.in_(list(kept))).execute()
    return len(kept)


def _kept_by(service_row: int) -> dict[int, str]:
    """Entities of a service, by row, with the alerts that they keep."""
    integrations = Integration.select(Integration.id).where(Integration.service == service_row)
    query = Entity.select(Entity.id, Entity.kept_back).where(
        Entity.kept_back.is_null(False), Entity.integration.in_(integrations)
    )
    return dict(query.order_by(Entity.id).limit(RELEASED_AT_ONCE).tuples())


def _wait_again(events: Iterable[str], at: datetime) -> None:
    query = Event.select(Event.id, Event.alert, Event.reasons).where(
        Event.unique_id.in_(list(events)), Event.state == WorkState.DONE
    )
    waiting = {"state": WorkState.WAITING, "stage": AFTER_MAINTENANCE, "suppressed": False}
    bulk.update(
        Event,
        [
            {
                "id": row.id,
                **waiting,
                "alert": {**row.alert, "released_at": at},
                "reasons": [*row.reasons, dedupe.released(at)],
            }
            for row in query
        ],
    )
