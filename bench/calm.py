"""What an instance costs and does when little happens, or when what happens is not one's own."""

from dataclasses import dataclass
from time import sleep

from bench import books
from bench.instance import until
from bench.load import Loader
from bench.processes import Meter
from bench.run import PATIENCE_S, POLL_S, Lost, percentile, traffic_of
from bench.run import Plan as Plan
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
    waiting_first: int
    waiting_last: int
    accept_p99_ms: float
    notice_p50_ms: float
    notice_p99_ms: float


@dataclass(frozen=True, slots=True)
class Flood:
    """So many alerts in groups on one key, then so many alone on another, so many a second."""

    flood: int
    entities: int = 2_000
    batch: int = 100
    connections: int = 16
    alerts: int = 100
    rate: float = 20.0


def quiet_key(flood: Flood, target: Tocsin) -> QuietKey:
    """Raises Lost when what was accepted on either key is not borne out."""
    run = traffic_of(Plan("quiet key", 1, 1), target).run
    many = Traffic(f"{run}-many", flood.flood, flood.entities, flood.batch)
    few = Traffic(f"{run}-few", flood.alerts, flood.alerts)
    groups, singles = target.urls(flood.batch)[0], target.urls(1)[-1]
    flooding = list(many.requests(groups))
    target.begin()
    flooded = Loader(groups, flood.connections).run(flooding)
    waiting_first = books.alerts_waiting()
    calm = Loader(singles, 8, rate=flood.rate).run(few.requests(singles))
    waiting_last = books.alerts_waiting()
    if not until(lambda: target.settled(many), PATIENCE_S, POLL_S):
        raise Lost([f"after {PATIENCE_S:.0f} s not everything is dealt with"])
    told = target.told_of(run, flooded.accepted + calm.accepted, calm.accepted)
    waits, answers = sorted(told.waits_ms), sorted(calm.latencies_ms)
    return QuietKey(
        target=target.name,
        alerts=len(calm.accepted),
        waiting_first=waiting_first,
        waiting_last=waiting_last,
        accept_p99_ms=percentile(answers, 99),
        notice_p50_ms=percentile(waits, 50),
        notice_p99_ms=percentile(waits, 99),
    )
