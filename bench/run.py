"""Measure one run: send, wait until all is processed and notified, verify, and only then report."""

import secrets
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from time import time
from typing import Protocol

from bench.load import Loader, Sent
from bench.servers.instance import wait_until
from bench.servers.processes import Meter, OtherLoad, Process
from bench.traffic import Request, Traffic, Way

# Time after the last answer in which all alerts must be processed.
TIMEOUT_S = 120.0
POLL_S = 0.05


class AlertsLost(RuntimeError):
    """An accepted alert was lost or not notified exactly once. The run is not reported."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class RunSpec:
    """A run. Its alerts are sent to this number of services, if the target has services."""

    name: str
    alerts: int
    entities: int
    batch: int = 1
    connections: int = 64
    rate: float | None = None
    way: Way = Way.WEBHOOK
    services: int = 20


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The outcome of a run: notifications, messages, and the times since the 2xx."""

    notifications: int = 0
    messages: int = 0
    latencies_ms: Sequence[float] = ()


class Target(Protocol):
    """A system that accepts alerts and sends notifications."""

    name: str
    # The body of a single alert, for bench.traffic.Traffic.
    single_body: bytes

    def urls(self, spec: RunSpec) -> Sequence[str]:
        """Return the addresses for the requests of a run."""
        ...

    def get_alert_id(self, answer: bytes) -> str:
        """Return the target's ID of an accepted alert; empty if it has none."""
        ...

    def processes(self) -> list[Process]:
        """Return all processes of the target, including the backends of its database."""
        ...

    def start_run(self) -> None:
        """Begin a run. All later alerts belong to it."""
        ...

    def is_done(self, traffic: Traffic) -> bool:
        """Return whether all accepted alerts are processed and notified."""
        ...

    def reconcile(self, traffic: Traffic, sent: Sent) -> RunOutcome:
        """Raise AlertsLost unless each accepted alert was stored, counted once and notified once."""
        ...


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a run. Rates are alerts per second; a full rate counts until the last message is sent.

    `other_load` is the share of all cores, in percent, that other processes used. `unknown` counts requests
    that got no answer and were sent again. `refused` counts alerts that got another answer than 2xx.
    """

    target: str
    name: str
    way: str
    services: int
    alerts: int
    entities: int
    batch: int
    connections: int
    accept_rate: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float
    full_rate: float
    total_s: float
    notifications: int
    messages: int
    notification_p50_ms: float
    notification_p99_ms: float
    cpu_ms: float
    other_load: float
    peak_mib: float
    refused: int
    unknown: int


def build_traffic(spec: RunSpec, target: Target) -> Traffic:
    run = f"bench{secrets.token_hex(4)}"
    return Traffic(run, spec.alerts, spec.entities, spec.batch, target.single_body, spec.way)


class Sender(Protocol):
    """Sends requests until each is answered, as bench.load.Loader does."""

    def run(self, requests: Iterable[Request]) -> Sent:
        """Send the requests. Raise NoAnswer without answers."""
        ...


def measure(
    spec: RunSpec, target: Target, quiet: bool = False, create_sender: Callable[..., Sender] = Loader
) -> Figures:
    """Measure a run. Raise AlertsLost if an accepted alert was lost or not notified exactly once.

    `create_sender` gets what bench.load.Loader gets.
    """
    traffic = build_traffic(spec, target)
    urls = target.urls(spec)
    requests = list(traffic.requests(*urls))
    report = _build_progress(f"{target.name}, {spec.name}", spec.alerts, quiet)
    target.start_run()
    other_load = OtherLoad(target.processes)
    meter = Meter(target.processes).start()
    try:
        sender = create_sender(
            urls[0],
            spec.connections,
            rate=spec.rate,
            get_alert_id=target.get_alert_id,
            progress=report,
        )
        sent = sender.run(requests)
        is_done = wait_until(lambda: target.is_done(traffic), TIMEOUT_S, POLL_S)
        done_at = time()
        other_percent = other_load.get_percent()
    finally:
        meter.stop()
        report(-1)
    if not is_done:
        raise AlertsLost([f"after {TIMEOUT_S:.0f} s there are pending alerts or messages"])
    figures = _build_figures(spec, target, sent, target.reconcile(traffic, sent), meter, done_at)
    return replace(figures, other_load=other_percent)


def _build_figures(
    spec: RunSpec, target: Target, sent: Sent, outcome: RunOutcome, meter: Meter, done_at: float
) -> Figures:
    accepted_count = sum(len(request.entities) for request in sent.accepted)
    latencies, accept_ms = sorted(outcome.latencies_ms), sorted(sent.latencies_ms)
    total_s = done_at - sent.started_at
    return Figures(
        target=target.name,
        name=spec.name,
        way=spec.way,
        services=len(target.urls(spec)),
        alerts=accepted_count,
        entities=spec.entities,
        batch=spec.batch,
        connections=spec.connections,
        accept_rate=accepted_count / sent.seconds,
        p50_ms=percentile(accept_ms, 50),
        p90_ms=percentile(accept_ms, 90),
        p99_ms=percentile(accept_ms, 99),
        max_ms=percentile(accept_ms, 100),
        full_rate=accepted_count / total_s,
        total_s=total_s,
        notifications=outcome.notifications,
        messages=outcome.messages,
        notification_p50_ms=percentile(latencies, 50),
        notification_p99_ms=percentile(latencies, 99),
        cpu_ms=meter.cpu_s * 1000 / max(accepted_count, 1),
        other_load=0.0,
        peak_mib=meter.peak_mib,
        refused=sum(sent.refused.values()),
        unknown=sent.unknown,
    )


def percentile(ordered: list[float], share: int) -> float:
    """Return the value that `share` % of an ordered list do not exceed; 0 for an empty list."""
    if not ordered:
        return 0.0
    return ordered[max(-(-len(ordered) * share // 100) - 1, 0)]


def _build_progress(what: str, alerts: int, quiet: bool) -> Callable[[int], None]:
    """Build a function that shows the number of answered alerts on a terminal; -1 clears the line. Without a
    terminal, print only the beginning of a run."""
    if quiet:
        return lambda answered: None
    if not sys.stderr.isatty():
        print(f"{what} ...", file=sys.stderr, flush=True)
        return lambda answered: None

    def report(answered: int) -> None:
        line = f"{what}: {answered:,} of {alerts:,}" if answered >= 0 else ""
        sys.stderr.write(f"\r\033[K{line}")
        sys.stderr.flush()

    return report
