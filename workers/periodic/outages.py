"""Whether pings could come: who looks for missing ones notes that they did, and the web processes they saw.

Nobody is blamed for what Tocsin was not there to take (decision 0017).
"""

from datetime import datetime, timedelta
from typing import Any

import structlog

from models.reports import backlog
from models.store.base import store
from models.tables.accounts import Liveness
from schedules.outages import Observation, Outage, WebProcess, observe

log = structlog.get_logger()

# Where it is kept.
PROCESS = "pings"
# How often it is written; each absence is at once.
SAVE_EVERY = timedelta(seconds=5)


def check_availability(now: datetime) -> Observation | None:
    """Look, and note it; None while it is not certain that pings can come. Waits for no lane."""
    row = Liveness.get_or_none(Liveness.process == PROCESS)
    saved = None if row is None else _parse(row)
    web_processes = [
        WebProcess(process.started_at, process.seen_at or now) for process in backlog.list_recent("web")
    ]
    current, is_certain = observe(saved, web_processes, now)
    if current is None:
        return None
    # Of several who see something new at once, one notes it; the others look again.
    if _should_save(saved, current) and not _save(row, current):
        return None
    if saved is not None and current.outages != saved.outages:
        log.info("pings may have been lost", since=str(current.outages[-1].began_at))
    return current if is_certain else None


def _should_save(saved: Observation | None, current: Observation) -> bool:
    return saved is None or current.outages != saved.outages or current.at - saved.at >= SAVE_EVERY


def stop_watching() -> None:
    """Nobody looks while nothing is expected: that must not pass for an absence afterwards."""
    saved = Liveness.process == PROCESS
    if Liveness.select().where(saved).exists():
        with store().write_transaction():
            Liveness.delete().where(saved).execute()


def _parse(row: Liveness) -> Observation:
    """A note in the words of another version tells when somebody looked, and no more."""
    try:
        outages = tuple(
            Outage(datetime.fromisoformat(began), datetime.fromisoformat(ended), timedelta(seconds=longest_s))
            for began, ended, longest_s in row.detail["absences"]
        )
        return Observation(row.at, datetime.fromisoformat(row.detail["until"]), outages)
    except (KeyError, TypeError, ValueError):
        return Observation(row.at, row.at)


def _save(row: Liveness | None, current: Observation) -> bool:
    """Whether nobody else did meanwhile. Goes back in time with a clock that was set."""
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
