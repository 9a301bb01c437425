"""Release deferred alerts that are still firing when the maintenance of their service ends.

While a service is under maintenance, its alerts are stored and open no incident. For each entity, the last
alert that would have notified people is stored. When the maintenance ends, for any reason, these alerts
become pending again, with the end of the maintenance as their time. The worker of the lane then
decides on them as on new alerts.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

import dramatiq
import peewee
import structlog

from models.domain.enums import ServiceStatus, WorkState
from models.domain.facts import WindowFacts
from models.load.lane import lock_service
from models.load.maintenance import load_windows
from models.store import bulk
from models.store.fields import Table
from models.store.prepared import Prepared, bind
from models.store.store import STORE_ERRORS, connection, store
from models.tables.events import Entity, Event, Receipt
from models.tables.services import Integration, Service
from models.tables.teams import Team
from pipeline.stages import dedupe
from pipeline.topology import AFTER_MAINTENANCE
from schedules.maintenance import find_in_force
from workers.alerts import lane_actors
from workers.broker import broker
from workers.lane_turns import turns

log = structlog.get_logger()

# Alerts that are released in one transaction.
BATCH_SIZE = 100
# If alerts are pending for longer than this, nothing is released yet: one may resolve a deferred alert.
MAX_BACKLOG_AGE = timedelta(seconds=1)


def enqueue_ended() -> None:
    """Enqueue the release if a service has deferred alerts and is not under maintenance."""
    with connection():
        any_ended = bool(_list_ended_services(store().now()))
    if any_ended:
        end_maintenance.send()


@dramatiq.actor(broker=broker, queue_name="maintenance", actor_name="maintenance")
def end_maintenance() -> None:
    """Release deferred alerts. One thread of this process at a time does this."""
    if turns.work("maintenance", release_deferred):
        end_maintenance.send()


def release_deferred(now: datetime | None = None) -> int:
    """Make deferred alerts pending where maintenance has ended. Return the number of alerts."""
    released = 0
    for service_row in _list_ended_services(now or store().now()):
        try:
            released += _release_service(service_row, now)
        except STORE_ERRORS:
            raise
        except Exception:
            log.exception("deferred alerts could not be released", service=service_row)
    return released


def _list_ended_services(at: datetime) -> list[int]:
    """List the services that have deferred alerts and are not under maintenance."""
    has_deferred = Integration.id.in_(
        Entity.select(Entity.integration).where(Entity.deferred_alert.is_null(False))
    )
    query = Integration.select(Integration.service).join(Service).where(has_deferred, _is_active()).distinct()
    services = [row for (row,) in query.tuples()]
    windows = load_windows(services, at)
    return [row for row in services if _has_ended(row, windows.get(row, ()), at)]


def _has_ended(service_row: int, windows: Iterable[WindowFacts], at: datetime) -> bool:
    """Return whether no maintenance window of a service is in force.

    Return False if that cannot be calculated, so that such a service does not stop the others.
    """
    try:
        return find_in_force(windows, at) is None
    except Exception:
        log.exception("maintenance windows could not be evaluated", service=service_row)
        return False


def _is_active() -> peewee.Expression:
    """Build the condition for services that are neither disabled nor under maintenance without an end."""
    return (Service.status != ServiceStatus.DISABLED) & ~Service.under_maintenance


def _release_service(service_row: int, now: datetime | None) -> int:
    if _has_backlog(service_row, (now or store().now()) - MAX_BACKLOG_AGE):
        return 0
    released = 0
    try:
        while count := _release_batch(service_row, now):
            released += count
    finally:
        # Enqueue only after all alerts are pending: then they are in one batch and share messages.
        if released:
            lane_actors.send(service_row, AFTER_MAINTENANCE)
    return released


def _has_backlog(service_row: int, before: datetime) -> bool:
    """Return whether older alerts are pending, in this lane or in a lane of the account's routers."""
    return any(query.first(service=service_row, before=before) for query in _BACKLOG_QUERIES)


def _build_first_query(
    table: type[Table], accepted_at: peewee.Field, where: Callable[[], peewee.Expression]
) -> Prepared:
    """Build the query for the first row of a table that is pending since before a time."""
    is_pending = table.state == WorkState.PENDING
    return Prepared(
        lambda: table.select(table.id).where(where(), is_pending, accepted_at < bind("before")).limit(1)
    )


def _select_account() -> peewee.ModelSelect:
    return Team.select(Team.account).join(Service).where(Service.id == bind("service"))


_BACKLOG_QUERIES = (
    _build_first_query(Receipt, Receipt.received_at, lambda: Receipt.service == bind("service")),
    _build_first_query(Event, Event.creation_date, lambda: Event.service == bind("service")),
    _build_first_query(
        Receipt,
        Receipt.received_at,
        lambda: Receipt.router.is_null(False) & (Receipt.account == _select_account()),
    ),
)


def _release_batch(service_row: int, now: datetime | None) -> int:
    """Release some deferred alerts of a service, under its lock. Return the number of entities; 0 if none."""
    with store().write_transaction():
        service = lock_service(service_row)
        at = now or store().now()
        if service is None or service.status == ServiceStatus.DISABLED or service.under_maintenance:
            return 0
        if find_in_force(load_windows([service_row], at).get(service_row, ()), at) is not None:
            return 0
        deferred = _list_deferred(service_row)
        if deferred:
            _requeue(deferred.values(), at)
            Entity.update(deferred_alert=None).where(Entity.id.in_(list(deferred))).execute()
    return len(deferred)


def _list_deferred(service_row: int) -> dict[int, str]:
    """Return the deferred alerts of a service, by the row of their entity."""
    integrations = Integration.select(Integration.id).where(Integration.service == service_row)
    query = Entity.select(Entity.id, Entity.deferred_alert).where(
        Entity.deferred_alert.is_null(False), Entity.integration.in_(integrations)
    )
    return dict(query.order_by(Entity.id).limit(BATCH_SIZE).tuples())


def _requeue(events: Iterable[str], at: datetime) -> None:
    query = Event.select(Event.id, Event.alert, Event.reasons).where(
        Event.unique_id.in_(list(events)), Event.state == WorkState.DONE
    )
    pending = {"state": WorkState.PENDING, "stage": AFTER_MAINTENANCE, "suppressed": False}
    bulk.update(
        Event,
        [
            {
                "id": row.id,
                **pending,
                "alert": {**row.alert, "released_at": at},
                "reasons": [*row.reasons, dedupe.build_release_reason(at)],
            }
            for row in query
        ],
    )
