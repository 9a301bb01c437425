"""One measured run: send, wait until all is told, reconcile, and only then report."""

import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import time
from typing import Protocol

from bench.instance import until
from bench.load import Loader, Sent
from bench.processes import Elsewhere, Meter, Process
from bench.traffic import Traffic

# How long after the last answer everything must be dealt with.
PATIENCE_S = 120.0
POLL_S = 0.05


class Lost(RuntimeError):
    """The run is not reported: something that was accepted was not kept, or not told of once."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class Plan:
    name: str
    alerts: int
    entities: int
    batch: int = 1
    connections: int = 64
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a run: how many were told, in how many messages, after how long from each 2xx."""

    notices: int = 0
    messages: int = 0
    waits_ms: Sequence[float] = ()


class Target(Protocol):
    """Whatever takes alerts and tells of them."""

    name: str
    # Its body of a single alert, as bench.traffic.Traffic has it.
    alone: bytes

    def urls(self, batch: int) -> Sequence[str]:
        """Where alerts go that come so many in a request."""
        ...

    def name_of(self, answer: bytes) -> str:
        """By what it calls an alert that it accepted; empty if it has no name."""
        ...

    def processes(self) -> list[Process]:
        """All that work for it, its database's included."""
        ...

    def begin(self) -> None:
        """A run begins: what comes from now on belongs to it."""
        ...

    def settled(self, traffic: Traffic) -> bool:
        """Whether all that was accepted is dealt with and told."""
        ...

    def told(self, traffic: Traffic, sent: Sent) -> Told:
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
    all_told_s: float
    notices: int
    messages: int
    notice_p50_ms: float
    notice_p99_ms: float
    cpu_ms: float
    elsewhere: float
    peak_mib: float
    refused: int
    unknown: int


def traffic_of(plan: Plan, target: Target) -> Traffic:
    return Traffic(f"bench{secrets.token_hex(4)}", plan.alerts, plan.entities, plan.batch, target.alone)


def measure(plan: Plan, target: Target, quiet: bool = False) -> Figures:
    """Run a plan. Raises Lost when what was accepted is not borne out by the target."""
    traffic = traffic_of(plan, target)
    requests = list(traffic.requests(*target.urls(plan.batch)))
    say = _progress(f"{target.name}, {plan.name}", plan.alerts, quiet)
    target.begin()
    elsewhere = Elsewhere(target.processes)
    meter = Meter(target.processes).start()
    try:
        loader = Loader(
            target.urls(plan.batch)[0],
            plan.connections,
            rate=plan.rate,
            name_of=target.name_of,
            progress=say,
        )
        sent = loader.run(requests)
        settled = until(lambda: target.settled(traffic), PATIENCE_S, POLL_S)
        settled_at = time()
        taken_elsewhere = elsewhere.percent()
    finally:
        meter.stop()
        say(-1)
    if not settled:
        raise Lost([f"after {PATIENCE_S:.0f} s not everything is dealt with"])
    figures = _figures(plan, target, sent, target.told(traffic, sent), meter, settled_at)
    return replace(figures, elsewhere=taken_elsewhere)


def _figures(plan: Plan, target: Target, sent: Sent, told: Told, meter: Meter, settled_at: float) -> Figures:
    kept = sum(len(request.entities) for request in sent.accepted)
    waits, answers = sorted(told.waits_ms), sorted(sent.latencies_ms)
    all_told_s = settled_at - sent.began_at
    return Figures(
        target=target.name,
        name=plan.name,
        alerts=kept,
        entities=plan.entities,
        batch=plan.batch,
        connections=plan.connections,
        accept_rate=kept / sent.seconds,
        p50_ms=percentile(answers, 50),
        p90_ms=percentile(answers, 90),
        p99_ms=percentile(answers, 99),
        max_ms=percentile(answers, 100),
        full_rate=kept / all_told_s,
        all_told_s=all_told_s,
        notices=told.notices,
        messages=told.messages,
        notice_p50_ms=percentile(waits, 50),
        notice_p99_ms=percentile(waits, 99),
        cpu_ms=meter.cpu_s * 1000 / max(kept, 1),
        elsewhere=0.0,
        peak_mib=meter.peak_mib,
        refused=sum(sent.refused.values()),
        unknown=sent.unknown,
    )


def percentile(ordered: list[float], share: int) -> float:
    """The value that `share` % of an ordered list do not exceed; 0 for an empty one."""
    if not ordered:
        return 0.0
    return ordered[max(-(-len(ordered) * share // 100) - 1, 0)]


def _progress(what: str, alerts: int, quiet: bool) -> Callable[[int], None]:
    """Tells on a terminal how many alerts are answered; -1 clears the line. Elsewhere only what begins."""
    if quiet:
        return lambda answered: None
    if not sys.stderr.isatty():
        print(f"{what} ...", file=sys.stderr, flush=True)
        return lambda answered: None

    def say(answered: int) -> None:
        line = f"{what}: {answered:,} of {alerts:,}" if answered >= 0 else ""
        sys.stderr.write(f"\r\033[K{line}")
        sys.stderr.flush()

    return say
