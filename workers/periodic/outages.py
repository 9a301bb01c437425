"""Record whether pings could arrive: when a worker checked for missing pings, and which web processes ran.

A ping that Tocsin could not take is not reported as missing (decision 0017).
"""

from datetime import datetime, timedelta
from typing import Any

import structlog

from models.reports import backlog
from models.store.base import store
from models.tables.accounts import Liveness
from schedules.outages import Observation, Outage, WebProcess, observe

log = structlog.get_logger()

# The name of the liveness row that stores the observation.
PROCESS = "pings"
# How often the observation is saved; a new outage is saved at once.
SAVE_EVERY = timedelta(seconds=5)


def check_availability(now: datetime) -> Observation | None:
    """Observe and save whether pings can arrive. Return None while that is not certain. Lock no service."""
    row = Liveness.get_or_none(Liveness.process == PROCESS)
    saved = None if row is None else _parse(row)
    web_processes = [
        WebProcess(process.started_at, process.seen_at or now) for process in backlog.list_recent("web")
    ]
    current, is_certain = observe(saved, web_processes, now)
    if current is None:
        return None
    # If several workers observe a change at the same time, one saves it; the others check again later.
    if _should_save(saved, current) and not _save(row, current):
        return None
    if saved is not None and current.outages != saved.outages:
        log.info("pings may have been lost", since=str(current.outages[-1].began_at))
    return current if is_certain else None


def _should_save(saved: Observation | None, current: Observation) -> bool:
    return saved is None or current.outages != saved.outages or current.at - saved.at >= SAVE_EVERY


def stop_watching() -> None:
    """Delete the saved observation when no ping is expected.

    Otherwise the time without observation would later count as an outage.
    """
    saved = Liveness.process == PROCESS
    if Liveness.select().where(saved).exists():
        with store().write_transaction():
            Liveness.delete().where(saved).execute()


def _parse(row: Liveness) -> Observation:
    """Parse a saved observation. From the format of another version, use only the time of the last check."""
    try:
        outages = tuple(
            Outage(datetime.fromisoformat(began), datetime.fromisoformat(ended), timedelta(seconds=longest_s))
            for began, ended, longest_s in row.detail["absences"]
        )
        return Observation(row.at, datetime.fromisoformat(row.detail["until"]), outages)
    except (KeyError, TypeError, ValueError):
        return Observation(row.at, row.at)


def _save(row: Liveness | None, current: Observation) -> bool:
    """Save the observation. Return False if another worker saved one meanwhile.

    An older time replaces a newer one, because the clock may have been set back.
    """
    outages = [
        (outage.began_at.isoformat(), outage.ended_at.isoformat(), outage.longest.total_seconds())
        for outage in current.outages
    ]
    detail = {"until": current.until.isoformat(), "absences": outages}
    with store().write_transaction():
        if row is None:
            query: Any = Liveness.insert(process=PROCESS, at=current.at, detail=detail)
            return bool(query.on_conflict_ignore().as_rowcount().execute())
        query = Liveness.update(at=current.at, detail=detail)
        return bool(query.where(Liveness.process == PROCESS, Liveness.at == row.at).execute())
