"""What this process counts, by one table of metrics, and how it comes into the store.

Counting costs a few microseconds and is done once per batch, never per alert. Every few seconds, and when
the process ends, what was counted since is added to the store; while the store fails, it waits for the next
time. /metrics (web/operations/metrics.py) tells the sum over all processes of all hosts.
"""

import json
import threading
import time
import uuid
from collections import Counter as CountDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram

from models.domain.effects import EventState
from models.domain.enums import WorkState
from models.reports import backlog as kept
from models.reports.backlog import ProcessLiveness, Series
from models.store.base import STORE_ERRORS, connection, store

log = structlog.get_logger()

FLUSH_EVERY_S = 5.0
# A third of what counts as silence (models/reports/backlog.py).
LIVENESS_EVERY_S = 15.0
# What the end of a process may cost for what it has counted.
FINAL_FLUSH_S = 2.0

KINDS = ("web", "worker", "clock")

SECOND_BUCKETS = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
ALERT_BUCKETS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 300.0, 1000.0, 10000.0)


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
    Metric("tocsin_batch_alerts", (), "Alerts decided and written in one transaction.", ALERT_BUCKETS),
    Metric(
        "tocsin_accept_to_done_seconds",
        (),
        "From the acceptance of a batch's first alert to the commit that ended its road.",
        SECOND_BUCKETS,
    ),
    Metric(
        "tocsin_timer_lateness_seconds", ("kind",), "From a timer's moment to its commit.", SECOND_BUCKETS
    ),
    Metric(
        "tocsin_audit_repaired_total",
        ("difference",),
        "Timers that the audit found missing, needless or moved.",
    ),
    Metric("tocsin_delivery_attempts_total", ("channel", "outcome"), "Tries to send a message."),
    Metric(
        "tocsin_notifications_total",
        ("channel", "outcome"),
        "Notices whose message was sent or failed, or that were void by then.",
    ),
    Metric("tocsin_dead_mans_switch_pings_total", ("outcome",), "Pings to the heartbeat URL."),
    Metric("tocsin_process_starts_total", ("kind",), "Processes started."),
)


class Counters:
    """The counters of one process. `flush` adds to the store what was counted since the last time."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._counters = {
            metric.name: self._create_counter(metric) for metric in METRICS if not metric.buckets
        }
        self._histograms = {
            metric.name: self._create_histogram(metric) for metric in METRICS if metric.buckets
        }
        self._flushed: dict[Series, float] = {}
        self._flushing = threading.Lock()

    def _create_counter(self, metric: Metric) -> Counter:
        return Counter(metric.name, metric.meaning, metric.labels, registry=self._registry)

    def _create_histogram(self, metric: Metric) -> Histogram:
        return Histogram(
            metric.name, metric.meaning, metric.labels, buckets=metric.buckets, registry=self._registry
        )

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        counter = self._counters[name]
        (counter.labels(**labels) if labels else counter).inc(amount)

    def observe(self, name: str, value: float, **labels: str) -> None:
        histogram = self._histograms[name]
        (histogram.labels(**labels) if labels else histogram).observe(value)

    def flush(self) -> None:
        """Raises what the store raises; nothing is lost by that, and the next flush brings it."""
        with self._flushing:
            now = self._collect_values()
            increments = {
                series: value - before
                for series, value in now.items()
                if value != (before := self._flushed.get(series, 0.0))
            }
            if not increments:
                return
            with connection(), store().write_transaction():
                kept.add(increments)
            self._flushed = now

    def _collect_values(self) -> dict[Series, float]:
        return {
            (sample.name, json.dumps(sample.labels, sort_keys=True)): sample.value
            for family in self._registry.collect()
            for sample in family.samples
            if not sample.name.endswith("_created")
        }


counters = Counters()


class StoreClock:
    """How far the store's clock is ahead of this host's, so that no batch has to ask for the time."""

    def __init__(self) -> None:
        self.offset = timedelta()

    def update(self, now: datetime) -> None:
        self.offset = now - datetime.now(UTC)


store_clock = StoreClock()


class MetricsKeeper:
    """Flushes from a thread of its own, and gives signs of life, for as long as a process lives."""

    def __init__(self, kind: str, source: Counters = counters) -> None:
        self._kind = kind
        self._row = f"{kind}:{uuid.uuid4().hex[:16]}"
        self._counts = source
        self._liveness: ProcessLiveness | None = None
        self._next_report_at = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        self._counts.add("tocsin_process_starts_total", kind=self._kind)
        self._thread.start()

    def stop(self) -> None:
        """Flush for the last time; a store that hangs is not waited for."""
        self._stopping.set()
        self._thread.join(FINAL_FLUSH_S)

    def _run(self) -> None:
        while True:
            self._flush_safely()
            if self._stopping.is_set():
                return
            self._stopping.wait(FLUSH_EVERY_S)

    def _flush_safely(self) -> None:
        """Whatever comes of it: the next flush brings what this one did not."""
        try:
            self._counts.flush()
            self._report_liveness()
        except STORE_ERRORS as error:
            log.debug("what was counted waits for the database", error=type(error).__name__)
        except Exception:
            log.exception("what was counted could not be kept")

    def _report_liveness(self) -> None:
        if self._stopping.is_set():
            if self._liveness is not None:
                with connection(), store().write_transaction():
                    kept.remove_process(self._liveness)
            return
        if time.monotonic() < self._next_report_at:
            return
        with connection(), store().write_transaction():
            now = store().now()
            store_clock.update(now)
            self._liveness = self._liveness or ProcessLiveness(self._kind, self._row, now)
            kept.record_liveness(self._liveness, now)
        self._next_report_at = time.monotonic() + LIVENESS_EVERY_S


@contextmanager
def keep_metrics(kind: str) -> Iterator[None]:
    """Keep what this process counts, from here to its end."""
    keeper = MetricsKeeper(kind)
    keeper.start()
    try:
        yield
    finally:
        keeper.stop()


# --- what is counted, in the words of those who count ------------------------------------------------


def count_accepted(alerts: Mapping[str, int]) -> None:
    """After a group commit: how many alerts it kept, by source."""
    for source, count in alerts.items():
        counters.add("tocsin_alerts_accepted_total", count, source=source)


def count_refused(status: int) -> None:
    counters.add("tocsin_requests_refused_total", status=str(status))


def count_outcome(stage: str, outcome: str, count: int = 1) -> None:
    """What a stage decided on `count` alerts; `outcome` is one of few words, no reason with names in it."""
    counters.add("tocsin_alerts_processed_total", count, stage=stage, outcome=outcome)


class Tally:
    """What one transaction decides on alerts, to be counted once it is committed."""

    def __init__(self) -> None:
        self.alerts = 0
        self.opened = 0
        self.dead_letters = 0
        self.first_at: datetime | None = None
        # Alerts whose road has ended, by the stage at which it did.
        self.ended: CountDict[str] = CountDict()

    def add_events(self, events: Sequence[EventState]) -> None:
        """These were written."""
        if self.first_at is None and events:
            self.first_at = events[0].creation_date
        self.alerts += len(events)
        self.opened += sum([event.incident_created for event in events])
        self.ended.update([event.reasons[-1][0] for event in events if event.state is WorkState.DONE])


def count_batch(tally: Tally, stages: Sequence[str], *, is_last: bool) -> None:
    """After the commit of a batch that went through these stages, up to the end of the road if `is_last`."""
    if tally.dead_letters:
        count_outcome(stages[0], "dead letter", tally.dead_letters)
    if not tally.alerts:
        return
    counters.observe("tocsin_batch_alerts", tally.alerts)
    if tally.opened:
        counters.add("tocsin_incidents_opened_total", tally.opened)
    if is_last and tally.first_at is not None:
        seconds = (datetime.now(UTC) + store_clock.offset - tally.first_at).total_seconds()
        counters.observe("tocsin_accept_to_done_seconds", max(seconds, 0.0))
    _count_stages(tally, stages)


def _count_stages(tally: Tally, stages: Sequence[str]) -> None:
    """Whose road did not end at a stage went on to the next."""
    remaining = tally.alerts
    for stage in stages:
        ended = tally.ended[stage]
        remaining -= ended
        for outcome, count in (("ended", ended), ("continued", remaining)):
            if count:
                count_outcome(stage, outcome, count)


def count_timer(kind: str, lateness_s: float) -> None:
    counters.observe("tocsin_timer_lateness_seconds", max(lateness_s, 0.0), kind=kind)


def count_repaired(difference: str, count: int) -> None:
    """Timers that the audit mended: missing, needless or moved ones."""
    counters.add("tocsin_audit_repaired_total", count, difference=difference)


def count_attempt(channel: str, outcome: str) -> None:
    counters.add("tocsin_delivery_attempts_total", channel=channel, outcome=outcome)


def count_notifications(channel: str, outcome: str, count: int) -> None:
    if count:
        counters.add("tocsin_notifications_total", count, channel=channel, outcome=outcome)


def count_dead_mans_switch(outcome: str) -> None:
    """A ping to the heartbeat URL: sent, failed, or withheld since something is wrong here."""
    counters.add("tocsin_dead_mans_switch_pings_total", outcome=outcome)
