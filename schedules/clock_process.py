"""The clock process: rq-scheduler with slots at a fixed rate. Several may run; each slot runs once.

Only the database knows which work is due. Most jobs query it and enqueue wake-ups; the others do their work
in this process. The schedule itself is in Redis, so that several clock processes share the slots. Each of
them repairs the schedule if a job is missing or has a wrong slot. workers/periodic/table.py has the jobs.
"""

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import redis
import structlog
from rq.job import Job
from rq.serializers import JSONSerializer
from rq_scheduler import Scheduler

from models.store.store import STORE_ERRORS
from runtime.redis import create_client, redis_status
from runtime.signals import Signals

log = structlog.get_logger()

# How often to try while Redis is down.
RETRY_S = 0.5
# If the schedule in Redis is lost, the clock process detects it within this time.
MAX_SLEEP_S = 1.0

# The time of the Redis server, which all schedulers share, and the whole schedule, in one read.
READ_SCRIPT = """
local time = redis.call('TIME')
return {time[1], time[2], redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')}
"""

# Move a job from the slot that was read to another slot. Only one of several clock processes succeeds.
MOVE_SCRIPT = """
local slot = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not slot or tonumber(slot) ~= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
return 1
"""


@dataclass(frozen=True, slots=True)
class PeriodicJob:
    """A job that runs at every whole multiple of `every_s` seconds.

    A `slow` job runs in a separate thread. It is not started again while it is still running.
    """

    name: str
    every_s: int
    run: Callable[[], object]
    slow: bool = False

    @property
    def id(self) -> str:
        return f"tocsin-{self.name}"

    def get_next_slot(self, moment: float) -> int:
        return (math.floor(moment / self.every_s) + 1) * self.every_s


class JsonJob(Job):
    """A job that Redis stores as JSON. The default, pickle, would run any code that is stored in Redis."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["serializer"] = JSONSerializer
        super().__init__(*args, **kwargs)


class PeriodicScheduler(Scheduler):
    """Run periodic jobs in this process instead of in rq's workers.

    While Redis is down, no job runs. The poller of the workers then does the urgent work.
    """

    job_class = JsonJob
    scheduled_jobs_key = "tocsin:clock"

    def __init__(self, connection: redis.Redis, periodic: Sequence[PeriodicJob]) -> None:
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
        """Make one pass and return the seconds to sleep until the next. Without Redis, no job runs."""
        began_at = time.monotonic()
        try:
            delay = self.enqueue_jobs()
        except (redis.RedisError, OSError) as error:
            redis_status.report_down(error, began_at)
            return RETRY_S
        redis_status.report_up(began_at)
        return delay

    def enqueue_jobs(self) -> float:
        """Run the due jobs and repair the schedule. Return the seconds until the next slot.

        This method replaces the method of rq-scheduler with the same name. That one puts jobs into a queue
        for a worker; this one runs them in this process.
        """
        looked_at = time.monotonic()
        now, slots = self._read_slots()
        nearest = min(self._run_if_due(job, slots.get(job.id), now) for job in self._periodic)
        return min(max(nearest - now - (time.monotonic() - looked_at), 0.0), MAX_SLEEP_S)

    def _run_if_due(self, job: PeriodicJob, slot: float | None, now: float) -> float:
        """Run a job if its slot has come, once among all clock processes. Return its next slot."""
        upcoming = job.get_next_slot(now)
        if slot is None:
            self._add_job(job, upcoming)
            return upcoming
        if slot <= now:
            if self._move_slot(job, slot, upcoming):
                self._start_job(job)
            return upcoming
        if slot > now + job.every_s:
            # The clock of the Redis server was set back, so this slot is far in the future.
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
        """Add a job that the schedule lacks. Another clock process may do so at the same time."""
        self._create_job(job.run, id=job.id, result_ttl=-1, meta={"interval": job.every_s})
        self.connection.zadd(self.scheduled_jobs_key, {job.id: slot}, nx=True)

    def _start_job(self, job: PeriodicJob) -> None:
        """Run a quick job now, or start a slow one in its thread."""
        if not job.slow:
            run_job(job)
            return
        running = self._running.get(job.name)
        if running is None or running.done():
            self._running[job.name] = self._executor.submit(run_job, job)


def run_job(job: PeriodicJob) -> None:
    """Run a job. An error is logged; the job runs again at its next slot."""
    try:
        job.run()
    except STORE_ERRORS as error:
        log.warning("the database cannot be used", job=job.name, error=type(error).__name__)
    except Exception:
        log.exception("a periodic job failed", job=job.name)


def run(redis_url: str, jobs: Sequence[PeriodicJob]) -> None:
    """Run these jobs at their times until the process is asked to stop."""
    signals = Signals()
    scheduler = PeriodicScheduler(create_client(redis_url), jobs)
    log.info("clock started", jobs=len(jobs))
    scheduler.run_until_stopped(signals)
