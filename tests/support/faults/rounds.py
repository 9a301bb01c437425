"""Send alerts through a fault, and count what was lost, repeated or late: a round of the table of faults."""

import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from time import time
from urllib.parse import urlsplit

from models.domain.applications import GENERIC
from tests.support.faults.fan_out import Interface
from tests.support.faults.installation import Installation
from tests.support.faults.ledger import Ledger, is_done, merge_senders
from tests.support.faults.relay import FaultyRelay
from tests.support.faults.senders import CRITICAL, Connection, Sender, Unknown
from tests.support.polling import wait_until

SENDERS = 3
# An alert of another service each time.
PROBE_EVERY_S = 0.25
# After the end of a fault, all work must be done within this time.
LONGEST_RECOVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table.

    - `accepted`: alerts that got 2xx. `lost`: those of them that are not processed exactly once.
    - `duplicate_incidents`: entities whose incidents do not match their alerts. `unnotified`: incidents
      without exactly one notification, and notifications without a mail.
    - `repeated`: mails that arrived again. `stale`: mails about what was cancelled before.
    - `during`: alerts of another service that were accepted, and notified, before the fault ended; `probes`
      is how many were sent.
    - `examples`: some of the `unnotified`.
    - `recovery_s`: from the end of the fault until all mails of earlier alerts, and the first mail of a later
      one, had arrived.
    """

    fault: str
    accepted: int
    unknown: int
    lost: int
    duplicate_incidents: int
    unnotified: int
    repeated: int
    stale: int
    probes: int
    during: tuple[int, int]
    recovery_s: float
    examples: tuple[str, ...] = ()


@dataclass
class Site:
    """An instance on which several faults are tried, one after the other."""

    instance: Installation
    relay: FaultyRelay
    seed: int
    rounds: int = 0
    repeated: int = 0
    stale: int = 0
    unnotified: frozenset[str] = frozenset()
    _other_url: str = ""

    @property
    def other_url(self) -> str:
        """The address for alerts of another service; the service is created at the first use."""
        if not self._other_url:
            self._other_url = create_other_service(self.instance)
        return self._other_url

    def start_traffic(self) -> "RoundTraffic":
        self.rounds += 1
        return RoundTraffic(self)


def create_other_service(instance: Installation) -> str:
    """Create a service with the policy of the first one. Return the address for its alerts."""
    call = Interface(instance)
    team = call("GET", "/api/account/teams/")[0]["unique_id"]
    services = f"/api/account/teams/{team}/services/"
    policy = call("GET", services)[0]["escalation_policy"]
    service = call(
        "POST", services, {"name": "Other", "escalation_policy": policy, "sla": "", "team_priority": ""}
    )
    integration = call(
        "POST",
        f"{services}{service['unique_id']}/integrations/",
        {"name": "Probe", "summary": "", "application": GENERIC},
    )
    first = urlsplit(instance.credentials()["webhook_urls"]["generic"][1]).path.rstrip("/")
    return f"{instance.url}{first.rpartition('/')[0]}/{integration['integration_key']}/"


@dataclass
class Probe:
    entity: str
    sent_at: float
    accepted: bool


class Probes(threading.Thread):
    """Sends an alert of a new entity at each interval, and does not wait long for an answer."""

    def __init__(self, name: str, url: str, stopping: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self.sent: list[Probe] = []
        self.trace_ids: dict[str, str] = {}
        self._url, self._stopping = url, stopping

    def run(self) -> None:
        while not self._stopping.wait(PROBE_EVERY_S):
            entity = f"{self.name}-{len(self.sent)}"
            probe = Probe(entity, time(), accepted=False)
            self.sent.append(probe)
            connection = Connection(self._url)
            try:
                trace_id = connection.send(
                    {"message": f"{entity} fails", "alert_type": CRITICAL, "entity_id": entity}
                )
            except Unknown:
                continue
            finally:
                connection.close()
            if trace_id is not None:
                probe.accepted = True
                self.trace_ids[trace_id] = entity


class RoundTraffic:
    """The senders of a round and, beside them, the probes of another service."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._stopping = threading.Event()
        url = site.instance.credentials()["webhook_urls"]["generic"][1]
        names = [f"r{site.rounds}-{number}" for number in range(SENDERS)]
        self.senders = [Sender(name, url, site.seed, self._stopping, pause_s=0.05) for name in names]
        self.probes = Probes(f"r{site.rounds}-probe", site.other_url, self._stopping)
        for thread in (*self.senders, self.probes):
            thread.start()

    def await_alerts(self, more: int = 30) -> None:
        """Wait until more alerts are accepted."""
        before = self._count()
        wait_until(lambda: self._count() >= before + more, seconds=60)

    def _count(self) -> int:
        return sum(len(sender.accepted) for sender in self.senders)

    def await_probe(self, since: float) -> None:
        """Wait until an alert of the other service that was sent after this time is accepted."""
        wait_until(
            lambda: any(probe.accepted and probe.sent_at > since for probe in tuple(self.probes.sent)),
            seconds=LONGEST_RECOVERY_S,
        )

    def stop(self) -> None:
        self._stopping.set()
        for thread in (*self.senders, self.probes):
            thread.join()


def run_round(site: Site, name: str, fault: AbstractContextManager[None], seconds: float) -> Row:
    """Send alerts before, during and after a fault that lasts `seconds`. Return the counts."""
    traffic = site.start_traffic()
    try:
        traffic.await_alerts()
        with fault:
            threading.Event().wait(seconds)
        ended = time()
        traffic.await_probe(ended)
        traffic.await_alerts()
    finally:
        traffic.stop()
    wait_until(is_done, seconds=LONGEST_RECOVERY_S, every=0.2)
    failures = [sender.failure for sender in traffic.senders if sender.failure]
    assert failures == [], failures
    return _count_round(site, name, traffic, ended)


def _count_round(site: Site, name: str, traffic: RoundTraffic, ended: float) -> Row:
    ledger = Ledger(site.relay)
    accepted, sequences = merge_senders(traffic.senders)
    repeated, stale = ledger.count_repeated(), ledger.count_stale()
    unnotified = frozenset(ledger.list_unnotified())
    row = Row(
        fault=name,
        accepted=len(accepted) + len(traffic.probes.trace_ids),
        unknown=sum(sender.unknown for sender in traffic.senders),
        lost=len(ledger.list_unprocessed(accepted, sequences)) + _count_lost_probes(ledger, traffic.probes),
        duplicate_incidents=len(ledger.list_unordered(sequences)),
        unnotified=len(unnotified - site.unnotified),
        repeated=repeated - site.repeated,
        stale=stale - site.stale,
        probes=sum(probe.sent_at <= ended for probe in traffic.probes.sent),
        during=_count_during(ledger, traffic.probes, ended),
        recovery_s=_measure_recovery(ledger, traffic.probes, ended),
        examples=tuple(sorted(unnotified - site.unnotified)[:3]),
    )
    site.repeated, site.stale, site.unnotified = repeated, stale, unnotified
    return row


def _count_lost_probes(ledger: Ledger, probes: Probes) -> int:
    opened = ledger.run_rows.opened
    return sum(len(opened.get(entity, ())) != 1 for entity in probes.trace_ids.values())


def _get_mail_time(ledger: Ledger, entity: str) -> float | None:
    moments = [ledger.run_rows.first_sent_at(row) for row in ledger.run_rows.opened.get(entity, ())]
    return min((moment for moment in moments if moment is not None), default=None)


def _count_during(ledger: Ledger, probes: Probes, ended: float) -> tuple[int, int]:
    early = [probe for probe in probes.sent if probe.accepted and probe.sent_at <= ended]
    mailed = [at for probe in early if (at := _get_mail_time(ledger, probe.entity)) and at <= ended]
    return len(early), len(mailed)


def _measure_recovery(ledger: Ledger, probes: Probes, ended: float) -> float:
    mailed = [
        (probe.sent_at, _get_mail_time(ledger, probe.entity)) for probe in probes.sent if probe.accepted
    ]
    later = [at for sent_at, at in mailed if at is not None and sent_at > ended]
    earlier = [at for sent_at, at in mailed if at is not None and sent_at <= ended]
    return max([0.0, min(later, default=ended) - ended, *(at - ended for at in earlier)])


HEADS = (
    "fault", "accepted", "no answer", "lost", "duplicate incidents", "not notified", "mails repeated",
    "stale mails", "other service, during: sent, accepted, mailed", "recovery s",
)  # fmt: skip


@dataclass
class Table:
    """The lines of all rounds of a run."""

    rows: list[Row] = field(default_factory=list)

    def format(self) -> str:
        """Return the table in Markdown."""
        lines = [f"| {' | '.join(HEADS)} |", f"|---|{'---:|' * (len(HEADS) - 1)}"]
        for row in self.rows:
            during = f"{row.probes}, {row.during[0]}, {row.during[1]}"
            cells = (
                row.fault, row.accepted, row.unknown, row.lost, row.duplicate_incidents, row.unnotified,
                row.repeated, row.stale, during, f"{row.recovery_s:.1f}",
            )  # fmt: skip
            lines.append(f"| {' | '.join(map(str, cells))} |")
        return "\n".join(lines)
