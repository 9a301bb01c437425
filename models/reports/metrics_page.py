"""Render the counts of this host and the pending work in the text format of Prometheus."""

import threading
import time
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric as MetricFamily
from prometheus_client.registry import Collector

from models.domain.channels import DELIVERY_CHANNELS
from models.reports.backlog import ProcessLiveness, list_live, measure_backlog
from models.store.store import store
from runtime import metrics
from runtime.settings import needs_listener_in

# Requests within this time get the same answer.
CACHE_S = 1.0
# It runs only if a setting needs it.
LISTENER = "listener"

Values = Iterable[tuple[tuple[str, ...], float]]


class MetricsPage:
    """The text of /metrics, rendered on request at most once a second; one instance per process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: tuple[float, bytes] | None = None

    def get_text(self) -> bytes:
        with self._lock:
            if self._last is None or time.monotonic() - self._last[0] > CACHE_S:
                text = render()
                self._last = (time.monotonic(), text)
            return self._last[1]


page = MetricsPage()


def render() -> bytes:
    """Render the text from the present counts and the present contents of the store."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector())
    text: bytes = generate_latest(registry)
    return text


class _Collector(Collector):
    """The counts of this host, and gauges from the database that all hosts share."""

    def collect(self) -> Iterator[MetricFamily]:
        yield from metrics.collect()
        yield from _collect_gauges(store().now())


def _collect_gauges(now: datetime) -> Iterator[MetricFamily]:
    backlog = measure_backlog(now)
    living = list_live(now)
    channels = [(DELIVERY_CHANNELS[kind].name, unsent) for kind, unsent in backlog.messages.items()]
    started = {
        process.kind: process.started_at for process in sorted(living, key=lambda process: process.started_at)
    }
    yield _build_gauge(
        "tocsin_alerts_pending",
        "Bodies that no worker has read yet, and alerts that are pending after a queue split.",
        [(("received",), backlog.received), (("pipeline",), backlog.in_pipeline)],
        "at",
    )
    yield _build_gauge(
        "tocsin_lanes_pending", "Services and routers with pending alerts.", [((), backlog.lanes)]
    )
    yield _build_gauge(
        "tocsin_oldest_pending_seconds",
        "Age of the oldest pending alert.",
        [((), _compute_age(backlog.oldest, now))],
    )
    yield _build_gauge(
        "tocsin_dead_letters",
        "Bodies and alerts that Tocsin could not process.",
        [((), backlog.dead_letters)],
    )
    yield _build_gauge("tocsin_timers_overdue", "Timers that are due.", [((), backlog.timers.count)])
    yield _build_gauge(
        "tocsin_timers_overdue_oldest_seconds",
        "For how long the oldest overdue timer has been due.",
        [((), _compute_age(backlog.timers.since, now))],
    )
    yield _build_gauge(
        "tocsin_messages_pending",
        "Messages that are due and not sent.",
        [((name,), unsent.count) for name, unsent in channels],
        "channel",
    )
    yield _build_gauge(
        "tocsin_messages_oldest_seconds",
        "For how long the oldest pending message has been due.",
        [((name,), _compute_age(unsent.since, now)) for name, unsent in channels],
        "channel",
    )
    yield _build_gauge(
        "tocsin_messages_failed",
        "Messages that could not be sent since the last message that was sent.",
        [((name,), unsent.failed) for name, unsent in channels],
        "channel",
    )
    yield _build_gauge(
        "tocsin_outbound_pending",
        "Deliveries of outbound integrations that are due.",
        [((), backlog.outbound.count)],
    )
    yield _build_gauge(
        "tocsin_outbound_oldest_seconds",
        "For how long the oldest delivery of an outbound integration has been due.",
        [((), _compute_age(backlog.outbound.since, now))],
    )
    yield _build_gauge(
        "tocsin_processes_up",
        "Processes with a recent sign of life.",
        [((kind,), sum(process.kind == kind for process in living)) for kind in _list_needed(living)],
        "kind",
    )
    yield _build_gauge(
        "tocsin_process_start_time_seconds",
        "Start time of the newest running process, in seconds since 1970.",
        [((kind,), at.timestamp()) for kind, at in sorted(started.items())],
        "kind",
    )


def _list_needed(living: Collection[ProcessLiveness]) -> list[str]:
    """Return the kinds of processes that must run, or that run. A missing one would be an alert for ever."""
    is_listening = any(
        process.kind == LISTENER or needs_listener_in(process.settings or {}) for process in living
    )
    return [kind for kind in metrics.KINDS if kind != LISTENER or is_listening]


def _build_gauge(name: str, meaning: str, values: Values, *labels: str) -> MetricFamily:
    """Build a gauge of the database. A sum over hosts would count the same rows several times."""
    family = GaugeMetricFamily(name, f"{meaning} The same on every host: use max.", labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, value)
    return family


def _compute_age(since: datetime | None, now: datetime) -> float:
    return max((now - since).total_seconds(), 0.0) if since else 0.0
