"""One measured run: send, wait until all is told, reconcile, and only then report."""

import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import time
from typing import Protocol

from bench.instance import wait_until
from bench.load import Loader, Sent
from bench.processes import Meter, OtherLoad, Process
from bench.traffic import Traffic

# How long after the last answer everything must be dealt with.
TIMEOUT_S = 120.0
POLL_S = 0.05


class AlertsLost(RuntimeError):
    """The run is not reported: something that was accepted was not kept, or not told of once."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class RunSpec:
    name: str
    alerts: int
    entities: int
    batch: int = 1
    connections: int = 64
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What came of a run: how many were told, in how many messages, after how long from each 2xx."""

    notifications: int = 0
    messages: int = 0
    latencies_ms: Sequence[float] = ()


class Target(Protocol):
    """Whatever takes alerts and tells of them."""

    name: str
    # Its body of a single alert, as bench.traffic.Traffic has it.
    single_body: bytes

    def urls(self, batch: int) -> Sequence[str]:
        """Where alerts go that come so many in a request."""
        ...

    def get_alert_id(self, answer: bytes) -> str:
        """By what it calls an alert that it accepted; empty if it has no name."""
        ...

    def processes(self) -> list[Process]:
        """All that work for it, its database's included."""
        ...

    def start_run(self) -> None:
        """A run begins: what comes from now on belongs to it."""
        ...

    def is_done(self, traffic: Traffic) -> bool:
        """Whether all that was accepted is dealt with and told."""
        ...

    def reconcile(self, traffic: Traffic, sent: Sent) -> RunOutcome:
        """Raises Lost when not every accepted alert was kept, counted once, and told of once."""
        ...


@dataclass(frozen=True, slots=True)
class Figures:
    """One run in numbers. Rates are alerts a second; a full rate counts until the last message is out.

    `elsewhere` is the share of the machine, in percent, that others took meanwhile.
    `unknown` requests got no answer and were sent again, `refused` alerts got another answer than 2xx.
    """

    target: str
    name: str
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
    return Traffic(f"bench{secrets.token_hex(4)}", spec.alerts, spec.entities, spec.batch, target.single_body)


def measure(spec: RunSpec, target: Target, quiet: bool = False) -> Figures:
    """Run a plan. Raises Lost when what was accepted is not borne out by the target."""
    traffic = build_traffic(spec, target)
    requests = list(traffic.requests(*target.urls(spec.batch)))
    report = _build_progress(f"{target.name}, {spec.name}", spec.alerts, quiet)
    target.start_run()
    other_load = OtherLoad(target.processes)
    meter = Meter(target.processes).start()
    try:
        loader = Loader(
            target.urls(spec.batch)[0],
            spec.connections,
            rate=spec.rate,
            get_alert_id=target.get_alert_id,
            progress=report,
        )
        sent = loader.run(requests)
        is_done = wait_until(lambda: target.is_done(traffic), TIMEOUT_S, POLL_S)
        done_at = time()
        other_percent = other_load.get_percent()
    finally:
        meter.stop()
        report(-1)
    if not is_done:
        raise AlertsLost([f"after {TIMEOUT_S:.0f} s not everything is dealt with"])
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
    """The value that `share` % of an ordered list do not exceed; 0 for an empty one."""
    if not ordered:
        return 0.0
    return ordered[max(-(-len(ordered) * share // 100) - 1, 0)]


def _build_progress(what: str, alerts: int, quiet: bool) -> Callable[[int], None]:
    """Tells on a terminal how many alerts are answered; -1 clears the line. Elsewhere only what begins."""
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
