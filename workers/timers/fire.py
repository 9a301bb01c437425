"""Fire due timers: load them, decide from the current facts, write.

The timers of one service are fired together, with a limited number of incidents in one transaction (decision
0019). A timer is marked as done in the transaction of its effects. So if a worker is killed, the timer is due
again.
"""

import random
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic, thread_time

import dramatiq
import structlog

from models.domain.effects import ChangeSet, Effect, IncidentState, ReconcileTimers, SaveIncident, TimerState
from models.domain.facts import IncidentContext, TimerDecision
from models.domain.reasons import make_reason
from models.domain.values import replace
from models.load.lane import LockedIncidents, lock_with_children
from models.store import bulk
from models.store.store import STORE_ERRORS, Busy, store
from models.tables.timers import Timer
from models.write.apply import apply
from pipeline.incidents.decide_timer import build_timer_author, decide_timer
from runtime import metrics
from workers import config_cache
from workers.alerts.batches import BatchSize
from workers.broker import broker
from workers.delivery import deliver
from workers.lane_turns import turns
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

# The longest time until a pass reads the list of due timers again. Other workers may have fired some of them
# meanwhile, and more timers may be due.
PASS_S = 1.0
# How long a worker waits for a lane that another one has locked. Other timers may become due meanwhile.
LOCK_TIMEOUT_S = 1.0

_batch_size = BatchSize()


def clear_failures() -> None:
    """Forget all failures, for a process that connects to another database."""
    global _failed_timers, _failed_lanes
    _failed_timers = Failures[int](timedelta(seconds=2), timedelta(minutes=5))
    _failed_lanes = Failures[TimerLane](timedelta(seconds=1), timedelta(minutes=1))


# Failed timers, by row number of the timer.
_failed_timers: Failures[int]
_failed_lanes: Failures[TimerLane]
clear_failures()


@dramatiq.actor(broker=broker, queue_name="timers", actor_name="timers")
def fire_timers() -> None:
    """Fire every due timer. One actor thread of a process at a time does this.

    The poller may also fire timers at the same time.
    """
    if turns.work("timers", fire_due):
        fire_timers.send()


def fire_due(now: datetime | None = None) -> int:
    """Fire every due timer. Return the number of decisions, including timers that were only moved.

    Several workers may do this at the same time.

    A timer that fails, or a lane for which the database fails, does not stop the others: it stays due, and is
    retried after a delay that grows. A lane that another worker has locked for long is skipped until the next
    pass. Raise the error of the database if no lane was processed, and immediately if the database is
    unavailable.
    """
    this_pass = _Pass(now)
    while (lanes := this_pass.find_lanes()) and this_pass.fire_lanes(lanes):
        pass
    this_pass.retry_failed()
    if this_pass.error is not None and not this_pass.any_done:
        raise this_pass.error
    return this_pass.fired


class _Pass:
    """One pass over all due timers."""

    def __init__(self, now: datetime | None) -> None:
        self._now = now
        self._started_at: datetime
        # Timers that failed in this pass; there may be more of them than _failed_timers remembers.
        self._failed: set[int] = set()
        # The round of each lane's last turn.
        self._last_rounds: dict[TimerLane, int] = {}
        self._round = 0
        self.fired = 0
        self.any_done = False
        self.error: Exception | None = None

    def find_lanes(self) -> list[DueLane]:
        """List the lanes with due timers, in the order of their last rounds."""
        self._started_at = self._now or store().now()
        found = list_due_lanes(self._started_at, self._list_excluded(), self._last_rounds)
        return [
            due_lane
            for due_lane in found
            if not _failed_lanes.is_backing_off(due_lane.lane, self._started_at)
        ]

    def _list_excluded(self) -> frozenset[int]:
        """Return the timers that failed: in a batch they would make all others fail too."""
        return _failed_timers.list_keys() | self._failed

    def fire_lanes(self, lanes: Iterable[DueLane]) -> bool:
        """Fire a batch of one lane after the other, until all is done or PASS_S are over.

        Return whether to search again.

        Skip lanes that another worker has locked. If there is nothing else to do, wait for one of them. So
        the timers of a lane that is always busy are fired too.
        """
        self._round += 1
        ends_at = monotonic() + PASS_S
        due_lanes = deque(lanes)
        busy: list[DueLane] = []
        fired_before = self.fired
        while due_lanes and monotonic() < ends_at:
            due_lane = due_lanes.popleft()
            if not self._process_lane(due_lane, blocking=False):
                busy.append(due_lane)
            elif due_lane.incidents:
                due_lanes.append(due_lane)
        if busy and self.fired == fired_before:
            # Random: a lane that is locked for long must not delay lanes that are locked only briefly.
            return self._process_lane(random.choice(busy), blocking=True)  # noqa: S311
        return True

    def _process_lane(self, due_lane: DueLane, *, blocking: bool) -> bool:
        """Fire a batch of a lane. Return False if another worker has locked the lane."""
        try:
            incidents = fill_batch(due_lane, _batch_size.get_limit(), self._started_at, self._list_excluded())
            self._fire_batch(due_lane.lane, incidents, blocking=blocking)
        except Busy:
            return False
        except STORE_ERRORS as error:
            self._record_lane_failure(due_lane.lane, error)
            due_lane.incidents.clear()
            return True
        self._last_rounds[due_lane.lane] = self._round
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
        log.warning("timers of a lane could not be fired", service=lane.service, team=lane.team, error=name)
        self.error = self.error or error

    def _fire_batch(self, lane: TimerLane, incidents: Sequence[int], *, blocking: bool) -> None:
        """Fire the due timers of these incidents in one transaction, or one by one if that fails.

        After the first error of the database for a lane, the whole batch is tried again later: other
        transactions may be the cause. After the next error, the timers are fired one by one: one of them may
        be the cause.
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
            lane_log = log.bind(service=lane.service, team=lane.team)
            if len(self._failed) == known:
                what = "batch of timers failed, but no single timer failed"
                lane_log.exception(what, incidents=list(incidents))
            else:
                lane_log.warning("timers were fired one by one", error=type(error).__name__)

    def _fire_one_by_one(self, incidents: Sequence[int]) -> None:
        excluded = self._list_excluded()
        for timer in load_due_timers(incidents, self._started_at):
            if timer.row not in excluded:
                self._fire_alone(timer, blocking=True)

    def _fire_alone(self, timer: DueTimer, *, blocking: bool) -> None:
        """Fire one timer in its own transaction. Other due timers of its incident may succeed."""
        try:
            self.fired += _fire(
                [timer.incident_row], self._now, lambda each: each.row == timer.row, blocking=blocking
            )
        except Busy:
            raise
        except Exception as error:
            if store().is_unavailable(error):
                raise
            self._failed.add(timer.row)
            failure = _failed_timers.add(timer.row, error, self._started_at)
            timer_log = log.bind(incident=timer.incident_row, timer=timer.key)
            report = timer_log.exception if failure.is_new else timer_log.warning
            report("timer failed", error=failure.error, delay_s=failure.delay.total_seconds())
            return
        _failed_timers.remove(timer.row)

    def retry_failed(self) -> None:
        """Retry the timers whose delay after a failure is over, for at most PASS_S."""
        ends_at = monotonic() + PASS_S
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
    """Fire the selected due timers of these incidents in one transaction. Return how many were fired.

    Raise Busy if another worker has locked the lane: immediately, or after LOCK_TIMEOUT_S if `blocking`.
    """
    with store().write_transaction():
        started = thread_time()
        with store().lock_timeout(LOCK_TIMEOUT_S):
            found = lock_with_children(incidents, blocking=blocking)
        at = now or store().now()
        # Read under the lock: another worker may have fired some meanwhile.
        locked = [row for row in incidents if row in found.incidents]
        taken = [timer for timer in load_due_timers(locked, at) if is_selected(timer)]
        if not taken and not blocking and len(locked) < len(incidents):
            raise Busy
        if not taken:
            return 0
        decisions = _decide_timers(taken, found, at)
        # Mark the fired timers as done first. Then the effects cannot change them.
        _mark_done(decisions, at)
        channels = apply(ChangeSet(effects=decisions.get_effects(at)), decisions.rows()).channels
    _batch_size.adjust(len(incidents), thread_time() - started)
    deliver.enqueue(channels)
    _report(decisions, at)
    return len(taken)


@dataclass(slots=True)
class TimerDecisions:
    """The decisions on timers, in their order.

    `incidents` are the incidents after the decisions so far, and the incidents that are merged into them.
    """

    incidents: dict[int, IncidentState]
    timers: list[tuple[DueTimer, TimerDecision]] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    # For each incident (unique_id) whose timers a decision reconciled: its due times, by timer key.
    next_due: dict[str, dict[str, datetime]] = field(default_factory=dict)

    def add(self, timer: DueTimer, decision: TimerDecision) -> None:
        self.timers.append((timer, decision))
        for effect in decision.effects:
            self.effects.append(effect)
            if isinstance(effect, SaveIncident) and effect.incident.row is not None:
                self.incidents[effect.incident.row] = effect.incident
            elif isinstance(effect, ReconcileTimers):
                self.next_due[effect.incident] = {timer.key: timer.due_at for timer in effect.expected}

    def get_effects(self, now: datetime) -> list[Effect]:
        """Return the effects, but without timers that just fired and would be due again immediately.

        Otherwise the pass would fire them again without end.
        """
        just_fired = {(self.incidents[timer.incident_row].unique_id, timer.key) for timer, _ in self.timers}

        # Only a faulty kind of timer is due again immediately. The audit creates the timer again.
        def is_due_again(timer: TimerState) -> bool:
            return timer.due_at <= now and (timer.incident, timer.key) in just_fired

        return [
            replace(effect, expected=tuple(timer for timer in effect.expected if not is_due_again(timer)))
            if isinstance(effect, ReconcileTimers) and any(map(is_due_again, effect.expected))
            else effect
            for effect in self.effects
        ]

    def rows(self) -> dict[str, int]:
        return {incident.unique_id: row for row, incident in self.incidents.items()}


def _decide_timers(taken: Iterable[DueTimer], found: LockedIncidents, now: datetime) -> TimerDecisions:
    """Decide on each timer in due order. A decision changes the incident that the next timer sees."""
    decisions = TimerDecisions(dict(found.incidents))
    children: dict[int, list[int]] = {}
    for row, incident in found.incidents.items():
        if incident.parent is not None:
            children.setdefault(incident.parent, []).append(row)
    configs = config_cache.get_oncall_configs([found.incidents[timer.incident_row] for timer in taken], now)
    for timer in taken:
        incident = decisions.incidents[timer.incident_row]
        merged = (decisions.incidents[row] for row in children.get(timer.incident_row, ()))
        context = IncidentContext(
            incident,
            found.services.get(incident.service or 0),
            configs[incident.team],
            build_timer_author(timer.kind),
            now,
            tuple(child for child in merged if child.parent == timer.incident_row),
        )
        decisions.add(timer, decide_timer(context, timer.kind, timer.key))
    return decisions


def _mark_done(decisions: TimerDecisions, now: datetime) -> None:
    """Mark timers as done, unless the decision moved them to a later time. Record how late they were.

    The lateness is a measure of Tocsin's service level (design, section 6).
    """
    bulk.update(
        Timer,
        [
            {
                "id": timer.row,
                "done_at": now,
                "outcome": decision.outcome.add(make_reason("late", ms=_get_late_ms(timer, now))),
                "fired": decision.fired,
            }
            for timer, decision in decisions.timers
            if not _is_later(timer, decisions, now)
        ],
    )


def _is_later(timer: DueTimer, decisions: TimerDecisions, now: datetime) -> bool:
    next_due = decisions.next_due.get(decisions.incidents[timer.incident_row].unique_id, {})
    return next_due.get(timer.key, now) > now


def _get_late_ms(timer: DueTimer, now: datetime) -> int:
    return int((now - timer.due_at).total_seconds() * 1000)


def _report(decisions: TimerDecisions, now: datetime) -> None:
    """Count and log the fired timers after the commit, with one log line for all of them."""
    for timer, _ in decisions.timers:
        metrics.count_timer(timer.kind, (now - timer.due_at).total_seconds())
    outcomes = Counter(f"{timer.kind}: {decision.outcome.code}" for timer, decision in decisions.timers)
    late_ms = max(_get_late_ms(timer, now) for timer, _ in decisions.timers)
    incidents = sorted({timer.incident_row for timer, _ in decisions.timers})
    log.info(
        "timers fired",
        count=len(decisions.timers),
        incidents=incidents,
        outcomes=dict(outcomes),
        late_ms=late_ms,
    )
