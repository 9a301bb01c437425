"""/metrics: the counters of all processes and the pending work, in the text format of Prometheus.

It contains neither names of accounts nor users' data, so it needs no token. Like /healthz, it is for the
operator of the installation.
"""

import json
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from flask import Flask, Response, request
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric as MetricFamily

from models.domain.enums import DELIVERABLE, ContactType
from models.reports.backlog import Series, list_live, load_totals, measure_backlog
from models.store.base import store
from runtime.metrics import KINDS, METRICS, Metric, count_refused

# Requests within this time get the same answer.
CACHE_S = 1.0

Values = Iterable[tuple[tuple[str, ...], float]]
Labels = tuple[tuple[str, str], ...]


class MetricsPage:
    """The text of /metrics, rendered on request at most once a second; one instance per web process."""

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


def show() -> Response:
    """Return the counters and the pending work for Prometheus."""
    return Response(page.get_text(), content_type=CONTENT_TYPE_PLAIN_0_0_4)


def render() -> bytes:
    """Render the text from the present contents of the store."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_StoreCollector())
    text: bytes = generate_latest(registry)
    return text


class _StoreCollector:
    """A Prometheus collector that reads its series from the store."""

    def collect(self) -> Iterator[MetricFamily]:
        yield from _collect_counters(load_totals())
        yield from _collect_gauges(store().now())


def _collect_counters(totals: dict[Series, float]) -> Iterator[MetricFamily]:
    series: dict[str, dict[Labels, float]] = defaultdict(dict)
    for (name, labels), value in totals.items():
        series[name][tuple(sorted(json.loads(labels).items()))] = value
    for metric in METRICS:
        kind = "histogram" if metric.buckets else "counter"
        family = MetricFamily(metric.name.removesuffix("_total"), metric.meaning, kind)
        if metric.buckets:
            _add_histograms(family, metric, series)
        else:
            for pairs, value in sorted((series[metric.name] or _get_zero(metric)).items()):
                family.add_sample(metric.name, dict(pairs), value)
        yield family


def _get_zero(metric: Metric) -> dict[Labels, float]:
    """Return 0 for a metric without labels, so that its series exists before the first count."""
    return {} if metric.labels else {(): 0.0}


def _add_histograms(family: MetricFamily, metric: Metric, series: dict[str, dict[Labels, float]]) -> None:
    """Add all buckets of each histogram, empty ones included."""
    counts, sums = series[f"{metric.name}_count"], series[f"{metric.name}_sum"]
    buckets = series[f"{metric.name}_bucket"]
    for labels, count in sorted(counts.items()):
        for bound in metric.buckets:
            pairs = tuple(sorted((*labels, ("le", str(bound)))))
            family.add_sample(f"{metric.name}_bucket", dict(pairs), buckets.get(pairs, 0.0))
        family.add_sample(f"{metric.name}_bucket", {**dict(labels), "le": "+Inf"}, count)
        family.add_sample(f"{metric.name}_count", dict(labels), count)
        family.add_sample(f"{metric.name}_sum", dict(labels), sums.get(labels, 0.0))


def _collect_gauges(now: datetime) -> Iterator[MetricFamily]:
    backlog = measure_backlog(now)
    living = list_live(now)
    channels = [(_get_channel(kind), backlog.messages[kind]) for kind in sorted(DELIVERABLE)]
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
        "tocsin_processes_up",
        "Processes with a recent sign of life.",
        [((kind,), sum(process.kind == kind for process in living)) for kind in KINDS],
        "kind",
    )
    yield _build_gauge(
        "tocsin_process_start_time_seconds",
        "Start time of the newest running process, in seconds since 1970.",
        [((kind,), at.timestamp()) for kind, at in sorted(started.items())],
        "kind",
    )


def _build_gauge(name: str, meaning: str, values: Values, *labels: str) -> MetricFamily:
    family = GaugeMetricFamily(name, meaning, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, value)
    return family


def _compute_age(since: datetime | None, now: datetime) -> float:
    return max((now - since).total_seconds(), 0.0) if since else 0.0


def _get_channel(kind: int) -> str:
    return ContactType(kind).name.lower()


def count_refusals(app: Flask, paths: Collection[str]) -> None:
    """Count the requests to these paths that get an error, by status."""

    @app.after_request
    def count(response: Response) -> Response:
        if response.status_code >= 400 and request.url_rule is not None and request.url_rule.rule in paths:
            count_refused(response.status_code)
        return response
