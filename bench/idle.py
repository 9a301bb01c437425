"""What an instance costs and does when little happens, or when what happens is not one's own."""

from dataclasses import dataclass
from time import sleep

from bench import run_rows
from bench.instance import wait_until
from bench.load import Loader
from bench.processes import Meter
from bench.run import POLL_S, TIMEOUT_S, AlertsLost, build_traffic, percentile
from bench.run import RunSpec as RunSpec
from bench.tocsin import Tocsin
from bench.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Idle:
    """`cpu_share` is in percent of one core, all processes together."""

    target: str
    seconds: float
    cpu_share: float
    mib: float


def idle(target: Tocsin, seconds: float) -> Idle:
    meter = Meter(target.processes).start()
    sleep(seconds)
    meter.stop()
    return Idle(target.name, seconds, 100 * meter.cpu_s / seconds, meter.peak_mib)


@dataclass(frozen=True, slots=True)
class QuietKey:
    """Alerts of new entities on one key while many of another key waited, from the 2xx to the mail.

    `waiting_first` and `waiting_last` are how many waited when the first was sent, and the last answered.
    """

    target: str
    alerts: int
    pending_at_start: int
    pending_at_end: int
    accept_p99_ms: float
    notification_p50_ms: float
    notification_p99_ms: float


@dataclass(frozen=True, slots=True)
class Flood:
    """So many alerts in groups on one key, then so many alone on another, so many a second."""

    flood: int
    entities: int = 2_000
    batch: int = 100
    connections: int = 16
    alerts: int = 100
    rate: float = 20.0


def measure_quiet_key(flood: Flood, target: Tocsin) -> QuietKey:
    """Raises Lost when what was accepted on either key is not borne out."""
    run = build_traffic(RunSpec("quiet key", 1, 1), target).run
    flood_traffic = Traffic(f"{run}-many", flood.flood, flood.entities, flood.batch)
    key_traffic = Traffic(f"{run}-few", flood.alerts, flood.alerts)
    groups, singles = target.urls(flood.batch)[0], target.urls(1)[-1]
    flood_requests = list(flood_traffic.requests(groups))
    target.start_run()
    flood_sent = Loader(groups, flood.connections).run(flood_requests)
    pending_at_start = run_rows.count_pending_alerts()
    key_sent = Loader(singles, 8, rate=flood.rate).run(key_traffic.requests(singles))
    pending_at_end = run_rows.count_pending_alerts()
    if not wait_until(lambda: target.is_done(flood_traffic), TIMEOUT_S, POLL_S):
        raise AlertsLost([f"after {TIMEOUT_S:.0f} s not everything is dealt with"])
    outcome = target.reconcile_run(run, flood_sent.accepted + key_sent.accepted, key_sent.accepted)
    latencies, accept_ms = sorted(outcome.latencies_ms), sorted(key_sent.latencies_ms)
    return QuietKey(
        target=target.name,
        alerts=len(key_sent.accepted),
        pending_at_start=pending_at_start,
        pending_at_end=pending_at_end,
        accept_p99_ms=percentile(accept_ms, 99),
        notification_p50_ms=percentile(latencies, 50),
        notification_p99_ms=percentile(latencies, 99),
    )
