"""Report the missing pings of heartbeat integrations (decision 0024).

The report is an alert from Tocsin itself, which the lane of the service processes like any other. There is
one report for each interval without a ping. There is none if Tocsin could not take pings, or if a ping may be
among the pending receipts.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime

import dramatiq
import peewee
import structlog

from models.domain.enums import IntegrationType, ServiceStatus, WorkState
from models.domain.identity import derive_uuid
from models.domain.values import replace
from models.store import bulk
from models.store.bulk import Record
from models.store.prepared import Prepared, in_bound, in_list
from models.store.store import STORE_ERRORS, connection, store
from models.tables.events import Event, Receipt
from models.tables.services import Integration, Service
from models.tables.teams import Team
from pipeline.sources import heartbeat
from schedules.outages import Coverage, extend_deadline
from workers.alerts import lane_actors
from workers.broker import broker
from workers.lane_turns import turns
from workers.periodic.outages import build_expectation, update_coverage

log = structlog.get_logger()

# Number of services whose missing pings are reported in one transaction.
BATCH_SIZE = 100


def enqueue_overdue(now: datetime | None = None) -> None:
    """Enqueue the report of missing pings if one is overdue. Take no lock."""
    with connection():
        found = _find_overdue(now)
    if found is not None and found[2]:
        report_heartbeats.send()


@dramatiq.actor(broker=broker, queue_name="heartbeats", actor_name="heartbeats")
def report_heartbeats() -> None:
    """Report missing pings. One thread of this process at a time does this."""
    if turns.work("heartbeats", report_missing):
        report_heartbeats.send()


def report_missing(now: datetime | None = None) -> int:
    """Report the missing ping of each integration whose ping is overdue. Return the number of reports.

    Several processes may run this at the same time; together they report each missing ping once. A service
    that another worker has locked is skipped until the next pass.
    """
    found = _find_overdue(now)
    if found is None:
        return 0
    at, covered, overdue = found
    batches = (overdue[start : start + BATCH_SIZE] for start in range(0, len(overdue), BATCH_SIZE))
    return sum(_report_services(services, covered, at) for services in batches)


def _find_overdue(now: datetime | None) -> tuple[datetime, Coverage, list[int]] | None:
    """Return the time, the coverage by web processes, and the services with overdue pings.

    Only deadlines until the end of the coverage count. Return None if no ping is expected, or if the coverage
    is unknown.
    """
    if not Integration.select().where(Integration.expected_at.is_null(False)).exists():
        return None
    at = now or store().now()
    covered = update_coverage(at)
    if covered is None:
        return None
    covered = replace(covered, until=min(covered.until, at))
    return at, covered, _list_overdue_services(covered.until)


def _report_services(services: Sequence[int], covered: Coverage, now: datetime) -> int:
    """Report the missing pings of these services. A service that fails does not stop the others."""
    try:
        return _report_locked(services, covered, now)
    except STORE_ERRORS:
        raise
    except Exception:
        if len(services) == 1:
            log.exception("missing ping could not be reported", service=services[0])
            return 0
    return sum(_report_services([service], covered, now) for service in services)


def _list_overdue_services(now: datetime) -> list[int]:
    """List the enabled services with overdue pings. Others are reported after they are enabled."""
    query = Integration.select(Integration.service).join(Service).where(_is_overdue(now), _IS_ACTIVE)
    # Sorted here: with ORDER BY, SQLite would read all integrations in the order of their services.
    return sorted({row for (row,) in query.tuples()})


_IS_ACTIVE = Service.status != ServiceStatus.DISABLED


def _is_overdue(now: datetime) -> peewee.Expression:
    """Build the condition for integrations with an overdue ping. A disabled integration expects no pings."""
    return (
        (Integration.expected_at <= now)
        & Integration.is_enabled
        & (Integration.integration_type == IntegrationType.ALERT)
    )


# The services that no other worker has locked. A lane that hangs must not delay the reports of others.
_FREE = Prepared(
    lambda: store().for_update(
        Service.select(Service.id).where(in_bound(Service.id, "services"), _IS_ACTIVE).order_by(Service.id),
        skip_locked=True,
    )
)


def _report_locked(services: Collection[int], covered: Coverage, now: datetime) -> int:
    """Report the missing pings of these services under their locks, so that only one worker reports them."""
    with store().write_transaction():
        free = [row for (row,) in _FREE.rows(services=services)]
        overdue = Integration.select().where(in_list(Integration.service, free), _is_overdue(covered.until))
        silent = _find_silent(overdue, free)
        excused = {
            row.id: at
            for row, _ in silent
            if (at := extend_deadline(build_expectation(row), covered.outages))
        }
        missing = [(row, account) for row, account in silent if row.id not in excused]
        bulk.insert(Receipt, [_build_receipt(row, account, now) for row, account in missing])
        bulk.update(
            Integration, [{"id": row, "expected_at": at, "is_extended": True} for row, at in excused.items()]
        )
        bulk.update(Integration, [_build_next_expectation(row, now) for row, _ in missing])
    if excused:
        log.info("deadlines extended for pings that may have been lost", integrations=sorted(excused))
    if missing:
        log.info("pings are missing", integrations=sorted(row.id for row, _ in missing))
    for service in sorted({row.service_id for row, _ in missing}):
        lane_actors.send(service)
    return len(missing)


def _build_next_expectation(row: Integration, now: datetime) -> Record:
    """Return the columns that make the next alert about missing pings due one interval from now.

    That alert is attached to the open incident and notifies nobody. If the incident was resolved meanwhile,
    the alert opens a new one.
    """
    at = now + build_expectation(row).within
    return {"id": row.id, "expected_at": at, "is_missing": True, "is_extended": False}


# --- pending receipts that may contain a ping ----------------------------------------------------------

# A literal, not a parameter: only then does SQLite use the partial indexes of pending rows.
_PENDING = peewee.SQL(str(int(WorkState.PENDING)))
_NEVER = datetime.max.replace(tzinfo=UTC)


def _find_silent(overdue: Iterable[Integration], services: Collection[int]) -> list[tuple[Integration, int]]:
    """Return the integrations whose ping is not among the pending rows, with their accounts.

    A receipt that was sent with the key of a router may be for any integration of the account.
    """
    taken, routed = _list_pending_integrations(services), _list_pending_since()
    accounts_query = Service.select(Service.id, Team.account).join(Team).where(in_list(Service.id, services))
    accounts = dict(accounts_query.tuples())
    found = [(row, accounts[row.service_id]) for row in overdue if row.id not in taken]
    return [(row, account) for row, account in found if routed.get(account, _NEVER) > row.expected_at]


def _list_pending_integrations(services: Collection[int]) -> set[int]:
    """List the integrations that have pending pings or events in these lanes."""
    received = Receipt.select(Receipt.integration).where(
        Receipt.state == _PENDING,
        in_list(Receipt.service, services),
        Receipt.source.in_((heartbeat.EXTENSION, heartbeat.MISSING_PING)),
    )
    in_pipeline = Event.select(Event.integration).where(
        Event.state == _PENDING, in_list(Event.service, services)
    )
    return {row for query in (received, in_pipeline) for (row,) in query.distinct().tuples()}


def _list_pending_since() -> dict[int, datetime]:
    """Return the time of the oldest pending receipt for a router, by account."""
    oldest = peewee.fn.MIN(Receipt.received_at)
    pending = Receipt.select(Receipt.account, oldest).where(
        Receipt.state == _PENDING, Receipt.router.is_null(False)
    )
    rows = pending.group_by(Receipt.account).tuples()
    return {account: Receipt.received_at.python_value(since) or _NEVER for account, since in rows}


def _build_receipt(row: Integration, account: int, now: datetime) -> Record:
    """Build the receipt of an alert from Tocsin itself. Its trace_id is derived from the missed time."""
    expected = build_expectation(row)
    since = row.last_ping_at or expected.at - expected.within
    return {
        "trace_id": derive_uuid("missing ping", row.unique_id, row.expected_at.isoformat()),
        "account": account,
        "integration": row.id,
        "service": row.service_id,
        "source": heartbeat.MISSING_PING,
        "body": heartbeat.build_missing(row.name, since, expected.every, expected.grace),
        "received_at": now,
    }
