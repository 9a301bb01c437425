"""Measure an idle instance, and a quiet key while another key gets many alerts."""

from dataclasses import dataclass, replace
from time import sleep

from bench import run_rows
from bench.load import Loader
from bench.run import POLL_S, TIMEOUT_S, AlertsLost, RunSpec, build_traffic, percentile
from bench.servers.instance import wait_until
from bench.servers.processes import Meter
from bench.tocsin import Tocsin
from bench.traffic import Traffic, Way


@dataclass(frozen=True, slots=True)
class Idle:
    """`cpu_share` is in percent of one core, for all processes together."""

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
    """Times from the 2xx to the mail for alerts on one key, while many alerts of another key are pending.

    `pending_at_start`, `pending_at_end`: pending alerts when the first alert was sent and when the last one
    was answered.
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
    """Many alerts in groups on one key, then single alerts on another key at a fixed rate per second."""

    flood: int
    entities: int = 2_000
    batch: int = 100
    connections: int = 16
    alerts: int = 100
    rate: float = 20.0


def measure_quiet_key(flood: Flood, target: Tocsin) -> QuietKey:
    """Measure a quiet key during a flood.

    Raise AlertsLost if an accepted alert on either key was lost or not notified exactly once.
    """
    spec = RunSpec("quiet key", 1, 1)
    run = build_traffic(spec, target).run
    flood_traffic = Traffic(f"{run}-many", flood.flood, flood.entities, flood.batch, way=Way.ALERTMANAGER)
    key_traffic = Traffic(f"{run}-few", flood.alerts, flood.alerts)
    groups, singles = target.urls(replace(spec, way=Way.ALERTMANAGER))[0], target.urls(spec)[-1]
    flood_requests = list(flood_traffic.requests(groups))
    target.start_run()
    flood_sent = Loader(groups, flood.connections).run(flood_requests)
    pending_at_start = run_rows.count_pending_alerts()
    key_sent = Loader(singles, 8, rate=flood.rate).run(key_traffic.requests(singles))
    pending_at_end = run_rows.count_pending_alerts()
    if not wait_until(lambda: target.is_done(flood_traffic), TIMEOUT_S, POLL_S):
        raise AlertsLost([f"after {TIMEOUT_S:.0f} s there are pending alerts or messages"])
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
