"""Store until when web processes took pings, and the outages in which none did (decision 0024)."""

from datetime import datetime, timedelta

import structlog

from models.reports import backlog
from models.store import bulk
from models.store.store import store
from models.tables.accounts import Liveness
from models.tables.services import Integration
from schedules.outages import Coverage, Expectation, Outage, WebProcess, observe, restart_deadline

log = structlog.get_logger()

# The name of the liveness row that stores the coverage; `at` is its end.
PROCESS = "pings"


def update_coverage(now: datetime) -> Coverage | None:
    """Update and return the stored coverage; None while it is unknown. Lock no service."""
    row = Liveness.get_or_none(Liveness.process == PROCESS)
    known = None if row is None else _parse(row)
    set_back_from = known.until if known is not None and known.until > now + backlog.MAX_SKEW else None
    processes = [
        WebProcess(one.unbroken_since, one.seen_at, now - one.seen_at <= backlog.LATE_AFTER)
        for one in backlog.list_recent("web", now)
    ]
    current = observe(None if set_back_from else known, processes)
    if current is None or current == known:
        return current
    with store().write_transaction():
        if not _save(row, current):
            return None  # Another worker has saved a coverage: look again later.
        if set_back_from is not None:
            backlog.remove_future(now)
            _restart_deadlines(set_back_from, now)
    if current.outages and (known is None or current.outages != known.outages):
        last = current.outages[-1]
        log.info("pings may have been lost", since=str(last.began_at), until=str(last.ended_at))
    return current


def build_expectation(row: Integration) -> Expectation:
    every, grace = timedelta(seconds=row.heartbeat_interval), timedelta(seconds=row.heartbeat_grace)
    return Expectation(row.expected_at, every, grace, row.is_extended)


def _parse(row: Liveness) -> Coverage:
    """Parse the stored coverage. From the format of another version, use only the time."""
    try:
        outages = tuple(
            Outage(datetime.fromisoformat(began), datetime.fromisoformat(ended), timedelta(seconds=lasted_s))
            for began, ended, lasted_s in row.detail["outages"]
        )
        return Coverage(datetime.fromisoformat(row.detail["until"]), outages)
    except (KeyError, TypeError, ValueError):
        return Coverage(row.at)


def _save(row: Liveness | None, current: Coverage) -> bool:
    """Save the coverage, unless the row was changed meanwhile. Needs a write transaction."""
    outages = [(one.began_at, one.ended_at, one.lasted.total_seconds()) for one in current.outages]
    values = {"at": current.until, "detail": {"until": current.until, "outages": outages}}
    if row is None:
        insert = Liveness.insert(process=PROCESS, **values).on_conflict_ignore()
        return bool(insert.as_rowcount().execute())
    update = Liveness.update(values).where(Liveness.process == PROCESS, Liveness.at == row.at)
    return bool(update.execute())


def _restart_deadlines(shown: datetime, now: datetime) -> None:
    """Move deadlines after the clock was set back.

    If a ping is processed at the same time, the deadline that is written last is valid.
    """
    rows = Integration.select().where(Integration.expected_at.is_null(False))
    restarted = [(row, restart_deadline(build_expectation(row), shown, now)) for row in rows]
    bulk.update(
        Integration,
        [
            {
                "id": row.id,
                "expected_at": at,
                "is_extended": True,
                "last_ping_at": _limit(row.last_ping_at, now),
            }
            for row, at in restarted
            if at is not None
        ],
    )
    log.warning(
        "the clock was set back: pings get more time",
        seconds=round((shown - now).total_seconds()),
        integrations=[row.id for row, at in restarted if at is not None],
    )


def _limit(last_ping_at: datetime | None, now: datetime) -> datetime | None:
    """Limit the time of the last ping to the present. Otherwise the next pings would count as older."""
    return None if last_ping_at is None else min(last_ping_at, now)
