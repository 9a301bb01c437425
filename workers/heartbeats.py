"""Pings that did not come: a moment has passed by which an integration should have had one (decision 0017).

That one is missing is an alert like any other, accepted from Tocsin itself and worked on in its lane. It is
said once, and never of pings that Tocsin could not take, or has taken and not looked at.
"""

from datetime import datetime, timedelta
from typing import Any

import peewee
import structlog

from models import metrics
from models.accounts import Heartbeat
from models.base import STORE_ERRORS, connection, store
from models.enums import IntegrationType, ServiceStatus, WorkState
from models.events import Entity, Event, Receipt
from models.ids import derived_uuid
from models.loading import lock_service, lock_services
from models.services import Integration, Service
from models.teams import Team
from pipeline.sources import heartbeat
from workers import bell

log = structlog.get_logger()

# Where it is kept when it was last seen that pings could come, and since when they could.
WATCHED = "pings"
# How often that is written.
NOTE_EVERY = timedelta(seconds=5)
# Three of the clock's beats, or of the looks of workers: who looks later was not there in between.
AWAY = timedelta(seconds=15)
# A web process that was killed counts as living for 45 s more; so long before the start of the next one
# pings may have been lost.
UNSEEN = timedelta(seconds=60)
# Pings do not come to the second: one that is due so soon after we were away may have come while we were.
EARLY = timedelta(seconds=60)


def raise_missing(now: datetime | None = None) -> int:
    """Say of each integration whose ping is overdue that it is missing; returns of how many.

    Any process may do so, at any time; all of them together say it once.
    """
    with connection():
        if not _is_any_expected():
            _stop_noting()
            return 0
        now = now or store().now()
        if not _could_come(now):
            return 0
        return sum(_attempt(service_row, now) for service_row in _overdue(now))


def _attempt(service_row: int, now: datetime) -> int:
    """One service that fails keeps none of the others waiting; the next look looks again."""
    try:
        return _raise(service_row, now)
    except STORE_ERRORS:
        raise
    except Exception:
        log.exception("a missing ping could not be told", service=service_row)
        return 0


def _is_any_expected() -> bool:
    expected: bool = Integration.select().where(Integration.expected_at.is_null(False)).exists()
    return expected


def _stop_noting() -> None:
    """Nobody looks while nothing is expected: that must not pass for an absence afterwards."""
    noted = Heartbeat.process == WATCHED
    if Heartbeat.select().where(noted).exists():
        with store().writing():
            Heartbeat.delete().where(noted).execute()


# --- whether pings could come ------------------------------------------------------------------------


def _could_come(now: datetime) -> bool:
    """Whether pings can come now. Where they could not for a while, more time is given to all that were due
    then."""
    since = min((life.started_at for life in metrics.living(now) if life.kind == "web"), default=None)
    if since is None:
        return False
    noted = Heartbeat.get_or_none(Heartbeat.process == WATCHED)
    if noted is None or now - noted.at >= NOTE_EVERY or since != _since(noted):
        _note(noted, now, since)
    return True


def _since(noted: Heartbeat) -> datetime:
    return datetime.fromisoformat(noted.detail["since"])


def _note(noted: Heartbeat | None, now: datetime, since: datetime) -> None:
    """Of several who see that we were away, the one who notes it first gives more time."""
    away = _away(noted, now, since) if noted is not None else None
    with store().writing():
        locked = lock_services({row.service_id for row in _due_around(away, now)})
        if not _is_first(noted, now, since):
            return
        late = [row for row in _due_around(away, now) if row.service_id in locked]
        for row in late:
            Integration.update(expected_at=now + _within(row)).where(Integration.id == row.id).execute()
    if late:
        log.info("pings may have been lost while nobody was there to take them", more_time_for=len(late))


def _is_first(noted: Heartbeat | None, now: datetime, since: datetime) -> bool:
    detail = {"since": since.isoformat()}
    if noted is None:
        query: Any = Heartbeat.insert(process=WATCHED, at=now, detail=detail)
        return bool(query.on_conflict_ignore().as_rowcount().execute())
    query = Heartbeat.update(at=max(now, noted.at), detail=detail)
    return bool(query.where(Heartbeat.process == WATCHED, Heartbeat.at == noted.at).execute())


def _away(noted: Heartbeat, now: datetime, since: datetime) -> datetime | None:
    """From which moment until now pings may have been lost; None where none were."""
    began = []
    if now - noted.at > AWAY:
        began.append(noted.at)
    if since > max(_since(noted), noted.at - UNSEEN):
        began.append(since - UNSEEN)
    return min(began, default=None)


def _due_around(away: datetime | None, now: datetime) -> list[Integration]:
    """Whose pings were due from that moment until now, or may have come early."""
    if away is None:
        return []
    expected = Integration.select().where(Integration.expected_at >= away).order_by(Integration.id)
    return [row for row in expected if row.expected_at - _grace(row) - max(_grace(row), EARLY) <= now]


def _grace(row: Integration) -> timedelta:
    return timedelta(seconds=row.heartbeat_grace)


def _within(row: Integration) -> timedelta:
    return timedelta(seconds=row.heartbeat_every) + _grace(row)


# --- whose ping is missing ---------------------------------------------------------------------------


def _overdue(now: datetime) -> list[int]:
    """The services of those whose ping has not come; what a disabled one's waits for is said when it is not
    any more."""
    query = Integration.select(Integration.service).join(Service).where(_is_overdue(now), _ACTIVE).distinct()
    return [row for (row,) in query.order_by(Integration.service).tuples()]


_ACTIVE = Service.status != ServiceStatus.DISABLED


def _is_overdue(now: datetime) -> Any:
    """A condition on integrations. One that is closed takes no pings, so that none is missing."""
    return (
        (Integration.expected_at <= now)
        & Integration.is_enabled
        & (Integration.integration_type == IntegrationType.ALERT)
    )


def _raise(service_row: int, now: datetime) -> int:
    """All of one service, under its lock: who comes second finds nothing any more."""
    with store().writing():
        service = lock_service(service_row)
        if service is None or service.status == ServiceStatus.DISABLED:
            return 0
        overdue = list(Integration.select().where(Integration.service == service, _is_overdue(now)))
        silent = [row for row in overdue if not _waits(row, service)]
        for row in silent:
            Integration.update(expected_at=None).where(Integration.id == row.id).execute()
            _accept(row, service, now)
    if silent:
        log.info("pings are missing", service=service_row, count=len(silent))
        bell.ring_road(service_row)
    return len(silent)


# Spelled out, not a parameter: SQLite uses the indexes of what waits only then.
_WAITING = peewee.SQL(str(int(WorkState.WAITING)))


def _waits(row: Integration, service: Service) -> bool:
    """Whether a ping of an integration was taken that nobody has looked at, or may have been: what came by
    the key of a router is not told apart."""
    waiting = Receipt.select().where(Receipt.state == _WAITING)
    return bool(
        waiting.where(
            Receipt.service == service, Receipt.integration == row, Receipt.source == heartbeat.EXTENSION
        ).exists()
        or Event.select()
        .where(Event.state == _WAITING, Event.service == service, Event.integration == row)
        .exists()
        or waiting.where(
            Receipt.router.is_null(False),
            Receipt.account == _account(service),
            Receipt.received_at <= row.expected_at,
        ).exists()
    )


def _account(service: Service) -> int:
    account: int = Team.select(Team.account).where(Team.id == service.team_id).scalar()
    return account


def _accept(row: Integration, service: Service, now: datetime) -> None:
    """An alert from Tocsin itself, named for the moment that has passed."""
    last_ping = Entity.select(Entity.resolved_at).where(
        Entity.integration == row, Entity.entity_id == heartbeat.ENTITY
    )
    every, grace = timedelta(seconds=row.heartbeat_every), _grace(row)
    since = last_ping.scalar() or row.expected_at - every - grace
    Receipt.create(
        trace_id=derived_uuid("missing ping", row.unique_id, row.expected_at.isoformat()),
        account=_account(service),
        integration=row,
        service=service,
        source=heartbeat.EXTENSION,
        body=heartbeat.missing(row.name, since, every, grace),
        received_at=now,
    )
