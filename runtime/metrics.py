"""What a process counts, in one table of metrics.

Counting costs a few microseconds and is done once per batch, never per alert. models/reports/save_metrics.py
adds the counts to the store; /metrics (web/operations/metrics.py) shows the sum over all processes of all
hosts.
"""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from prometheus_client import CollectorRegistry, Counter, Histogram

# A series by its name and its labels, as JSON with sorted keys.
Series = tuple[str, str]

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
        "Notifications by the outcome of their message: sent, failed or cancelled.",
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

    def flush(self, add: Callable[[dict[Series, float]], None]) -> None:
        """Pass what was counted since the last flush to `add`. If `add` raises, the next flush passes it."""
        with self._flushing:
            values = self._collect_values()
            increments = {
                series: value - before
                for series, value in values.items()
                if value != (before := self._flushed.get(series, 0.0))
            }
            if increments:
                add(increments)
            self._flushed = values

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


def count_accepted(alerts: Mapping[str, int]) -> None:
    """After a group commit: how many alerts it kept, by source."""
    for source, count in alerts.items():
        counters.add("tocsin_alerts_accepted_total", count, source=source)


def count_refused(status: int) -> None:
    counters.add("tocsin_requests_refused_total", status=str(status))


def count_outcome(stage: str, outcome: str, count: int = 1) -> None:
    """What a stage decided on `count` alerts; `outcome` is one of few words, no reason with names in it."""
    counters.add("tocsin_alerts_processed_total", count, stage=stage, outcome=outcome)


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
