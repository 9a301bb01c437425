"""Due timers: take them, decide again from what is true now, write.

Those of one service are taken together, a bounded number of incidents in one transaction (decision 0019). A
timer is marked done in the transaction of its effects, so one that was taken by a killed worker is simply
due again.
"""

import random
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from time import monotonic, thread_time

import structlog

from models import bulk
from models.apply import apply
from models.base import STORE_ERRORS, Busy, connection, store
from models.effects import ArmTimers, Effect, IncidentState, Outcome, SaveIncident, TimerState
from models.facts import Surroundings
from models.loading import Families, lock_families
from models.timers import Timer
from schedules import due
from tocsin import metrics
from workers import bell, configuration
from workers.due_timers import Due, Lane, Wait, due_among, due_lanes, due_of, filled
from workers.failures import Failures
from workers.pace import Pace

log = structlog.get_logger()

# How long a pass goes by what it saw. Then it looks again: others may have been there, and more may be due.
LOOK_AGAIN_S = 1.0
# How long a lane is waited for that somebody else holds. Others may fall due meanwhile.
LOCK_WAIT_S = 1.0

_pace = Pace()


def forget() -> None:
    """Remember nothing that failed: for another store."""
    global _failed_timers, _failed_lanes
    _failed_timers = Failures[int](timedelta(seconds=2), timedelta(minutes=5))
    _failed_lanes = Failures[Lane](timedelta(seconds=1), timedelta(minutes=1))


# By row number.
_failed_timers: Failures[int]
_failed_lanes: Failures[Lane]
forget()


def run_due(now: datetime | None = None) -> int:
    """Fire every timer that is due; returns how many. Several workers may do so at once.

    A timer that cannot be decided, and a lane at which the store fails, must not stop the others: they stay
    due, and are tried again after a rest that grows. What somebody else holds for long is left to the next
    pass. Raises what the store said where no lane was worked on,
    and at once where nobody can use it.
    """
    with connection():
        this = _Pass(now)
        while (lanes := this.look()) and this.work(lanes):
            pass
        this.try_again()
    if this.error is not None and not this.worked:
        raise this.error
    return this.fired


class _Pass:
    """One pass over all that is due."""

    def __init__(self, now: datetime | None) -> None:
        self._now = now
        self._looked_at: datetime
        # Timers that failed in it; there may be more of them than are remembered.
        self._failed: set[int] = set()
        # In which round each lane had its last turn.
        self._turns: dict[Lane, int] = {}
        self._round = 0
        self.fired = 0
        self.worked = False
        self.error: Exception | None = None

    def look(self) -> list[Due]:
        """The lanes with something due, in the order in which they have their turns."""
        self._looked_at = self._now or store().now()
        found = due_lanes(self._looked_at, self._left_out(), self._turns)
        return [each for each in found if not _failed_lanes.rests(each.lane, self._looked_at)]

    def _left_out(self) -> frozenset[int]:
        """Timers that failed: in a batch they would fail all others of it."""
        return _failed_timers.known() | self._failed

    def work(self, lanes: Iterable[Due]) -> bool:
        """A batch of each lane in turn, until all is done or it is time to look again; whether to do so.

        Lanes that somebody else works on are passed over. Only where there is nothing else to do one of them
        is waited for, so that a lane that is never free has its timers taken all the same.
        """
        self._round += 1
        ends_at = monotonic() + LOOK_AGAIN_S
        waiting = deque(lanes)
        busy: list[Due] = []
        fired_before = self.fired
        while waiting and monotonic() < ends_at:
            each = waiting.popleft()
            if not self._turn(each, waits=False):
                busy.append(each)
            elif each.incidents:
                waiting.append(each)
        if busy and self.fired == fired_before:
            # By chance: one that is held for long must not keep those that are only busy from their turn.
            return self._turn(random.choice(busy), waits=True)  # noqa: S311
        return True

    def _turn(self, each: Due, *, waits: bool) -> bool:
        """A batch of a lane; False where somebody else holds it."""
        try:
            incidents = filled(each, _pace.most(), self._looked_at, self._left_out())
            self._batch(each.lane, incidents, waits=waits)
        except Busy:
            return False
        except STORE_ERRORS as error:
            self._lane_failed(each.lane, error)
            each.incidents.clear()
            return True
        self._turns[each.lane] = self._round
        self.worked = True
        _failed_lanes.forget(each.lane)
        for incident in incidents:
            each.incidents.pop(incident, None)
        return True

    def _lane_failed(self, lane: Lane, error: Exception) -> None:
        away = store().is_away(error)
        _failed_lanes.add(lane, error, self._looked_at, again_soon=away)
        if away:
            raise error
        name = type(error).__name__
        log.warning("timers cannot be taken", service=lane.service, team=lane.team, error=name)
        self.error = self.error or error

    def _batch(self, lane: Lane, incidents: Sequence[int], *, waits: bool) -> None:
        """Fire the due timers of these incidents of a lane, in one transaction; one by one where that fails.

        The store may fail for what others did, once. Where it fails again it may be because of one of these.
        """
        left_out = self._left_out()
        try:
            self.fired += _fire(incidents, self._now, lambda timer: timer.row not in left_out, waits=waits)
        except Busy:
            raise
        except STORE_ERRORS as error:
            _pace.failed()
            if store().is_away(error) or lane not in _failed_lanes:
                raise
            self._one_by_one(incidents)
        except Exception as error:
            known = len(self._failed)
            self._one_by_one(incidents)
            if len(self._failed) == known:
                log.exception("timers failed together, but not one by one", incidents=len(incidents))
            else:
                log.warning("timers were taken one by one", service=lane.service, error=type(error).__name__)

    def _one_by_one(self, incidents: Sequence[int]) -> None:
        left_out = self._left_out()
        for timer in due_of(incidents, self._looked_at):
            if timer.row not in left_out:
                self._alone(timer, waits=True)

    def _alone(self, timer: Wait, *, waits: bool) -> None:
        """One timer in a transaction of its own. Of its incident others may be due, and can be decided."""
        try:
            self.fired += _fire([timer.incident], self._now, lambda one: one.row == timer.row, waits=waits)
        except Busy:
            raise
        except Exception as error:
            if store().is_away(error):
                raise
            self._failed.add(timer.row)
            failure = _failed_timers.add(timer.row, error, self._looked_at)
            tell = log.exception if failure.is_news else log.warning
            rest_s = failure.rest.total_seconds()
            tell(
                "a timer failed", incident=timer.incident, timer=timer.key, error=failure.error, rest_s=rest_s
            )
            return
        _failed_timers.forget(timer.row)

    def try_again(self) -> None:
        """Timers that failed and have rested; for as long as it goes by a look."""
        ends_at = monotonic() + LOOK_AGAIN_S
        rested = _failed_timers.rested(self._looked_at)
        left = due_among(rested, self._looked_at)
        for row in set(rested) - {timer.row for timer in left}:
            _failed_timers.forget(row)
        for timer in left:
            if monotonic() > ends_at:
                return
            try:
                self._alone(timer, waits=False)
            except Busy:
                continue


def _fire(
    incidents: Collection[int], now: datetime | None, is_meant: Callable[[Wait], bool], *, waits: bool
) -> int:
    """Due timers of these incidents of a lane, in one transaction; returns how many. Raises Busy where
    somebody else has them locked, and it is not to wait, or not for so long."""
    with store().writing():
        held_from = thread_time()
        with store().patience(LOCK_WAIT_S):
            found = lock_families(incidents, waits=waits)
        at = now or store().now()
        # Read under the lock: another worker may have been here meanwhile.
        held = [row for row in incidents if row in found.incidents]
        taken = [timer for timer in due_of(held, at) if is_meant(timer)]
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
