"""One siege on one store: all attacks at the same time, while another tenant sends alerts and gets mail."""

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic

from bench import run_rows
from bench.load import Accepted, Loader, NoAnswer
from bench.run import percentile
from bench.servers.instance import find_free_port, start_instance_of, wait_until
from bench.servers.postgres import create_own_database
from bench.servers.processes import Meter, OtherLoad, Process
from bench.servers.sink import Sink
from bench.siege.attacks import build_attacks
from bench.siege.attacks.attack import Attack, Sizes
from bench.siege.attacks.held_connections import permit_open_files
from bench.siege.late_names import InstanceWithLateNames
from bench.siege.tenants import MAIL_DOMAIN, create_tenant
from bench.traffic import Request, Traffic
from models.store.opening import open_store
from models.store.store import connection, db
from models.tables.events import Receipt

RATE = 5.0
# Enough for alerts that wait 6 s for their answers.
CONNECTIONS = 32
# Time after the siege in which the last alerts of the other tenant must be processed and notified.
TIMEOUT_S = 120.0
# Time in which the work of one attack must end before the next attack is measured.
DRAIN_S = 90.0
# All threads of an attack end within the longest time for an answer, and one pause.
JOIN_S = 60.0
# A web process gives memory back within 160 s (runtime/garbage.py), but for 48 MiB and what its caches hold.
GIVEN_BACK_S = 200.0
SURPLUS_MIB = 96.0
POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Besieged:
    """A new instance on one store."""

    store: str
    url: str
    sink: Sink
    processes: Callable[[], list[Process]]
    mail_port: int


def _build_settings() -> dict[str, str]:
    """Return settings of an instance that receives mails, and sends webhooks to hosts of this machine."""
    return {
        "mail_in_domain": MAIL_DOMAIN,
        "mail_in_port": str(find_free_port()),
        "webhook_networks": "127.0.0.0/8,::1/128",
    }


@contextmanager
def start_on_sqlite() -> Iterator[Besieged]:
    settings = _build_settings()
    with start_instance_of(InstanceWithLateNames, **settings) as (instance, sink):
        open_store("", instance.home)
        try:
            yield Besieged("SQLite", instance.url, sink, instance.processes, int(settings["mail_in_port"]))
        finally:
            db.close_all()


@contextmanager
def start_on_postgres(server: str) -> Iterator[Besieged]:
    """Start an instance on a new database of this server. Raise ServerUnavailable."""
    with ExitStack() as stack:
        database = stack.enter_context(create_own_database(server))
        settings = _build_settings()
        started = start_instance_of(InstanceWithLateNames, database_url=database.url, **settings)
        instance, sink = stack.enter_context(started)
        open_store(database.url, instance.home)
        stack.callback(db.close_all)
        yield Besieged(
            "PostgreSQL",
            instance.url,
            sink,
            lambda: instance.processes() + database.backends(),
            int(settings["mail_in_port"]),
        )


@dataclass(slots=True)
class OtherTenant:
    """How the other tenant fared. Times are in ms; `mail_ms` from the 2xx to the mail.

    `unanswered` counts alerts that got no answer at all, `repeated` those that were sent again.
    """

    due: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    accept_ms: list[float] = field(default_factory=list)
    mail_ms: list[float] = field(default_factory=list)
    unanswered: int = 0
    repeated: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def server_errors(self) -> int:
        return sum(count for status, count in self.statuses.items() if status.startswith("5"))


@dataclass(frozen=True, slots=True)
class ByItself:
    """An attack without the others, beside the other tenant. CPU seconds are by kind of process."""

    requests: int
    cpu_s: dict[str, float]
    other: OtherTenant


@dataclass(frozen=True, slots=True)
class AttackFigures:
    """`by_itself` is None if the attack was only measured with all others."""

    name: str
    requests: int
    statuses: Counter[str]
    by_itself: ByItself | None = None

    def get_cpu_ms(self, kind: str) -> float:
        """Return the CPU time of one request by itself, in ms, for one kind of processes.

        It contains that of the other tenant's alerts, a few milliseconds each.
        """
        if self.by_itself is None:
            return 0.0
        return 1000 * self.by_itself.cpu_s.get(kind, 0.0) / max(self.by_itself.requests, 1)


@dataclass(frozen=True, slots=True)
class SiegeFigures:
    """Memory is in MiB, CPU in seconds, both by kind of process.

    `after_mib` is the memory `after_s` seconds after the end of the attacks, when the web process has given
    back what it needed for them.
    `other_load` is the share of all cores, in percent, that neither the sender nor the instance used.
    `missing` counts accepted alerts and groups of the attacker that are not stored.
    """

    store: str
    seconds: float
    attacks: list[AttackFigures]
    other: OtherTenant
    rest_mib: dict[str, float]
    peak_mib: dict[str, float]
    cpu_s: dict[str, float]
    other_load: float = 0.0
    missing: int = 0
    after_mib: dict[str, float] = field(default_factory=dict)
    after_s: float = 0.0

    @property
    def failed(self) -> bool:
        """Return whether an accepted alert was lost, or the other tenant got a 5xx or no answer."""
        others = [self.other, *(attack.by_itself.other for attack in self.attacks if attack.by_itself)]
        harmed = any(other.faults or other.server_errors or other.unanswered for other in others)
        return bool(self.missing) or harmed

    def find_attack(self, name: str) -> AttackFigures:
        return next(attack for attack in self.attacks if attack.name == name)


@dataclass(frozen=True, slots=True)
class Siege:
    """Before, each attack named in `by_itself` (None: all) runs for `by_itself_s` without the others.

    Of the attacks, only those are made whose names contain a text of `only`; empty: all. After the attacks,
    the memory is measured when the web process has given back what it needed, at the latest after
    `given_back_s`.
    """

    duration_s: float
    by_itself_s: float
    sizes: Sizes = field(default_factory=Sizes)
    by_itself: Sequence[str] | None = None
    only: Sequence[str] = ()
    given_back_s: float = GIVEN_BACK_S
    report: Callable[[str], None] = lambda text: None

    def run(self, target: Besieged) -> SiegeFigures:
        """Run the siege. All threads have ended when it returns or raises."""
        permit_open_files(self.sizes.idle_connections + self.sizes.dripping_connections)
        # The first rows of a tenant wait for nobody, so the other tenant exists before the attack.
        address = target.url + create_tenant(target.url, "other").generic.path
        attacker = create_tenant(target.url, "attacker", target.mail_port)
        attacks = build_attacks(attacker, self.sizes, self.only)
        rest = _measure(target)
        by_itself = {
            attack.name: self._measure_by_itself(attack, address, target)
            for attack in attacks
            if self.by_itself is None or attack.name in self.by_itself
        }
        before = [(attack.requests, Counter(attack.statuses)) for attack in attacks]
        self.report(f"{target.store}, all attacks, {self.duration_s:.0f} s")
        meter, other_load = Meter(target.processes).start(), OtherLoad(target.processes)
        with _running(attacks, self.duration_s):
            sender = OtherSender(address, self.duration_s)
            sender.run()
            other_percent = other_load.get_percent()
            meter.stop()
        self.report(f"{target.store}, waiting for the mails of the other tenant")
        ended_at, other = monotonic(), sender.collect(target.sink)
        wait_until(lambda: _measure(target)["web"] < rest["web"] + SURPLUS_MIB, self.given_back_s, POLL_S)
        return SiegeFigures(
            store=target.store,
            seconds=sender.seconds,
            attacks=[
                AttackFigures(
                    attack.name,
                    attack.requests - requests,
                    attack.statuses - statuses,
                    by_itself.get(attack.name),
                )
                for attack, (requests, statuses) in zip(attacks, before, strict=True)
            ],
            other=other,
            rest_mib=rest,
            peak_mib=meter.peak_mib_by_kind,
            cpu_s=meter.cpu_s_by_kind,
            other_load=other_percent,
            missing=count_missing([trace_id for attack in attacks for trace_id in attack.accepted]),
            after_mib=_measure(target),
            after_s=monotonic() - ended_at,
        )

    def _measure_by_itself(self, attack: Attack, address: str, target: Besieged) -> ByItself:
        self.report(f"{target.store}, {attack.name} by itself")
        meter, already = Meter(target.processes).start(), attack.requests
        sender = OtherSender(address, self.by_itself_s)
        with _running([attack], self.by_itself_s):
            sender.run()
        wait_until(lambda: not run_rows.has_pending(), DRAIN_S, POLL_S)
        meter.stop()
        return ByItself(attack.requests - already, meter.cpu_s_by_kind, sender.collect(target.sink))


def _measure(target: Besieged) -> dict[str, float]:
    """Return the memory of the processes now, in MiB, by kind."""
    meter = Meter(target.processes).start()
    meter.stop()
    return meter.peak_mib_by_kind


@contextmanager
def _running(attacks: Sequence[Attack], duration_s: float) -> Iterator[threading.Event]:
    """Run attacks in threads for a time. They have ended when the context ends, also after an error."""
    stopping = threading.Event()
    timer = threading.Timer(duration_s, stopping.set)
    timer.daemon = True
    threads = [
        threading.Thread(target=attack.run, args=(stopping,), name=attack.name, daemon=True)
        for attack in attacks
    ]
    for thread in [timer, *threads]:
        thread.start()
    try:
        yield stopping
    finally:
        timer.cancel()
        stopping.set()
        for thread in threads:
            thread.join(JOIN_S)


class OtherSender:
    """Sends alerts of the other tenant at a rate, each about an entity of its own, and finds their mails."""

    def __init__(self, address: str, duration_s: float) -> None:
        self._address = address
        self._duration_s = duration_s
        self._alerts = int(duration_s * RATE)
        self._run = f"other{secrets.token_hex(4)}"
        self._accepted: list[Accepted] = []
        self._since = run_rows.take_baseline()
        self._found = OtherTenant()
        self.seconds = 0.0

    def run(self) -> None:
        """Send all alerts of the duration. Without an answer, go on with the next alert."""
        started = monotonic()
        end = started + self._duration_s + TIMEOUT_S
        requests = self._build_requests(end)
        while self._found.due < self._alerts and monotonic() < end:
            loader = Loader(self._address, CONNECTIONS, rate=RATE)
            # Without an answer, the answers before it count.
            with suppress(NoAnswer):
                loader.run(requests)
            self._count(loader)
        self.seconds = monotonic() - started
        answered = sum(self._found.statuses.values())
        self._found.due = self._alerts
        self._found.unanswered = max(self._alerts - answered, 0)

    def _build_requests(self, end: float) -> Iterator[Request]:
        traffic = Traffic(self._run, self._alerts, self._alerts)
        for request in traffic.requests(self._address):
            if monotonic() >= end:
                return
            self._found.due += 1
            yield request

    def _count(self, loader: Loader) -> None:
        sent, found = loader.sent, self._found
        self._accepted += sent.accepted
        found.accept_ms += sent.latencies_ms
        found.statuses["2xx"] += len(sent.accepted)
        found.statuses.update({str(status): count for status, count in sent.refused.items()})
        found.repeated += sent.unknown

    def collect(self, sink: Sink) -> OtherTenant:
        """Wait until each accepted alert is processed and notified once; record what is missing."""

        def load() -> run_rows.RunRows:
            return run_rows.load_run(self._since, self._run, sink.arrivals())

        wait_until(lambda: not load().find_faults(self._accepted), TIMEOUT_S, POLL_S)
        rows = load()
        self._found.faults = rows.find_faults(self._accepted)
        self._found.mail_ms = sorted(rows.list_latencies_ms(self._accepted))
        self._found.accept_ms.sort()
        return self._found


def count_missing(trace_ids: Sequence[str]) -> int:
    """Return how many accepted requests are not stored."""
    with connection():
        stored = {trace_id for (trace_id,) in Receipt.select(Receipt.trace_id).tuples().iterator()}
    return len(set(trace_ids) - stored)


def describe(ordered: list[float]) -> str:
    """Return the 50th and 99th percentile and the maximum."""
    return " / ".join(f"{percentile(ordered, share):,.0f}" for share in (50, 99, 100))
