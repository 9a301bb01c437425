"""Find due timers and their lanes: first without locks, then again under the locks."""

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import peewee

from models.store.prepared import Prepared, bind, in_bound
from models.tables.incidents import Incident
from models.tables.timers import Timer

# Number of due timers that one search loads, the oldest first.
MAX_TIMERS = 5_000
# All of these timers can belong to one service. The search counts their lanes that had no turn in this pass.
# If there are fewer than MIN_LANES, it also loads other lanes, at most MAX_MORE_LANES.
MIN_LANES = 50
MAX_MORE_LANES = 500


@dataclass(frozen=True, slots=True)
class TimerLane:
    """The timers that one batch may contain: those of a service, or those of a team without a service."""

    service: int | None
    team: int


@dataclass(slots=True)
class DueLane:
    """A lane and its incidents with due timers, in the order of their oldest timers.

    `more`: the lane may have other incidents with due timers.
    """

    lane: TimerLane
    since: datetime
    more: bool
    incidents: dict[int, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DueTimer:
    """A due timer, as it is stored."""

    row: int
    incident_row: int
    kind: str
    key: str
    due_at: datetime


def _select_due(*columns: peewee.ColumnBase) -> peewee.ModelSelect:
    """Build the query for due timers. `excluded` are row numbers of timers."""
    return (
        Timer.select(*columns)
        .join(Incident)
        .where(Timer.done_at.is_null(), Timer.due_at <= bind("now"), ~in_bound(Timer.id, "excluded"))
    )


_OLDEST = Prepared(
    lambda: (
        _select_due(Timer.incident, Timer.due_at, Incident.service, Incident.team)
        .order_by(Timer.due_at)
        .limit(bind("limit"))
    )
)
_SINCE = peewee.fn.MIN(Timer.due_at)
_LANES = Prepared(
    lambda: (
        _select_due(Incident.service, Incident.team, _SINCE, peewee.fn.MIN(Timer.incident))
        .where(Incident.service.is_null() | ~in_bound(Incident.service, "known"))
        .group_by(Incident.service, Incident.team)
        .order_by(_SINCE)
        .limit(bind("limit"))
    )
)


def list_due_lanes(
    now: datetime, excluded: Collection[int], last_rounds: Mapping[TimerLane, int]
) -> list[DueLane]:
    """List the lanes with due timers in the order of their last rounds.

    Lanes without a round come first, the others by their last round in `last_rounds`, then by age.

    Lanes that are due within the same second are in random order, so that several workers begin with
    different lanes.
    """
    rows = _OLDEST.rows(now=now, excluded=excluded, limit=MAX_TIMERS)
    lanes: dict[TimerLane, DueLane] = {}
    for incident, due_at, service, team in rows:
        lane = TimerLane(service, team)
        known = lanes.setdefault(lane, DueLane(lane, due_at, more=len(rows) == MAX_TIMERS))
        known.incidents[incident] = None
    if len(rows) == MAX_TIMERS and len(lanes.keys() - last_rounds.keys()) < MIN_LANES:
        for due in _list_more_lanes(lanes, now, excluded):
            lanes.setdefault(due.lane, due)
    shuffled = random.sample(list(lanes.values()), len(lanes))
    return sorted(shuffled, key=lambda due: (last_rounds.get(due.lane, 0), due.since.replace(microsecond=0)))


def _list_more_lanes(lanes: Collection[TimerLane], now: datetime, excluded: Collection[int]) -> list[DueLane]:
    """List other lanes than these, each with one incident. The database reads all due timers for this."""
    known = [lane.service for lane in lanes if lane.service is not None]
    rows = _LANES.rows(now=now, excluded=excluded, known=known, limit=MAX_MORE_LANES)
    return [
        DueLane(TimerLane(service, team), Timer.due_at.python_value(since) or now, True, {incident: None})
        for service, team, since, incident in rows
    ]


def _select_more(is_of_service: peewee.Expression) -> peewee.ModelSelect:
    """Build the query in any order: the search has already loaded the oldest timers of most lanes."""
    query = _select_due(Timer.incident).where(is_of_service, Incident.team == bind("team"))
    return query.limit(bind("limit"))


_MORE_OF_SERVICE = Prepared(lambda: _select_more(Incident.service == bind("service")))
_MORE_WITHOUT_SERVICE = Prepared(lambda: _select_more(Incident.service.is_null()))


def fill_batch(due: DueLane, limit: int, now: datetime, excluded: Collection[int]) -> list[int]:
    """Return the incidents of a batch: the known ones of the lane, and others of the lane up to `limit`."""
    if due.more and len(due.incidents) < limit:
        params = {"team": due.lane.team, "now": now, "excluded": excluded, "limit": limit}
        if due.lane.service is None:
            rows = _MORE_WITHOUT_SERVICE.rows(**params)
        else:
            rows = _MORE_OF_SERVICE.rows(service=due.lane.service, **params)
        due.incidents.update(dict.fromkeys(row for (row,) in rows))
    return list(due.incidents)[:limit]


def _select_timers(condition: peewee.Expression) -> peewee.ModelSelect:
    return (
        Timer.select(Timer.id, Timer.incident, Timer.kind, Timer.key, Timer.due_at)
        .where(condition, Timer.done_at.is_null(), Timer.due_at <= bind("now"))
        .order_by(Timer.due_at, Timer.id)
    )


_BY_INCIDENT = Prepared(lambda: _select_timers(in_bound(Timer.incident, "incidents")))
_BY_ROW = Prepared(lambda: _select_timers(in_bound(Timer.id, "rows")))


def load_due_timers(incidents: Collection[int], now: datetime) -> list[DueTimer]:
    """Load the due timers of these incidents, in the order of their due times."""
    found = _BY_INCIDENT.rows(incidents=incidents, now=now) if incidents else []
    return [DueTimer(*row) for row in found]


def reload_due_timers(rows: Collection[int], now: datetime) -> list[DueTimer]:
    """Load the timers in `rows` that are still due, in the order of their due times."""
    found = _BY_ROW.rows(rows=rows, now=now) if rows else []
    return [DueTimer(*row) for row in found]
