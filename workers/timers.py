"""Due timers: take them, decide again from what is true now, write.

Those of one service are taken together, a bounded number of incidents in one transaction (decision 0019). A
timer is marked done in the transaction of its effects, so one that was taken by a killed worker is simply
due again.
"""

import random
from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import monotonic, thread_time
from typing import Any

import structlog

from models import bulk
from models.apply import apply
from models.base import STORE_ERRORS, connection, store
from models.effects import ArmTimers, Effect, IncidentState, Outcome, SaveIncident, TimerState
from models.enums import TimerKind
from models.facts import Surroundings
from models.incidents import Incident
from models.loading import Busy, Families, lock_families
from models.prepared import Prepared, among, given
from models.timers import Timer
from schedules import due
from tocsin import metrics
from workers import bell, configuration
from workers.pace import Pace

log = structlog.get_logger()

# Due timers that a pass looks at, the oldest first; and how long it goes by what it saw. Then it looks
# again: others may have been there, and more may be due.
LOOKED_AT = 5_000
LOOK_AGAIN_S = 1.0

_pace = Pace()


@dataclass(frozen=True, slots=True)
class Lane:
    """Whose timers are taken together: a service's or, where that was deleted, those left to its team."""

    service: int | None
    team: int


@dataclass(slots=True)
class _Due:
    """Incidents of a lane with due timers, the one that is due for longest first; `more` where there may be
    others than these."""

    lane: Lane
    since: datetime
    more: bool
    incidents: dict[int, None] = field(default_factory=dict)


def run_due(now: datetime | None = None) -> int:
    """Fire every timer that is due; returns how many. Several workers may do so at once.

    A timer that cannot be decided must not stop the others: it stays due and is tried at each pass.
    """
    fired = 0
    failed: set[int] = set()
    with connection():
        while lanes := _due_lanes(now or store().now(), failed):
            fired += _round(lanes, now, failed)
    return fired


def _due_timers(*columns: Any) -> Any:
    of_others = ~among(Timer.incident, "failed")
    return (
        Timer.select(Timer.incident, *columns)
        .join(Incident)
        .where(Timer.done_at.is_null(), Timer.due_at <= given("now"), of_others)
        .limit(given("limit"))
    )


_DUE = Prepared(lambda: _due_timers(Timer.due_at, Incident.service, Incident.team).order_by(Timer.due_at))


def _due_lanes(now: datetime, failed: Collection[int]) -> list[_Due]:
    """What is due, by lane, the oldest first.

    Those that are due within the same second come in an order of each worker's own, so that several of them
    begin at different ends.
    """
    lanes: dict[Lane, _Due] = {}
    rows = _DUE.rows(now=now, failed=failed, limit=LOOKED_AT)
    for incident, due_at, service, team in rows:
        lane = Lane(service, team)
        known = lanes.setdefault(lane, _Due(lane, due_at, more=len(rows) == LOOKED_AT))
        known.incidents[incident] = None
    mixed = random.sample(list(lanes.values()), len(lanes))
    return sorted(mixed, key=lambda each: each.since.replace(microsecond=0))


# In no order: the oldest are known.
_MORE_OF_SERVICE = Prepared(
    lambda: _due_timers().where(Incident.service == given("service"), Incident.team == given("team"))
)


def _filled(each: _Due, most: int, now: datetime | None, failed: Collection[int]) -> list[int]:
    """The incidents of a batch: what was seen to be due, and what else is of the same lane."""
    if each.more and len(each.incidents) < most and each.lane.service is not None:
        known = {"service": each.lane.service, "team": each.lane.team, "failed": failed}
        others = _MORE_OF_SERVICE.rows(now=now or store().now(), limit=most, **known)
        each.incidents.update(dict.fromkeys(row for (row,) in others))
    return list(each.incidents)[:most]


def _round(lanes: Iterable[_Due], now: datetime | None, failed: set[int]) -> int:
    """A batch of each lane in turn, until all is done or it is time to look again; returns how many fired.

    Lanes that somebody else works on are passed over. Only where there is nothing else to do the first of
    them is waited for, so that a lane that is never free has its timers taken all the same.
    """
    ends_at = monotonic() + LOOK_AGAIN_S
    waiting = deque(lanes)
    busy: list[list[int]] = []
    fired = 0
    while waiting and monotonic() < ends_at:
        each = waiting.popleft()
        incidents = _filled(each, _pace.most(), now, failed)
        try:
            fired += _batch(incidents, now, failed, waits=False)
        except Busy:
            busy.append(incidents)
            continue
        for incident in incidents:
            del each.incidents[incident]
        if each.incidents:
            waiting.append(each)
    if busy and not fired:
        fired += _batch(busy[0], now, failed, waits=True)
    return fired


def _batch(incidents: Sequence[int], now: datetime | None, failed: set[int], *, waits: bool) -> int:
    """The due timers of these incidents of a lane, in one transaction; one by one where that fails."""
    try:
        return _fire(incidents, now, waits=waits)
    except Busy:
        raise
    except STORE_ERRORS:
        _pace.failed()
        raise
    except Exception:
        log.exception("timers failed and are taken one by one", incidents=len(incidents))
    return sum(_fire_alone(incident, now, failed) for incident in incidents)


def _fire_alone(incident: int, now: datetime | None, failed: set[int]) -> int:
    try:
        return _fire([incident], now, waits=True)
    except STORE_ERRORS:
        raise
    except Exception:
        log.exception("a timer failed", incident=incident)
        failed.add(incident)
        return 0


def _fire(incidents: Collection[int], now: datetime | None, *, waits: bool) -> int:
    """All due timers of these incidents of a lane, in one transaction; returns how many. Raises Busy where
    it is not to wait for what somebody else has locked."""
    with store().writing():
        held_from = thread_time()
        found = lock_families(incidents, waits=waits)
        at = now or store().now()
        # Read under the lock: another worker may have been here meanwhile.
        held = [row for row in incidents if row in found.incidents]
        taken = _due_of(held, at)
        if not taken and not waits and len(held) < len(incidents):
            raise Busy
        if not taken:
            return 0
        decided = _decided(taken, found, at)
        # Before what follows from them: it is then not for the incident's other timers to end these.
        _finish(decided, at)
        channels = apply(Outcome(effects=decided.left(at)), decided.rows()).channels
    _pace.took(len(incidents), thread_time() - held_from)
    bell.ring_deliveries(channels)
    _tell(decided, at)
    return len(taken)


@dataclass(frozen=True, slots=True)
class Wait:
    """A timer as it waits."""

    row: int
    incident: int
    kind: TimerKind
    key: str
    due_at: datetime


_DUE_OF = Prepared(
    lambda: (
        Timer.select(Timer.id, Timer.incident, Timer.kind, Timer.key, Timer.due_at)
        .where(among(Timer.incident, "incidents"), Timer.done_at.is_null(), Timer.due_at <= given("now"))
        .order_by(Timer.due_at, Timer.id)
    )
)


def _due_of(incidents: Collection[int], now: datetime) -> list[Wait]:
    found = _DUE_OF.rows(incidents=incidents, now=now) if incidents else []
    return [Wait(row, incident, TimerKind(kind), key, due_at) for row, incident, kind, key, due_at in found]


@dataclass(slots=True)
class Decided:
    """What was decided on timers, in their order. `incidents` are as the decisions so far leave them, with
    all that is merged into them."""

    incidents: dict[int, IncidentState]
    timers: list[tuple[Wait, str]] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    # What each incident waits for, by its unique_id, where a decision said so: when that is due, by its key.
    armed: dict[str, dict[str, datetime]] = field(default_factory=dict)

    def add(self, timer: Wait, outcome: str, effects: Iterable[Effect]) -> None:
        self.timers.append((timer, outcome))
        for effect in effects:
            self.effects.append(effect)
            if isinstance(effect, SaveIncident) and effect.incident.row is not None:
                self.incidents[effect.incident.row] = effect.incident
            elif isinstance(effect, ArmTimers):
                self.armed[effect.incident] = {timer.key: timer.due_at for timer in effect.wanted}

    def left(self, now: datetime) -> list[Effect]:
        """The effects, but that a timer that was decided on now waits for this very moment again."""
        fired = {(self.incidents[timer.incident].unique_id, timer.key) for timer, _ in self.timers}

        def is_over(timer: TimerState) -> bool:
            return timer.due_at <= now and (timer.incident, timer.key) in fired

        return [
            replace(effect, wanted=tuple(timer for timer in effect.wanted if not is_over(timer)))
            if isinstance(effect, ArmTimers) and any(map(is_over, effect.wanted))
            else effect
            for effect in self.effects
        ]

    def rows(self) -> dict[str, int]:
        return {one.unique_id: row for row, one in self.incidents.items()}


def _decided(taken: Iterable[Wait], found: Families, now: datetime) -> Decided:
    """Each timer decided upon, in due order: what is decided on one incident, the next timer of it sees."""
    decided = Decided(dict(found.incidents))
    children: dict[int, list[int]] = {}
    for row, one in found.incidents.items():
        if one.parent is not None:
            children.setdefault(one.parent, []).append(row)
    directories = configuration.of_incidents([found.incidents[timer.incident] for timer in taken], now)
    for timer in taken:
        incident = decided.incidents[timer.incident]
        family = (decided.incidents[row] for row in children.get(timer.incident, ()))
        around = Surroundings(
            incident,
            found.services.get(incident.service or 0),
            directories[incident.team],
            tuple(child for child in family if child.parent == timer.incident),
        )
        decided.add(timer, *due.decide(timer.kind, around, now, timer.key))
    return decided


def _finish(decided: Decided, now: datetime) -> None:
    """Done, unless the decision moved it to a later moment. Lateness is measured (design, section 6)."""
    bulk.update(
        Timer,
        [
            {"id": timer.row, "done_at": now, "outcome": f"{outcome} ({_late_ms(timer, now)} ms late)"}
            for timer, outcome in decided.timers
            if not _is_later(timer, decided, now)
        ],
    )


def _is_later(timer: Wait, decided: Decided, now: datetime) -> bool:
    armed = decided.armed.get(decided.incidents[timer.incident].unique_id, {})
    return armed.get(timer.key, now) > now


def _late_ms(timer: Wait, now: datetime) -> int:
    return int((now - timer.due_at).total_seconds() * 1000)


def _tell(decided: Decided, now: datetime) -> None:
    """Once it is committed; a line for all of them."""
    for timer, _ in decided.timers:
        metrics.count_timer(timer.kind, (now - timer.due_at).total_seconds())
    outcomes = Counter(f"{timer.kind}: {outcome}" for timer, outcome in decided.timers)
    late_ms = max(_late_ms(timer, now) for timer, _ in decided.timers)
    log.info("timers fired", count=len(decided.timers), outcomes=dict(outcomes), late_ms=late_ms)
