"""Pings that did not come: a moment has passed by which an integration should have had one (decision 0017).

That one is missing is an alert like any other, accepted from Tocsin itself and worked on in its lane. It is
said once for each time that passes without one, and never of pings that Tocsin could not take, or has taken
and not looked at.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import peewee
import structlog

from models.domain.enums import IntegrationType, ServiceStatus, WorkState
from models.store import bulk
from models.store.base import STORE_ERRORS, connection, store
from models.store.bulk import Record
from models.store.ids import derive_uuid
from models.store.prepared import Prepared, in_bound, in_list
from models.tables.events import Event, Receipt
from models.tables.services import Integration, Service
from models.tables.teams import Team
from pipeline.sources import heartbeat
from schedules.outages import Expectation, Observation, extend_deadline
from workers import queue
from workers.periodic import outages

log = structlog.get_logger()

# Services whose missing pings are said in one transaction.
BATCH_SIZE = 100


def enqueue_overdue(now: datetime | None = None) -> None:
    """The clock's tick: look, and ring when a ping is overdue. Waits for no lane."""
    with connection():
        found = _find_overdue(now)
    if found is not None and found[2]:
        queue.enqueue_heartbeats()


def report_missing(now: datetime | None = None) -> int:
    """Say of each integration whose ping is overdue that it is missing; returns of how many.

    Any process may do so, at any time; all of them together say it once. A service that somebody else works
    on is left for the next look.
    """
    with connection():
        found = _find_overdue(now)
        if found is None:
            return 0
        at, seen, overdue = found
        batches = (overdue[start : start + BATCH_SIZE] for start in range(0, len(overdue), BATCH_SIZE))
        return sum(_report_services(services, seen, at) for services in batches)


def _find_overdue(now: datetime | None) -> tuple[datetime, Observation, list[int]] | None:
    """The moment, what is known of pings by then, and the services with some that are overdue. None where
    none is expected, or may be missed."""
    if not Integration.select().where(Integration.expected_at.is_null(False)).exists():
        outages.stop_watching()
        return None
    at = now or store().now()
    seen = outages.check_availability(at)
    return None if seen is None else (at, seen, _list_overdue_services(at))


def _report_services(services: Sequence[int], seen: Observation, now: datetime) -> int:
    """One service that fails keeps none of the others waiting; the next look looks again."""
    try:
        return _report_locked(services, seen, now)
    except STORE_ERRORS:
        raise
    except Exception:
        if len(services) == 1:
            log.exception("a missing ping could not be told", service=services[0])
            return 0
    return sum(_report_services([service], seen, now) for service in services)


def _list_overdue_services(now: datetime) -> list[int]:
    """The services of those whose ping has not come; what a disabled one's waits for is said when it is not
    any more."""
    query = Integration.select(Integration.service).join(Service).where(_is_overdue(now), _IS_ACTIVE)
    # Put in order here: SQLite would read all integrations in the order of their services.
    return sorted({row for (row,) in query.tuples()})


_IS_ACTIVE = Service.status != ServiceStatus.DISABLED


def _is_overdue(now: datetime) -> Any:
    """A condition on integrations. One that is closed takes no pings, so that none is missing."""
    return (
        (Integration.expected_at <= now)
        & Integration.is_enabled
        & (Integration.integration_type == IntegrationType.ALERT)
    )


# Those of these services that nobody works on. A lane that hangs must not keep pings of others unsaid.
_FREE = Prepared(
    lambda: store().for_update(
        Service.select(Service.id).where(in_bound(Service.id, "services"), _IS_ACTIVE).order_by(Service.id),
        skip_locked=True,
    )
)


def _report_locked(services: Collection[int], seen: Observation, now: datetime) -> int:
    """All of some services, under their locks: who comes second finds nothing any more."""
    with store().write_transaction():
        free = [row for (row,) in _FREE.rows(services=services)]
        overdue = Integration.select().where(in_list(Integration.service, free), _is_overdue(now))
        silent = _find_silent([row for row in overdue if _build_expectation(row).due_at <= seen.until], free)
        excused = {
            row.id: at for row, _ in silent if (at := extend_deadline(_build_expectation(row), seen.outages))
        }
        missing = [(row, account) for row, account in silent if row.id not in excused]
        bulk.insert(Receipt, [_build_receipt(row, account, now) for row, account in missing])
        bulk.update(
            Integration, [{"id": row, "expected_at": at, "is_extended": True} for row, at in excused.items()]
        )
        bulk.update(Integration, [_build_next_expectation(row, now) for row, _ in missing])
    if excused:
        log.info("more time is given for pings that may have been lost", count=len(excused))
    if missing:
        log.info(
            "pings are missing", services=len({row.service_id for row, _ in missing}), count=len(missing)
        )
    for service in sorted({row.service_id for row, _ in missing}):
        queue.enqueue_lane(service)
    return len(missing)


def _build_expectation(row: Integration) -> Expectation:
    every, grace = timedelta(seconds=row.heartbeat_interval), timedelta(seconds=row.heartbeat_grace)
    return Expectation(row.expected_at, every, grace, row.is_extended)


def _build_next_expectation(row: Integration, now: datetime) -> Record:
    """Silence that goes on is said again after the same time. That joins the incident and tells nobody; where
    it was resolved, by whatever, a new one says that it is not over."""
    at = now + _build_expectation(row).within
    return {"id": row.id, "expected_at": at, "is_missing": True, "is_extended": False}


# --- what was taken and not looked at ------------------------------------------------------------------

# Spelled out, not a parameter: SQLite uses the indexes of what waits only then.
_PENDING = peewee.SQL(str(int(WorkState.PENDING)))
_NEVER = datetime.max.replace(tzinfo=UTC)


def _find_silent(overdue: Iterable[Integration], services: Collection[int]) -> list[tuple[Integration, int]]:
    """Those of some services of whom nothing waits that may be the ping, each with its account. What came by
    the key of a router is not told apart."""
    taken, routed = _list_pending_integrations(services), _list_pending_since()
    accounts_query = Service.select(Service.id, Team.account).join(Team).where(in_list(Service.id, services))
    accounts = dict(accounts_query.tuples())
    found = [(row, accounts[row.service_id]) for row in overdue if row.id not in taken]
    return [(row, account) for row, account in found if routed.get(account, _NEVER) > row.expected_at]


def _list_pending_integrations(services: Collection[int]) -> set[int]:
    """The integrations of pings that wait in these lanes."""
    received = Receipt.select(Receipt.integration).where(
        Receipt.state == _PENDING,
        in_list(Receipt.service, services),
        Receipt.source == heartbeat.EXTENSION,
    )
    in_pipeline = Event.select(Event.integration).where(
        Event.state == _PENDING, in_list(Event.service, services)
    )
    return {row for query in (received, in_pipeline) for (row,) in query.distinct().tuples()}


def _list_pending_since() -> dict[int, datetime]:
    """Since when something waits for the routers of accounts."""
    oldest = peewee.fn.MIN(Receipt.received_at)
    pending = Receipt.select(Receipt.account, oldest).where(
        Receipt.state == _PENDING, Receipt.router.is_null(False)
    )
    rows = pending.group_by(Receipt.account).tuples()
    return {account: Receipt.received_at.python_value(since) or _NEVER for account, since in rows}


def _build_receipt(row: Integration, account: int, now: datetime) -> Record:
    """An alert from Tocsin itself, named for the moment that has passed."""
    expected = _build_expectation(row)
    since = row.last_ping_at or expected.at - expected.within
    return {
        "trace_id": derive_uuid("missing ping", row.unique_id, row.expected_at.isoformat()),
        "account": account,
        "integration": row.id,
        "service": row.service_id,
        "source": heartbeat.EXTENSION,
        "body": heartbeat.build_missing(row.name, since, expected.every, expected.grace),
        "received_at": now,
    }
