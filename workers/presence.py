"""Whether pings could come: who looks for missing ones notes that they did, and the web processes they saw.

Nobody is blamed for what Tocsin was not there to take (decision 0017).
"""

from datetime import datetime, timedelta
from typing import Any

import structlog

from models import metrics
from models.accounts import Heartbeat
from models.base import store
from schedules.absences import Absence, Watch, Web, look

log = structlog.get_logger()

# Where it is kept.
WATCHED = "pings"
# How often it is written; each absence is at once.
NOTE_EVERY = timedelta(seconds=5)


def watched(now: datetime) -> Watch | None:
    """Look, and note it; None while it is not certain that pings can come. Waits for no lane."""
    row = Heartbeat.get_or_none(Heartbeat.process == WATCHED)
    noted = None if row is None else _read(row)
    webs = [Web(life.started_at, life.beat_at or now) for life in metrics.known("web")]
    seen, is_certain = look(noted, webs, now)
    if seen is None:
        return None
    # Of several who see something new at once, one notes it; the others look again.
    if _is_worth_a_note(noted, seen) and not _note(row, seen):
        return None
    if noted is not None and seen.absences != noted.absences:
        log.info("pings may have been lost", since=str(seen.absences[-1].began_at))
    return seen if is_certain else None


def _is_worth_a_note(noted: Watch | None, seen: Watch) -> bool:
    return noted is None or seen.absences != noted.absences or seen.at - noted.at >= NOTE_EVERY


def stop() -> None:
    """Nobody looks while nothing is expected: that must not pass for an absence afterwards."""
    noted = Heartbeat.process == WATCHED
    if Heartbeat.select().where(noted).exists():
        with store().writing():
            Heartbeat.delete().where(noted).execute()


def _read(row: Heartbeat) -> Watch:
    """A note in the words of another version tells when somebody looked, and no more."""
    try:
        absences = tuple(
            Absence(
                datetime.fromisoformat(began), datetime.fromisoformat(ended), timedelta(seconds=longest_s)
            )
            for began, ended, longest_s in row.detail["absences"]
        )
        return Watch(row.at, datetime.fromisoformat(row.detail["until"]), absences)
    except (KeyError, TypeError, ValueError):
        return Watch(row.at, row.at)


def _note(row: Heartbeat | None, seen: Watch) -> bool:
    """Whether nobody else did meanwhile. Goes back in time with a clock that was set."""
    absences = [
        (one.began_at.isoformat(), one.ended_at.isoformat(), one.longest.total_seconds())
        for one in seen.absences
    ]
    detail = {"until": seen.until.isoformat(), "absences": absences}
    with store().writing():
        if row is None:
            query: Any = Heartbeat.insert(process=WATCHED, at=seen.at, detail=detail)
            return bool(query.on_conflict_ignore().as_rowcount().execute())
        query = Heartbeat.update(at=seen.at, detail=detail)
        return bool(query.where(Heartbeat.process == WATCHED, Heartbeat.at == row.at).execute())
