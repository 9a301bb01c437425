"""Which timers are due, and whose: looked for without a lock, and again under it."""

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import peewee

from models.enums import TimerKind
from models.incidents import Incident
from models.prepared import Prepared, among, given
from models.timers import Timer

# Due timers that a look takes, the oldest first.
LOOKED_AT = 5_000
# Where these are of fewer lanes that have not had their turn, it looks for lanes whose timers are all behind
# them; for so many.
LANES_SEEN = 50
LANES_BEHIND = 500


@dataclass(frozen=True, slots=True)
class Lane:
    """Whose timers are taken together: a service's or, where that was deleted, those left to its team."""

    service: int | None
    team: int


@dataclass(slots=True)
class Due:
    """Incidents of a lane with due timers, the one that is due for longest first; `more` where there may be
    others than these."""

    lane: Lane
    since: datetime
    more: bool
    incidents: dict[int, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wait:
    """A timer as it waits."""

    row: int
    incident: int
    kind: TimerKind
    key: str
    due_at: datetime


def _due(*columns: Any) -> Any:
    """`without` are rows of timers."""
    return (
        Timer.select(*columns)
        .join(Incident)
        .where(Timer.done_at.is_null(), Timer.due_at <= given("now"), ~among(Timer.id, "without"))
    )


_OLDEST = Prepared(
    lambda: (
        _due(Timer.incident, Timer.due_at, Incident.service, Incident.team)
        .order_by(Timer.due_at)
        .limit(given("limit"))
    )
)
_SINCE = peewee.fn.MIN(Timer.due_at)
_LANES = Prepared(
    lambda: (
        _due(Incident.service, Incident.team, _SINCE, peewee.fn.MIN(Timer.incident))
        .where(Incident.service.is_null() | ~among(Incident.service, "known"))
        .group_by(Incident.service, Incident.team)
        .order_by(_SINCE)
        .limit(given("limit"))
    )
)


def due_lanes(now: datetime, without: Collection[int], turns: Mapping[Lane, int]) -> list[Due]:
    """What is due, by lane: first those that had no turn yet, then those whose last one (`turns` says which)
    is longest ago; of these the oldest first.

    Those that are due within the same second come in an order of each worker's own, so that several of them
    begin at different ends.
    """
    rows = _OLDEST.rows(now=now, without=without, limit=LOOKED_AT)
    lanes: dict[Lane, Due] = {}
    for incident, due_at, service, team in rows:
        lane = Lane(service, team)
        known = lanes.setdefault(lane, Due(lane, due_at, more=len(rows) == LOOKED_AT))
        known.incidents[incident] = None
    if len(rows) == LOOKED_AT and len(lanes.keys() - turns.keys()) < LANES_SEEN:
        for each in _behind(lanes, now, without):
            lanes.setdefault(each.lane, each)
    mixed = random.sample(list(lanes.values()), len(lanes))
    return sorted(mixed, key=lambda each: (turns.get(each.lane, 0), each.since.replace(microsecond=0)))


def _behind(lanes: Collection[Lane], now: datetime, without: Collection[int]) -> list[Due]:
    """Other lanes than these, each with one incident. Reads all that is due, but gives little of it away."""
    known = [lane.service for lane in lanes if lane.service is not None]
    rows = _LANES.rows(now=now, without=without, known=known, limit=LANES_BEHIND)
    return [
        Due(Lane(service, team), Timer.due_at.python_value(since) or now, True, {incident: None})
        for service, team, since, incident in rows
    ]


# In no order: the oldest are known.
_MORE_OF_SERVICE = Prepared(
    lambda: (
        _due(Timer.incident)
        .where(Incident.service == given("service"), Incident.team == given("team"))
        .limit(given("limit"))
    )
)
_MORE_OF_NONE = Prepared(
    lambda: (
        _due(Timer.incident)
        .where(Incident.service.is_null(), Incident.team == given("team"))
        .limit(given("limit"))
    )
)


def filled(each: Due, most: int, now: datetime, without: Collection[int]) -> list[int]:
    """The incidents of a batch: what was seen to be due, and what else is of the same lane."""
    if each.more and len(each.incidents) < most:
        asked = {"team": each.lane.team, "now": now, "without": without, "limit": most}
        if each.lane.service is None:
            others = _MORE_OF_NONE.rows(**asked)
        else:
            others = _MORE_OF_SERVICE.rows(service=each.lane.service, **asked)
        each.incidents.update(dict.fromkeys(row for (row,) in others))
    return list(each.incidents)[:most]


def _waits(which: Any) -> Any:
    return (
        Timer.select(Timer.id, Timer.incident, Timer.kind, Timer.key, Timer.due_at)
        .where(which, Timer.done_at.is_null(), Timer.due_at <= given("now"))
        .order_by(Timer.due_at, Timer.id)
    )


_OF_INCIDENTS = Prepared(lambda: _waits(among(Timer.incident, "incidents")))
_OF_ROWS = Prepared(lambda: _waits(among(Timer.id, "rows")))


def due_of(incidents: Collection[int], now: datetime) -> list[Wait]:
    """What is due for these incidents, in due order."""
    return _as_waits(_OF_INCIDENTS.rows(incidents=incidents, now=now)) if incidents else []


def due_among(rows: Collection[int], now: datetime) -> list[Wait]:
    """Those of these timers that are due, in due order."""
    return _as_waits(_OF_ROWS.rows(rows=rows, now=now)) if rows else []


def _as_waits(rows: list[tuple[Any, ...]]) -> list[Wait]:
    return [Wait(row, incident, TimerKind(kind), key, due_at) for row, incident, kind, key, due_at in rows]
