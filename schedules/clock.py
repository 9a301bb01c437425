"""The clock process: rq-scheduler with slots at a fixed rate, which may run twice and never doubles.

Only the database knows what is due; each tick asks it and rings. The schedule itself, in Redis, is a
way for several clocks to share the ticks, and is made anew whenever it is found missing or wrong.
"""

import math
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import redis
import structlog
from rq.job import Job
from rq.serializers import JSONSerializer
from rq_scheduler import Scheduler

from models.store.base import STORE_ERRORS, connection, store
from models.tables.accounts import Liveness
from runtime.signals import Signals
from workers import queue
from workers.delivery import outbox
from workers.periodic import due_scan, missing_heartbeats, release_maintenance, retention
from workers.timers import audit

log = structlog.get_logger()

# While Redis is away, how often it is tried.
RETRY_S = 0.5
# An empty schedule is noticed after this time at the latest.
MAX_SLEEP_S = 1.0

# Time by the one clock that all schedulers share, and the whole schedule, in one look.
READ_SCRIPT = """
local time = redis.call('TIME')
return {time[1], time[2], redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')}
"""

# Move a job from the slot that was seen to another; only one of several clocks succeeds.
MOVE_SCRIPT = """
local slot = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not slot or tonumber(slot) ~= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
return 1
"""


# Between two beats, and so how far the clock may have gone on after the last.
LIVENESS_PERIOD_S = 5


def record_liveness() -> None:
    """Leave a sign of life for /readyz. If the last one lies ahead, the clock was set back: pages that were
    due by then do not wait until it shows the same again."""
    period = timedelta(seconds=LIVENESS_PERIOD_S)
    with connection(), store().write_transaction():
        now = store().now()
        last = Liveness.get_or_none(Liveness.process == "clock")
        if last is not None and last.at > now + period:
            outbox.handle_clock_set_back(last.at + period, now)
            log.warning("the clock was set back", seconds=round((last.at - now).total_seconds()))
        query = Liveness.insert(process="clock", at=now, detail={})
        query.on_conflict(conflict_target=[Liveness.process], update={Liveness.at: now}).execute()


@dataclass(frozen=True, slots=True)
class PeriodicJob:
    """A job at every whole multiple of `every_s` seconds. `slow` ones run beside the ticks, each
    in a thread of its own, if it does not run already."""

    name: str
    every_s: int
    run: Callable[[], object]
    slow: bool = False

    @property
    def id(self) -> str:
        return f"tocsin-{self.name}"

    def get_next_slot(self, moment: float) -> int:
        return (math.floor(moment / self.every_s) + 1) * self.every_s


PERIODIC_JOBS = (
    PeriodicJob("due-scan", 1, due_scan.enqueue_due),
    PeriodicJob("maintenance", 1, release_maintenance.enqueue_ended),
    PeriodicJob("pings", 1, missing_heartbeats.enqueue_overdue),
    PeriodicJob("sweep", 2, due_scan.enqueue_stale),
    PeriodicJob("liveness", LIVENESS_PERIOD_S, record_liveness),
    PeriodicJob("audit", 300, audit.audit, slow=True),
    PeriodicJob("clean-up", 3600, retention.clean_up, slow=True),
)


class JsonJob(Job):
    """A job that Redis keeps as JSON: rq's own pickle would run whatever stands there."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["serializer"] = JSONSerializer
        super().__init__(*args, **kwargs)


class PeriodicScheduler(Scheduler):
    """Runs periodic jobs itself instead of passing them to rq's workers, and outlives Redis."""

    job_class = JsonJob
    scheduled_jobs_key = "tocsin:clock"

    def __init__(self, connection: Any, periodic: tuple[PeriodicJob, ...] = PERIODIC_JOBS) -> None:
        super().__init__(connection=connection, job_class=JsonJob)
        self._periodic = periodic
        self._read_script = connection.register_script(READ_SCRIPT)
        self._move_script = connection.register_script(MOVE_SCRIPT)
        slow = sum(job.slow for job in periodic)
        self._executor = ThreadPoolExecutor(max(slow, 1), thread_name_prefix="slow")
        self._running: dict[str, Future[None]] = {}

    def run_until_stopped(self, signals: Signals) -> None:
        delay = 0.0
        while not signals.wait_for_stop(delay):
            delay = self.run_once()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def run_once(self) -> float:
        """One pass; returns how many seconds to sleep until the next. Redis being away ends nothing."""
        try:
            delay = self.enqueue_jobs()
        except (redis.RedisError, OSError) as error:
            queue.redis_status.report_down(error)
            return RETRY_S
        queue.redis_status.report_up()
        return delay

    def enqueue_jobs(self) -> float:
        """Run what is due and mend the schedule; returns the seconds until the next slot."""
        looked_at = time.monotonic()
        now, slots = self._read_slots()
        nearest = min(self._run_if_due(job, slots.get(job.id), now) for job in self._periodic)
        return min(max(nearest - now - (time.monotonic() - looked_at), 0.0), MAX_SLEEP_S)

    def _run_if_due(self, job: PeriodicJob, slot: float | None, now: float) -> float:
        """Run a job whose slot has come, once among all clocks; returns its next slot."""
        upcoming = job.get_next_slot(now)
        if slot is None:
            self._add_job(job, upcoming)
            return upcoming
        if slot <= now:
            if self._move_slot(job, slot, upcoming):
                self.enqueue_job(job)
            return upcoming
        if slot > now + job.every_s:
            # The clock was set back: this slot belonged to a time that is far away again.
            self._move_slot(job, slot, upcoming)
            return upcoming
        return slot

    def _read_slots(self) -> tuple[float, dict[str, float]]:
        seconds, micros, flat = self._read_script(keys=[self.scheduled_jobs_key])
        slots = {name.decode(): float(score) for name, score in zip(flat[::2], flat[1::2], strict=True)}
        return int(seconds) + int(micros) / 1e6, slots

    def _move_slot(self, job: PeriodicJob, seen: float, slot: int) -> bool:
        return bool(self._move_script(keys=[self.scheduled_jobs_key], args=[job.id, repr(seen), slot]))

    def _add_job(self, job: PeriodicJob, slot: int) -> None:
        """Register a job that the schedule lacks; another clock may do so at the same time."""
        self._create_job(job.run, id=job.id, result_ttl=-1, meta={"interval": job.every_s})
        self.connection.zadd(self.scheduled_jobs_key, {job.id: slot}, nx=True)

    def enqueue_job(self, job: PeriodicJob) -> None:
        if not job.slow:
            run_job(job)
            return
        running = self._running.get(job.name)
        if running is None or running.done():
            self._running[job.name] = self._executor.submit(run_job, job)


def run_job(job: PeriodicJob) -> None:
    """Run a job, whatever comes of it: its next slot comes anyway."""
    try:
        job.run()
    except STORE_ERRORS as error:
        log.warning("the database cannot be used", job=job.name, error=type(error).__name__)
    except Exception:
        log.exception("a periodic job failed", job=job.name)


def run(redis_url: str, split_after: Iterable[str] = (), extra_jobs: tuple[PeriodicJob, ...] = ()) -> None:
    """Tick until the process is asked to stop; `cuts` are where the road is cut into queues, `more` jobs that
    not every installation has."""
    signals = Signals()
    queue.connect(redis_url, split_after)
    clock = PeriodicScheduler(queue.create_client(redis_url), (*PERIODIC_JOBS, *extra_jobs))
    log.info("ticking")
    clock.run_until_stopped(signals)
