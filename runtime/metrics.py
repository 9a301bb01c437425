"""What a process counts, in one table of metrics.

Counting costs a few microseconds and is done once per batch, never per alert. The processes of a host count
in files (runtime/metrics_folder.py), and /metrics shows the sums over them (models/reports/metrics_page.py).
"""

from collections import Counter as Counts
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from runtime import metrics_folder

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Histogram
    from prometheus_client.metrics_core import Metric as MetricFamily

Series = TypeVar("Series", "Counter", "Histogram")

KINDS = ("web", "worker", "clock", "listener")

SECOND_BUCKETS = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
ALERT_BUCKETS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 300.0, 1000.0, 10000.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """One line of the table. A histogram has `buckets`, a counter none."""

    name: str
    labels: tuple[str, ...]
    meaning: str
    buckets: tuple[float, ...] = ()


# Labels have few values, and all values are words of Tocsin. A name that a user chose is never a label.
METRICS = (
    Metric("tocsin_alerts_accepted_total", ("source",), "Alerts committed before their 2xx."),
    Metric("tocsin_requests_refused_total", ("status",), "Requests with alerts that got another answer."),
    Metric("tocsin_alerts_processed_total", ("stage", "outcome"), "Alerts that a stage has decided on."),
    Metric("tocsin_incidents_opened_total", (), "Incidents opened by alerts."),
    Metric("tocsin_batch_alerts", (), "Alerts decided and written in one transaction.", ALERT_BUCKETS),
    Metric(
        "tocsin_accept_to_done_seconds",
        (),
        "From the acceptance of a batch's first alert to the commit after its last stage.",
        SECOND_BUCKETS,
    ),
    Metric(
        "tocsin_timer_lateness_seconds",
        ("kind",),
        "From the due time of a timer to its commit.",
        SECOND_BUCKETS,
    ),
    Metric(
        "tocsin_audit_repaired_total",
        ("difference",),
        "Timers that the audit found missing, not needed, or with another due time.",
    ),
    Metric("tocsin_delivery_attempts_total", ("channel", "outcome"), "Attempts to send a message."),
    Metric(
        "tocsin_notifications_total",
        ("channel", "outcome"),
        "Notifications by the outcome of their message: sent, failed or cancelled.",
    ),
    Metric("tocsin_notifications_new_total", ("channel",), "Notifications that were created."),
    Metric(
        "tocsin_notifications_reported_total",
        ("channel", "state"),
        "Notifications by what a provider reported about their message later: sent, delivered or failed.",
    ),
    Metric(
        "tocsin_notifications_acknowledged_total",
        ("channel",),
        "Sent notifications of incidents that their person acknowledged.",
    ),
    Metric("tocsin_message_changes_total", ("channel", "outcome"), "Attempts to change a sent message."),
    Metric(
        "tocsin_callbacks_total",
        ("channel", "outcome"),
        "Callbacks of a provider: handled, repeated, or refused because they are not signed well.",
    ),
    Metric(
        "tocsin_outbound_deliveries_total",
        ("outcome",),
        "Deliveries of outbound integrations: sent, failed, replaced, filtered, and attempts to retry.",
    ),
    Metric(
        "tocsin_mail_in_total",
        ("outcome",),
        "Mails, recipients and connections of the listener, by what happened to them.",
    ),
    Metric("tocsin_dead_mans_switch_pings_total", ("outcome",), "Requests to the dead-man's switch."),
    Metric("tocsin_process_starts_total", ("kind",), "Processes started."),
)


class _Created:
    """All series, with the count 0 in this process."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

        # Without this call, each counter gets a gauge with its creation time. Processes cannot share a gauge.
        disable_created_metrics()
        self.registry = CollectorRegistry()
        self._counters = {
            metric.name: Counter(metric.name, metric.meaning, metric.labels, registry=self.registry)
            for metric in METRICS
            if not metric.buckets
        }
        self._histograms = {
            metric.name: Histogram(
                metric.name, metric.meaning, metric.labels, buckets=metric.buckets, registry=self.registry
            )
            for metric in METRICS
            if metric.buckets
        }
        # Each series is looked up once, because a look-up by labels takes longer than to count.
        self.get_counter = cache(lambda name, **labels: _get_series(self._counters[name], labels))
        self.get_histogram = cache(lambda name, **labels: _get_series(self._histograms[name], labels))


class Counters:
    """The counters and histograms of this process. The first count creates them: few commands count."""

    def __init__(self) -> None:
        self._created: _Created | None = None
        self._is_off = False

    def create(self) -> None:
        """Create all series again, with the count 0 in this process."""
        self._created = _Created()

    @contextmanager
    def off(self) -> Iterator[None]:
        """Count nothing in the block: in a process whose counts nobody sees."""
        before, self._is_off = self._is_off, True
        try:
            yield
        finally:
            self._is_off = before

    @property
    def registry(self) -> "CollectorRegistry":
        return self._get().registry

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        if not self._is_off:
            self._get().get_counter(name, **labels).inc(amount)

    def observe(self, name: str, value: float, **labels: str) -> None:
        if not self._is_off:
            self._get().get_histogram(name, **labels).observe(value)

    def _get(self) -> _Created:
        if self._created is None:
            self.create()
        assert self._created is not None
        return self._created


def _get_series(metric: Series, labels: Mapping[str, str]) -> Series:
    return metric.labels(**labels) if labels else metric


counters = Counters()


def join(home: Path) -> None:
    """Count in the files of this host from now on, in a process that has imported this module already."""
    metrics_folder.join(home)
    counters.create()


def collect() -> Iterator["MetricFamily"]:
    """Yield each metric of the table with the counts of all processes of this host."""
    from prometheus_client.metrics_core import Metric as MetricFamily

    found = {each.name: each for each in metrics_folder.collect() or counters.registry.collect()}
    for metric in METRICS:
        name = metric.name.removesuffix("_total")
        kind = "histogram" if metric.buckets else "counter"
        yield found.get(name) or MetricFamily(name, metric.meaning, kind)


class StoreClock:
    """How far the store's clock is ahead of this host's, so that no batch has to ask for the time."""

    def __init__(self) -> None:
        self.offset = timedelta()

    def update(self, now: datetime) -> None:
        self.offset = now - datetime.now(UTC)


store_clock = StoreClock()


def count_accepted(alerts: Mapping[str, int]) -> None:
    """Count the alerts of a group commit, by source."""
    for source, count in alerts.items():
        counters.add("tocsin_alerts_accepted_total", count, source=source)


def count_refused(status: int) -> None:
    counters.add("tocsin_requests_refused_total", status=str(status))


def count_outcome(stage: str, outcome: str, count: int = 1) -> None:
    """Count alerts that a stage has decided on. `outcome` is one of a few words, without names of users."""
    counters.add("tocsin_alerts_processed_total", count, stage=stage, outcome=outcome)


def count_timer(kind: str, lateness_s: float) -> None:
    counters.observe("tocsin_timer_lateness_seconds", max(lateness_s, 0.0), kind=kind)


def count_repaired(difference: str, count: int) -> None:
    """Count timers that the audit repaired, by the kind of difference."""
    counters.add("tocsin_audit_repaired_total", count, difference=difference)


def count_attempt(channel: str, outcome: str) -> None:
    counters.add("tocsin_delivery_attempts_total", channel=channel, outcome=outcome)


def count_change(channel: str, outcome: str) -> None:
    """Count an attempt to change a sent message."""
    counters.add("tocsin_message_changes_total", channel=channel, outcome=outcome)


def count_callback(channel: str, outcome: str) -> None:
    counters.add("tocsin_callbacks_total", channel=channel, outcome=outcome)


def count_outbound(outcome: str, count: int = 1) -> None:
    """Count deliveries of outbound integrations. `outcome` is their new state; "retry": an attempt failed."""
    if count:
        counters.add("tocsin_outbound_deliveries_total", count, outcome=outcome)


def count_notifications(channel: str, outcome: str, count: int) -> None:
    if count:
        counters.add("tocsin_notifications_total", count, channel=channel, outcome=outcome)


def count_created(channels: Iterable[str]) -> None:
    """Count new notifications; `channels` has the channel of each."""
    for channel, count in Counts(channels).items():
        counters.add("tocsin_notifications_new_total", count, channel=channel)


def count_reported(channel: str, state: str, count: int) -> None:
    """Count notifications about whose message a provider reported this state."""
    if count:
        counters.add("tocsin_notifications_reported_total", count, channel=channel, state=state)


def count_acknowledged(channel: str, count: int) -> None:
    counters.add("tocsin_notifications_acknowledged_total", count, channel=channel)


def count_mail(outcome: str) -> None:
    """Count a mail that the listener answered, a recipient that it refused, or a connection."""
    counters.add("tocsin_mail_in_total", outcome=outcome)


def count_dead_mans_switch(outcome: str) -> None:
    """Count a request to the dead-man's switch: sent, failed, or withheld because of a problem of Tocsin."""
    counters.add("tocsin_dead_mans_switch_pings_total", outcome=outcome)


def count_start(kind: str) -> None:
    counters.add("tocsin_process_starts_total", kind=kind)
