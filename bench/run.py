"""One measured run: send, wait until all is told, reconcile, and only then report."""

import json
import secrets
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Any

from bench import books
from bench.instance import until
from bench.load import Accepted, Loader, Sent
from bench.processes import Meter, Process
from bench.sink import Sink
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
class Target:
    """A running instance: its credentials, its processes, and where its mail goes, if known."""

    credentials: dict[str, Any]
    processes: Callable[[], list[Process]]
    sink: Sink | None = None

    def url(self, batch: int) -> str:
        urls = self.credentials["webhook_urls"]
        found: str = urls["generic"][1] if batch == 1 else urls["prometheus"][1]
        return found


@dataclass(frozen=True, slots=True)
class Plan:
    name: str
    alerts: int
    entities: int
    batch: int = 1
    connections: int = 64
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """One run in numbers. Rates are alerts a second; a full rate counts until the last mail is out.

    `unknown` requests got no answer and were sent again, `refused` alerts got another answer than 2xx.
    """

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
    mails: int
    notice_p50_ms: float
    notice_p99_ms: float
    cpu_s_per_1000: float
    peak_mib: float
    refused: int
    unknown: int


def measure(plan: Plan, target: Target, quiet: bool = False) -> Figures:
    """Run a plan. Raises Lost when the instance's books do not bear out what was accepted."""
    traffic = Traffic(f"bench{secrets.token_hex(4)}", plan.alerts, plan.entities, plan.batch)
    since = books.mark()
    mails_before = len(target.sink.mails) if target.sink else 0
    meter = Meter(target.processes).start()
    say = _progress(plan, quiet)
    try:
        loader = Loader(target.credentials["base_url"], plan.connections, rate=plan.rate, progress=say)
        sent = loader.run(traffic.requests(target.url(plan.batch)))
        settled = until(lambda: not books.waiting(), PATIENCE_S, POLL_S)
        settled_at = time()
    finally:
        meter.stop()
        say(-1)
    arrivals = target.sink.arrivals() if target.sink else None
    written = books.read(since, traffic.run, arrivals)
    faults = written.check(sent.accepted)
    if not settled:
        faults.insert(0, f"{books.waiting()} rows still wait after {PATIENCE_S:.0f} s")
    if faults:
        raise Lost(faults)
    mails = len(target.sink.mails) - mails_before if target.sink else len(written.handed_over)
    return _figures(plan, sent, written, meter, mails, settled_at)


def _figures(
    plan: Plan, sent: Sent, written: books.Books, meter: Meter, mails: int, settled_at: float
) -> Figures:
    kept = sum(len(request.entities) for request in sent.accepted)
    waits = sorted(_notice_waits_ms(sent.accepted, written))
    answers = sorted(sent.latencies_ms)
    all_told_s = settled_at - sent.began_at
    return Figures(
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
        notices=sum(map(len, written.notices.values())),
        mails=mails,
        notice_p50_ms=percentile(waits, 50),
        notice_p99_ms=percentile(waits, 99),
        cpu_s_per_1000=meter.cpu_s * 1000 / max(kept, 1),
        peak_mib=meter.peak_mib,
        refused=sum(sent.refused.values()),
        unknown=sent.unknown,
    )


def _notice_waits_ms(accepted: Iterable[Accepted], written: books.Books) -> Iterable[float]:
    """From the 2xx of the alert that opened an incident to its mail in the sink.

    A mail may overtake the answer on its way to the sender: that counts as no wait.
    """
    answered = {written.receipts[request.trace_id][0]: request.at for request in accepted}
    for incident, receipt in written.opened_by.items():
        told_at = written.told_at(incident)
        if told_at is not None and receipt in answered:
            yield max(told_at - answered[receipt], 0.0) * 1000


def percentile(ordered: list[float], share: int) -> float:
    """The value that `share` % of an ordered list do not exceed; 0 for an empty one."""
    if not ordered:
        return 0.0
    return ordered[max(-(-len(ordered) * share // 100) - 1, 0)]


def _progress(plan: Plan, quiet: bool) -> Callable[[int], None]:
    """Tells on a terminal how many alerts are answered; -1 clears the line."""
    if quiet or not sys.stderr.isatty():
        return lambda answered: None

    def say(answered: int) -> None:
        line = f"{plan.name}: {answered:,} of {plan.alerts:,}" if answered >= 0 else ""
        sys.stderr.write(f"\r\033[K{line}")
        sys.stderr.flush()

    return say


def credentials_of(home: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((home / "credentials.json").read_text())
    return found
