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

from models.domain.effects import ChangeSet, Effect, IncidentState, ReconcileTimers, SaveIncident, TimerState
from models.domain.facts import IncidentContext
from models.load.lane import LockedIncidents, lock_with_children
from models.store import bulk
from models.store.base import STORE_ERRORS, Busy, connection, store
from models.tables.timers import Timer
from models.write.apply import apply
from pipeline.incidents import timers as due
from runtime import metrics
from workers import queue as bell
from workers.alerts import config_cache
from workers.alerts.batch_size import BatchSize
from workers.timers.backoff import Failures
from workers.timers.due import (
    DueLane,
    DueTimer,
    TimerLane,
    fill_batch,
    list_due_lanes,
    load_due_timers,
    reload_due_timers,
)

log = structlog.get_logger()

# How long a pass goes by what it saw. Then it looks again: others may have been there, and more may be due.
RUN_S = 1.0
# How long a lane is waited for that somebody else holds. Others may fall due meanwhile.
LOCK_WAIT_S = 1.0

_batch_size = BatchSize()


def clear_failures() -> None:
    """Remember nothing that failed: for another store."""
    global _failed_timers, _failed_lanes
    _failed_timers = Failures[int](timedelta(seconds=2), timedelta(minutes=5))
    _failed_lanes = Failures[TimerLane](timedelta(seconds=1), timedelta(minutes=1))


# By row number.
_failed_timers: Failures[int]
_failed_lanes: Failures[TimerLane]
clear_failures()


def fire_due(now: datetime | None = None) -> int:
    """Fire every timer that is due; returns how many. Several workers may do so at once.

    A timer that cannot be decided, and a lane at which the store fails, must not stop the others: they stay
    due, and are tried again after a rest that grows. What somebody else holds for long is left to the next
    pass. Raises what the store said where no lane was worked on,
    and at once where nobody can use it.
    """
    with connection():
        run = _Run(now)
        while (lanes := run.find_lanes()) and run.run_lanes(lanes):
            pass
        run.retry_failed()
    if run.error is not None and not run.any_done:
        raise run.error
    return run.fired


class _Run:
    """One pass over all that is due."""

    def __init__(self, now: datetime | None) -> None:
        self._now = now
        self._started_at: datetime
        # Timers that failed in it; there may be more of them than are remembered.
        self._failed: set[int] = set()
        # In which round each lane had its last turn.
        self._turns: dict[TimerLane, int] = {}
        self._round = 0
        self.fired = 0
        self.any_done = False
        self.error: Exception | None = None

    def find_lanes(self) -> list[DueLane]:
        """The lanes with something due, in the order in which they have their turns."""
        self._started_at = self._now or store().now()
        found = list_due_lanes(self._started_at, self._list_excluded(), self._turns)
        return [
            due_lane
            for due_lane in found
            if not _failed_lanes.is_backing_off(due_lane.lane, self._started_at)
        ]

    def _list_excluded(self) -> frozenset[int]:
        """Timers that failed: in a batch they would fail all others of it."""
        return _failed_timers.list_keys() | self._failed

    def run_lanes(self, lanes: Iterable[DueLane]) -> bool:
        """A batch of each lane in turn, until all is done or it is time to look again; whether to do so.

        Lanes that somebody else works on are passed over. Only where there is nothing else to do one of them
        is waited for, so that a lane that is never free has its timers taken all the same.
        """
        self._round += 1
        ends_at = monotonic() + RUN_S
        queue = deque(lanes)
        busy: list[DueLane] = []
        fired_before = self.fired
        while queue and monotonic() < ends_at:
            due_lane = queue.popleft()
            if not self._process_lane(due_lane, blocking=False):
                busy.append(due_lane)
            elif due_lane.incidents:
                queue.append(due_lane)
        if busy and self.fired == fired_before:
            # By chance: one that is held for long must not keep those that are only busy from their turn.
            return self._process_lane(random.choice(busy), blocking=True)  # noqa: S311
        return True

    def _process_lane(self, due_lane: DueLane, *, blocking: bool) -> bool:
        """A batch of a lane; False where somebody else holds it."""
        try:
            incidents = fill_batch(due_lane, _batch_size.get_limit(), self._started_at, self._list_excluded())
            self._fire_batch(due_lane.lane, incidents, blocking=blocking)
        except Busy:
            return False
        except STORE_ERRORS as error:
            self._record_lane_failure(due_lane.lane, error)
            due_lane.incidents.clear()
            return True
        self._turns[due_lane.lane] = self._round
        self.any_done = True
        _failed_lanes.remove(due_lane.lane)
        for incident in incidents:
            due_lane.incidents.pop(incident, None)
        return True

    def _record_lane_failure(self, lane: TimerLane, error: Exception) -> None:
        away = store().is_unavailable(error)
        _failed_lanes.add(lane, error, self._started_at, retry_soon=away)
        if away:
            raise error
        name = type(error).__name__
        log.warning("timers cannot be taken", service=lane.service, team=lane.team, error=name)
        self.error = self.error or error

    def _fire_batch(self, lane: TimerLane, incidents: Sequence[int], *, blocking: bool) -> None:
        """Fire the due timers of these incidents of a lane, in one transaction; one by one where that fails.

        The store may fail for what others did, once. Where it fails again it may be because of one of these.
        """
        excluded = self._list_excluded()
        try:
            self.fired += _fire(
                incidents, self._now, lambda timer: timer.row not in excluded, blocking=blocking
            )
        except Busy:
            raise
        except STORE_ERRORS as error:
            _batch_size.reduce()
            if store().is_unavailable(error) or lane not in _failed_lanes:
                raise
            self._fire_one_by_one(incidents)
        except Exception as error:
            known = len(self._failed)
            self._fire_one_by_one(incidents)
            if len(self._failed) == known:
                log.exception("timers failed together, but not one by one", incidents=len(incidents))
            else:
                log.warning("timers were taken one by one", service=lane.service, error=type(error).__name__)

    def _fire_one_by_one(self, incidents: Sequence[int]) -> None:
        excluded = self._list_excluded()
        for timer in load_due_timers(incidents, self._started_at):
            if timer.row not in excluded:
                self._fire_alone(timer, blocking=True)

    def _fire_alone(self, timer: DueTimer, *, blocking: bool) -> None:
        """One timer in a transaction of its own. Of its incident others may be due, and can be decided."""
        try:
            self.fired += _fire(
                [timer.incident], self._now, lambda due_timer: due_timer.row == timer.row, blocking=blocking
            )
        except Busy:
            raise
        except Exception as error:
            if store().is_unavailable(error):
                raise
            self._failed.add(timer.row)
            failure = _failed_timers.add(timer.row, error, self._started_at)
            report = log.exception if failure.is_new else log.warning
            delay_s = failure.delay.total_seconds()
            report(
                "a timer failed",
                incident=timer.incident,
                timer=timer.key,
                error=failure.error,
                delay_s=delay_s,
            )
            return
        _failed_timers.remove(timer.row)

    def retry_failed(self) -> None:
        """Timers that failed and have rested; for as long as it goes by a look."""
        ends_at = monotonic() + RUN_S
        retryable = _failed_timers.list_retryable(self._started_at)
        still_due = reload_due_timers(retryable, self._started_at)
        for row in set(retryable) - {timer.row for timer in still_due}:
            _failed_timers.remove(row)
        for timer in still_due:
            if monotonic() > ends_at:
                return
            try:
                self._fire_alone(timer, blocking=False)
            except Busy:
                continue


def _fire(
    incidents: Collection[int],
    now: datetime | None,
    is_selected: Callable[[DueTimer], bool],
    *,
    blocking: bool,
) -> int:
    """Due timers of these incidents of a lane, in one transaction; returns how many. Raises Busy where
    somebody else has them locked, and it is not to wait, or not for so long."""
    with store().write_transaction():
        started = thread_time()
        with store().lock_timeout(LOCK_WAIT_S):
            found = lock_with_children(incidents, blocking=blocking)
        at = now or store().now()
        # Read under the lock: another worker may have been here meanwhile.
        locked = [row for row in incidents if row in found.incidents]
        taken = [timer for timer in load_due_timers(locked, at) if is_selected(timer)]
        if not taken and not blocking and len(locked) < len(incidents):
            raise Busy
        if not taken:
            return 0
        decisions = _decide_timers(taken, found, at)
        # Before what follows from them: it is then not for the incident's other timers to end these.
        _mark_done(decisions, at)
        channels = apply(ChangeSet(effects=decisions.get_effects(at)), decisions.rows()).channels
    _batch_size.adjust(len(incidents), thread_time() - started)
    bell.enqueue_deliveries(channels)
    _report(decisions, at)
    return len(taken)


@dataclass(slots=True)
class TimerDecisions:
    """What was decided on timers, in their order. `incidents` are as the decisions so far leave them, with
    all that is merged into them."""

    incidents: dict[int, IncidentState]
    timers: list[tuple[DueTimer, str]] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    # What each incident waits for, by its unique_id, where a decision said so: when that is due, by its key.
    next_due: dict[str, dict[str, datetime]] = field(default_factory=dict)

    def add(self, timer: DueTimer, outcome: str, effects: Iterable[Effect]) -> None:
        self.timers.append((timer, outcome))
        for effect in effects:
            self.effects.append(effect)
            if isinstance(effect, SaveIncident) and effect.incident.row is not None:
                self.incidents[effect.incident.row] = effect.incident
            elif isinstance(effect, ReconcileTimers):
                self.next_due[effect.incident] = {timer.key: timer.due_at for timer in effect.expected}

    def get_effects(self, now: datetime) -> list[Effect]:
        """The effects, but that a timer that was decided on now waits for this very moment again."""
        fired = {(self.incidents[timer.incident].unique_id, timer.key) for timer, _ in self.timers}

        def is_due_again(timer: TimerState) -> bool:
            return timer.due_at <= now and (timer.incident, timer.key) in fired

        return [
            replace(effect, expected=tuple(timer for timer in effect.expected if not is_due_again(timer)))
            if isinstance(effect, ReconcileTimers) and any(map(is_due_again, effect.expected))
            else effect
            for effect in self.effects
        ]

    def rows(self) -> dict[str, int]:
        return {incident.unique_id: row for row, incident in self.incidents.items()}


def _decide_timers(taken: Iterable[DueTimer], found: LockedIncidents, now: datetime) -> TimerDecisions:
    """Each timer decided upon, in due order: what is decided on one incident, the next timer of it sees."""
    decisions = TimerDecisions(dict(found.incidents))
    children: dict[int, list[int]] = {}
    for row, incident in found.incidents.items():
        if incident.parent is not None:
            children.setdefault(incident.parent, []).append(row)
    configs = config_cache.get_oncall_configs([found.incidents[timer.incident] for timer in taken], now)
    for timer in taken:
        incident = decisions.incidents[timer.incident]
        merged = (decisions.incidents[row] for row in children.get(timer.incident, ()))
        context = IncidentContext(
            incident,
            found.services.get(incident.service or 0),
            configs[incident.team],
            tuple(child for child in merged if child.parent == timer.incident),
        )
        decisions.add(timer, *due.decide(timer.kind, context, now, timer.key))
    return decisions


def _mark_done(decisions: TimerDecisions, now: datetime) -> None:
    """Done, unless the decision moved it to a later moment. Lateness is measured (design, section 6)."""
    bulk.update(
        Timer,
        [
            {"id": timer.row, "done_at": now, "outcome": f"{outcome} ({_get_late_ms(timer, now)} ms late)"}
            for timer, outcome in decisions.timers
            if not _is_later(timer, decisions, now)
        ],
    )


def _is_later(timer: DueTimer, decisions: TimerDecisions, now: datetime) -> bool:
    next_due = decisions.next_due.get(decisions.incidents[timer.incident].unique_id, {})
    return next_due.get(timer.key, now) > now


def _get_late_ms(timer: DueTimer, now: datetime) -> int:
    return int((now - timer.due_at).total_seconds() * 1000)


def _report(decisions: TimerDecisions, now: datetime) -> None:
    """Once it is committed; a line for all of them."""
    for timer, _ in decisions.timers:
        metrics.count_timer(timer.kind, (now - timer.due_at).total_seconds())
    outcomes = Counter(f"{timer.kind}: {outcome}" for timer, outcome in decisions.timers)
    late_ms = max(_get_late_ms(timer, now) for timer, _ in decisions.timers)
    log.info("timers fired", count=len(decisions.timers), outcomes=dict(outcomes), late_ms=late_ms)
