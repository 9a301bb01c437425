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

from models import bulk
from models.base import STORE_ERRORS, connection, store
from models.bulk import Record
from models.enums import IntegrationType, ServiceStatus, WorkState
from models.events import Event, Receipt
from models.ids import derived_uuid
from models.prepared import Prepared, among, any_of
from models.services import Integration, Service
from models.teams import Team
from pipeline.sources import heartbeat
from schedules.absences import Expectation, Watch, more_time
from workers import bell, presence

log = structlog.get_logger()

# Services whose missing pings are said in one transaction.
AT_ONCE = 100


def ring_overdue(now: datetime | None = None) -> None:
    """The clock's tick: look, and ring when a ping is overdue. Waits for no lane."""
    with connection():
        found = _look(now)
    if found is not None and found[2]:
        bell.ring_heartbeats()


def raise_missing(now: datetime | None = None) -> int:
    """Say of each integration whose ping is overdue that it is missing; returns of how many.

    Any process may do so, at any time; all of them together say it once. A service that somebody else works
    on is left for the next look.
    """
    with connection():
        found = _look(now)
        if found is None:
            return 0
        at, seen, overdue = found
        batches = (overdue[first : first + AT_ONCE] for first in range(0, len(overdue), AT_ONCE))
        return sum(_attempt(services, seen, at) for services in batches)


def _look(now: datetime | None) -> tuple[datetime, Watch, list[int]] | None:
    """The moment, what is known of pings by then, and the services with some that are overdue. None where
    none is expected, or may be missed."""
    if not Integration.select().where(Integration.expected_at.is_null(False)).exists():
        presence.stop()
        return None
    at = now or store().now()
    seen = presence.watched(at)
    return None if seen is None else (at, seen, _overdue(at))


def _attempt(services: Sequence[int], seen: Watch, now: datetime) -> int:
    """One service that fails keeps none of the others waiting; the next look looks again."""
    try:
        return _raise(services, seen, now)
    except STORE_ERRORS:
        raise
    except Exception:
        if len(services) == 1:
            log.exception("a missing ping could not be told", service=services[0])
            return 0
    return sum(_attempt([service], seen, now) for service in services)


def _overdue(now: datetime) -> list[int]:
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
        Service.select(Service.id).where(among(Service.id, "services"), _IS_ACTIVE).order_by(Service.id),
        skip_locked=True,
    )
)


def _raise(services: Collection[int], seen: Watch, now: datetime) -> int:
    """All of some services, under their locks: who comes second finds nothing any more."""
    with store().writing():
        free = [row for (row,) in _FREE.rows(services=services)]
        overdue = Integration.select().where(any_of(Integration.service, free), _is_overdue(now))
        silent = _silent([row for row in overdue if _expectation(row).due_at <= seen.until], free)
        excused = {row.id: at for row, _ in silent if (at := more_time(_expectation(row), seen.absences))}
        missing = [(row, account) for row, account in silent if row.id not in excused]
        bulk.insert(Receipt, [_receipt(row, account, now) for row, account in missing])
        bulk.update(
            Integration, [{"id": row, "expected_at": at, "is_excused": True} for row, at in excused.items()]
        )
        bulk.update(Integration, [_expected_anew(row, now) for row, _ in missing])
    if excused:
        log.info("more time is given for pings that may have been lost", count=len(excused))
    if missing:
        log.info(
            "pings are missing", services=len({row.service_id for row, _ in missing}), count=len(missing)
        )
    for service in sorted({row.service_id for row, _ in missing}):
        bell.ring_road(service)
    return len(missing)


def _expectation(row: Integration) -> Expectation:
    every, grace = timedelta(seconds=row.heartbeat_every), timedelta(seconds=row.heartbeat_grace)
    return Expectation(row.expected_at, every, grace, row.is_excused)


def _expected_anew(row: Integration, now: datetime) -> Record:
    """Silence that goes on is said again after the same time. That joins the incident and tells nobody; where
    it was resolved, by whatever, a new one says that it is not over."""
    at = now + _expectation(row).within
    return {"id": row.id, "expected_at": at, "is_missing": True, "is_excused": False}


# --- what was taken and not looked at ------------------------------------------------------------------

# Spelled out, not a parameter: SQLite uses the indexes of what waits only then.
_WAITING = peewee.SQL(str(int(WorkState.WAITING)))
_LATER = datetime.max.replace(tzinfo=UTC)


def _silent(overdue: Iterable[Integration], services: Collection[int]) -> list[tuple[Integration, int]]:
    """Those of some services of whom nothing waits that may be the ping, each with its account. What came by
    the key of a router is not told apart."""
    taken, routed = _taken(services), _routed()
    owners = Service.select(Service.id, Team.account).join(Team).where(any_of(Service.id, services))
    accounts = dict(owners.tuples())
    found = [(row, accounts[row.service_id]) for row in overdue if row.id not in taken]
    return [(row, account) for row, account in found if routed.get(account, _LATER) > row.expected_at]


def _taken(services: Collection[int]) -> set[int]:
    """The integrations of pings that wait in these lanes."""
    received = Receipt.select(Receipt.integration).where(
        Receipt.state == _WAITING,
        any_of(Receipt.service, services),
        Receipt.source == heartbeat.EXTENSION,
    )
    on_road = Event.select(Event.integration).where(Event.state == _WAITING, any_of(Event.service, services))
    return {row for query in (received, on_road) for (row,) in query.distinct().tuples()}


def _routed() -> dict[int, datetime]:
    """Since when something waits for the routers of accounts."""
    first = peewee.fn.MIN(Receipt.received_at)
    waiting = Receipt.select(Receipt.account, first).where(
        Receipt.state == _WAITING, Receipt.router.is_null(False)
    )
    rows = waiting.group_by(Receipt.account).tuples()
    return {account: Receipt.received_at.python_value(since) or _LATER for account, since in rows}


def _receipt(row: Integration, account: int, now: datetime) -> Record:
    """An alert from Tocsin itself, named for the moment that has passed."""
    expected = _expectation(row)
    since = row.heard_at or expected.at - expected.within
    return {
        "trace_id": derived_uuid("missing ping", row.unique_id, row.expected_at.isoformat()),
        "account": account,
        "integration": row.id,
        "service": row.service_id,
        "source": heartbeat.EXTENSION,
        "body": heartbeat.missing(row.name, since, expected.every, expected.grace),
        "received_at": now,
    }
