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

from models.accounts import Heartbeat
from models.base import STORE_ERRORS, connection, store
from tocsin.signals import Signals
from workers import audit, bell, heartbeats, maintenance, outbox, retention, ticks

log = structlog.get_logger()

# While Redis is away, how often it is tried.
RETRY_S = 0.5
# An empty schedule is noticed after this time at the latest.
LONGEST_NAP_S = 1.0

# Time by the one clock that all schedulers share, and the whole schedule, in one look.
LOOK = """
local time = redis.call('TIME')
return {time[1], time[2], redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')}
"""

# Move a job from the slot that was seen to another; only one of several clocks succeeds.
MOVE = """
local slot = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not slot or tonumber(slot) ~= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
return 1
"""


# Between two beats, and so how far the clock may have gone on after the last.
BEAT_S = 5


def beat() -> None:
    """Leave a sign of life for /readyz. If the last one lies ahead, the clock was set back: pages that were
    due by then do not wait until it shows the same again."""
    between = timedelta(seconds=BEAT_S)
    with connection(), store().writing():
        now = store().now()
        last = Heartbeat.get_or_none(Heartbeat.process == "clock")
        if last is not None and last.at > now + between:
            outbox.set_back(last.at + between, now)
            log.warning("the clock was set back", seconds=round((last.at - now).total_seconds()))
        query = Heartbeat.insert(process="clock", at=now, detail={})
        query.on_conflict(conflict_target=[Heartbeat.process], update={Heartbeat.at: now}).execute()


@dataclass(frozen=True, slots=True)
class Periodic:
    """A job at every whole multiple of `every_s` seconds. `slow` ones run beside the ticks, each
    in a thread of its own, if it does not run already."""

    name: str
    every_s: int
    run: Callable[[], object]
    slow: bool = False

    @property
    def id(self) -> str:
        return f"tocsin-{self.name}"

    def slot_after(self, moment: float) -> int:
        return (math.floor(moment / self.every_s) + 1) * self.every_s


PERIODIC = (
    Periodic("tick", 1, ticks.ring_due),
    Periodic("maintenance", 1, maintenance.ring_over),
    Periodic("pings", 1, heartbeats.ring_overdue),
    Periodic("sweep", 2, ticks.ring_stale),
    Periodic("heartbeat", BEAT_S, beat),
    Periodic("audit", 300, audit.audit, slow=True),
    Periodic("clean-up", 3600, retention.clean_up, slow=True),
)


class JsonJob(Job):
    """A job that Redis keeps as JSON: rq's own pickle would run whatever stands there."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["serializer"] = JSONSerializer
        super().__init__(*args, **kwargs)


class Clock(Scheduler):
    """Runs periodic jobs itself instead of passing them to rq's workers, and outlives Redis."""

    job_class = JsonJob
    scheduled_jobs_key = "tocsin:clock"

    def __init__(self, connection: Any, periodic: tuple[Periodic, ...] = PERIODIC) -> None:
        super().__init__(connection=connection, job_class=JsonJob)
        self._periodic = periodic
        self._look = connection.register_script(LOOK)
        self._move = connection.register_script(MOVE)
        slow = sum(job.slow for job in periodic)
        self._beside = ThreadPoolExecutor(max(slow, 1), thread_name_prefix="slow")
        self._running: dict[str, Future[None]] = {}

    def run_until_stopped(self, signals: Signals) -> None:
        nap = 0.0
        while not signals.wait_for_stop(nap):
            nap = self.pass_or_retry()
        self._beside.shutdown(wait=False, cancel_futures=True)

    def pass_or_retry(self) -> float:
        """One pass; returns how many seconds to sleep until the next. Redis being away ends nothing."""
        try:
            nap = self.enqueue_jobs()
        except (redis.RedisError, OSError) as error:
            bell.line.lost(error)
            return RETRY_S
        bell.line.found()
        return nap

    def enqueue_jobs(self) -> float:
        """Run what is due and mend the schedule; returns the seconds until the next slot."""
        looked_at = time.monotonic()
        now, slots = self._looked()
        nearest = min(self._see_to(job, slots.get(job.id), now) for job in self._periodic)
        return min(max(nearest - now - (time.monotonic() - looked_at), 0.0), LONGEST_NAP_S)

    def _see_to(self, job: Periodic, slot: float | None, now: float) -> float:
        """Run a job whose slot has come, once among all clocks; returns its next slot."""
        upcoming = job.slot_after(now)
        if slot is None:
            self._add(job, upcoming)
            return upcoming
        if slot <= now:
            if self._moved(job, slot, upcoming):
                self.enqueue_job(job)
            return upcoming
        if slot > now + job.every_s:
            # The clock was set back: this slot belonged to a time that is far away again.
            self._moved(job, slot, upcoming)
            return upcoming
        return slot

    def _looked(self) -> tuple[float, dict[str, float]]:
        seconds, micros, flat = self._look(keys=[self.scheduled_jobs_key])
        slots = {name.decode(): float(score) for name, score in zip(flat[::2], flat[1::2], strict=True)}
        return int(seconds) + int(micros) / 1e6, slots

    def _moved(self, job: Periodic, seen: float, slot: int) -> bool:
        return bool(self._move(keys=[self.scheduled_jobs_key], args=[job.id, repr(seen), slot]))

    def _add(self, job: Periodic, slot: int) -> None:
        """Register a job that the schedule lacks; another clock may do so at the same time."""
        self._create_job(job.run, id=job.id, result_ttl=-1, meta={"interval": job.every_s})
        self.connection.zadd(self.scheduled_jobs_key, {job.id: slot}, nx=True)

    def enqueue_job(self, job: Periodic) -> None:
        if not job.slow:
            attempt(job)
            return
        running = self._running.get(job.name)
        if running is None or running.done():
            self._running[job.name] = self._beside.submit(attempt, job)


def attempt(job: Periodic) -> None:
    """Run a job, whatever comes of it: its next slot comes anyway."""
    try:
        job.run()
    except STORE_ERRORS as error:
        log.warning("the database cannot be used", job=job.name, error=type(error).__name__)
    except Exception:
        log.exception("a periodic job failed", job=job.name)


def run(redis_url: str, cuts: Iterable[str] = (), more: tuple[Periodic, ...] = ()) -> None:
    """Tick until the process is asked to stop; `cuts` are where the road is cut into queues, `more` jobs that
    not every installation has."""
    signals = Signals()
    bell.connect(redis_url, cuts)
    clock = Clock(bell.client_for(redis_url), (*PERIODIC, *more))
    log.info("ticking")
    clock.run_until_stopped(signals)
