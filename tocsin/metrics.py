"""What this process counts, by one table of metrics, and how it comes into the store.

Counting costs a few microseconds and is done once per batch, never per alert. Every few seconds, and when
the process ends, what was counted since is added to the store; while the store fails, it waits for the next
time. /metrics (web/metrics.py) tells the sum over all processes of all hosts.
"""

import json
import threading
import time
import uuid
from collections import Counter as Counted
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram

from models import metrics as kept
from models.base import STORE_ERRORS, connection, store
from models.effects import EventState
from models.enums import WorkState
from models.metrics import Life, Series

log = structlog.get_logger()

FLUSH_EVERY_S = 5.0
# A third of what counts as silence (models/metrics.py).
BEAT_EVERY_S = 15.0
# What the end of a process may cost for what it has counted.
LAST_FLUSH_S = 2.0

KINDS = ("web", "worker", "clock")

SECONDS = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
ALERTS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 300.0, 1000.0, 10000.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """One line of the table. A histogram has `buckets`, a counter none."""

    name: str
    labels: tuple[str, ...]
    meaning: str
    buckets: tuple[float, ...] = ()


# Labels have few values, all of them words of ours: nothing that a user or a tenant could name.
METRICS = (
    Metric("tocsin_alerts_accepted_total", ("source",), "Alerts committed before their 2xx."),
    Metric(
        "tocsin_requests_refused_total", ("status",), "Requests with alerts that were answered otherwise."
    ),
    Metric("tocsin_alerts_processed_total", ("stage", "outcome"), "Alerts that a stage has decided on."),
    Metric("tocsin_incidents_opened_total", (), "Incidents opened by alerts."),
    Metric("tocsin_batch_alerts", (), "Alerts decided and written in one transaction.", ALERTS),
    Metric(
        "tocsin_accept_to_done_seconds",
        (),
        "From the acceptance of a batch's first alert to the commit that ended its road.",
        SECONDS,
    ),
    Metric("tocsin_timer_lateness_seconds", ("kind",), "From a timer's moment to its commit.", SECONDS),
    Metric("tocsin_audit_mended_total", ("what",), "Timers that the audit found missing, needless or moved."),
    Metric("tocsin_delivery_attempts_total", ("channel", "outcome"), "Tries to send a message."),
    Metric(
        "tocsin_notices_total",
        ("channel", "outcome"),
        "Notices whose message was sent or failed, or that were void by then.",
    ),
    Metric("tocsin_heartbeat_pings_total", ("outcome",), "Pings to the heartbeat URL."),
    Metric("tocsin_process_starts_total", ("kind",), "Processes started."),
)


class Counts:
    """The counters of one process. `flush` adds to the store what was counted since the last time."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._counters = {one.name: self._counter(one) for one in METRICS if not one.buckets}
        self._histograms = {one.name: self._histogram(one) for one in METRICS if one.buckets}
        self._flushed: dict[Series, float] = {}
        self._flushing = threading.Lock()

    def _counter(self, one: Metric) -> Counter:
        return Counter(one.name, one.meaning, one.labels, registry=self._registry)

    def _histogram(self, one: Metric) -> Histogram:
        return Histogram(one.name, one.meaning, one.labels, buckets=one.buckets, registry=self._registry)

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        counter = self._counters[name]
        (counter.labels(**labels) if labels else counter).inc(amount)

    def observe(self, name: str, value: float, **labels: str) -> None:
        histogram = self._histograms[name]
        (histogram.labels(**labels) if labels else histogram).observe(value)

    def flush(self) -> None:
        """Raises what the store raises; nothing is lost by that, and the next flush brings it."""
        with self._flushing:
            now = self._values()
            grown = {
                series: value - before
                for series, value in now.items()
                if value != (before := self._flushed.get(series, 0.0))
            }
            if not grown:
                return
            with connection(), store().writing():
                kept.add(grown)
            self._flushed = now

    def _values(self) -> dict[Series, float]:
        return {
            (sample.name, json.dumps(sample.labels, sort_keys=True)): sample.value
            for family in self._registry.collect()
            for sample in family.samples
            if not sample.name.endswith("_created")
        }


counts = Counts()


class Clock:
    """How far the store's clock is ahead of this host's, so that no batch has to ask for the time."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def seen(self, now: datetime) -> None:
        self.ahead = now - datetime.now(UTC)


clock = Clock()


class Keeper:
    """Flushes from a thread of its own, and gives signs of life, for as long as a process lives."""

    def __init__(self, kind: str, counted: Counts = counts) -> None:
        self._kind = kind
        self._row = f"{kind}:{uuid.uuid4().hex[:16]}"
        self._counts = counted
        self._life: Life | None = None
        self._beat_at = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        self._counts.add("tocsin_process_starts_total", kind=self._kind)
        self._thread.start()

    def stop(self) -> None:
        """Flush for the last time; a store that hangs is not waited for."""
        self._stopping.set()
        self._thread.join(LAST_FLUSH_S)

    def _run(self) -> None:
        while True:
            self._attempt()
            if self._stopping.is_set():
                return
            self._stopping.wait(FLUSH_EVERY_S)

    def _attempt(self) -> None:
        """Whatever comes of it: the next flush brings what this one did not."""
        try:
            self._counts.flush()
            self._show_life()
        except STORE_ERRORS as error:
            log.debug("what was counted waits for the database", error=type(error).__name__)
        except Exception:
            log.exception("what was counted could not be kept")

    def _show_life(self) -> None:
        if self._stopping.is_set():
            if self._life is not None:
                with connection(), store().writing():
                    kept.leave(self._life)
            return
        if time.monotonic() < self._beat_at:
            return
        with connection(), store().writing():
            now = store().now()
            clock.seen(now)
            self._life = self._life or Life(self._kind, self._row, now)
            kept.beat(self._life, now)
        self._beat_at = time.monotonic() + BEAT_EVERY_S


@contextmanager
def kept_for(kind: str) -> Iterator[None]:
    """Keep what this process counts, from here to its end."""
    keeper = Keeper(kind)
    keeper.start()
    try:
        yield
    finally:
        keeper.stop()


# --- what is counted, in the words of those who count ------------------------------------------------


def count_accepted(alerts: Mapping[str, int]) -> None:
    """After a group commit: how many alerts it kept, by source."""
    for source, count in alerts.items():
        counts.add("tocsin_alerts_accepted_total", count, source=source)


def count_refused(status: int) -> None:
    counts.add("tocsin_requests_refused_total", status=str(status))


def count_outcome(stage: str, outcome: str, count: int = 1) -> None:
    """What a stage decided on `count` alerts; `outcome` is one of few words, no reason with names in it."""
    counts.add("tocsin_alerts_processed_total", count, stage=stage, outcome=outcome)


class Tally:
    """What one transaction decides on alerts, to be counted once it is committed."""

    def __init__(self) -> None:
        self.alerts = 0
        self.opened = 0
        self.aside = 0
        self.first_at: datetime | None = None
        # Alerts whose road has ended, by the stage at which it did.
        self.ended: Counted[str] = Counted()

    def saw(self, events: Sequence[EventState]) -> None:
        """These were written."""
        if self.first_at is None and events:
            self.first_at = events[0].creation_date
        self.alerts += len(events)
        self.opened += sum([event.incident_created for event in events])
        self.ended.update([event.reasons[-1][0] for event in events if event.state is WorkState.DONE])


def count_batch(tally: Tally, stages: Sequence[str], *, is_last: bool) -> None:
    """After the commit of a batch that went through these stages, up to the end of the road if `is_last`."""
    if tally.aside:
        count_outcome(stages[0], "set aside", tally.aside)
    if not tally.alerts:
        return
    counts.observe("tocsin_batch_alerts", tally.alerts)
    if tally.opened:
        counts.add("tocsin_incidents_opened_total", tally.opened)
    if is_last and tally.first_at is not None:
        seconds = (datetime.now(UTC) + clock.ahead - tally.first_at).total_seconds()
        counts.observe("tocsin_accept_to_done_seconds", max(seconds, 0.0))
    _count_stages(tally, stages)


def _count_stages(tally: Tally, stages: Sequence[str]) -> None:
    """Whose road did not end at a stage went on to the next."""
    left = tally.alerts
    for stage in stages:
        ended = tally.ended[stage]
        left -= ended
        for outcome, count in (("ended", ended), ("went on", left)):
            if count:
                count_outcome(stage, outcome, count)


def count_timer(kind: str, late_s: float) -> None:
    counts.observe("tocsin_timer_lateness_seconds", max(late_s, 0.0), kind=kind)


def count_mended(what: str, count: int) -> None:
    """Timers that the audit mended: missing, needless or moved ones."""
    counts.add("tocsin_audit_mended_total", count, what=what)


def count_attempt(channel: str, outcome: str) -> None:
    counts.add("tocsin_delivery_attempts_total", channel=channel, outcome=outcome)


def count_notices(channel: str, outcome: str, count: int) -> None:
    if count:
        counts.add("tocsin_notices_total", count, channel=channel, outcome=outcome)


def count_outside(outcome: str) -> None:
    """A ping to the heartbeat URL: sent, failed, or withheld since something is wrong here."""
    counts.add("tocsin_heartbeat_pings_total", outcome=outcome)
