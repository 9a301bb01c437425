"""Tocsin as a target: a running instance, or a new instance with a new database."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import run_rows
from bench.load import Accepted, Sent, get_alert_id
from bench.run import AlertsLost, RunOutcome, RunSpec
from bench.servers.instance import Instance, Started, start_instance_of, start_own_instance
from bench.servers.postgres import Database, create_own_database
from bench.servers.processes import Process
from bench.servers.sink import Sink
from bench.traffic import GENERIC, Traffic, Way
from models.domain.applications import GENERIC as GENERIC_APPLICATION
from models.domain.applications import PROMETHEUS
from models.people import provisioning
from models.store.opening import open_store
from models.store.store import connection, db, store
from models.tables.services import Integration

# The alerts of a run are spread over this number of services.
SERVICES = 20


class Tocsin:
    """A running instance. This process can read its tables."""

    single_body = GENERIC

    def __init__(
        self,
        name: str,
        credentials: dict[str, Any],
        processes: Callable[[], list[Process]],
        sink: Sink | None = None,
        more_keys: Mapping[Way, Sequence[str]] | None = None,
    ) -> None:
        """`more_keys` are the integration keys of more services, by the operation that takes them."""
        self.name = name
        self.sink = sink
        self._processes = processes
        webhooks = credentials["webhook_urls"]
        first = {
            Way.WEBHOOK: webhooks["generic"][1],
            Way.EVENT: f"{credentials['base_url']}/api/events/{credentials['integration_key']}/",
            Way.ALERTMANAGER: webhooks["prometheus"][1],
        }
        self._urls = {
            way: [url, *(_replace_key(url, key) for key in (more_keys or {}).get(way, ()))]
            for way, url in first.items()
        }
        # Makes this process read the tables of this target, if it has read those of another one.
        self.connect: Callable[[], None] = lambda: None
        self._since = run_rows.Baseline(0, 0, 0)
        self._mails_before = 0

    def urls(self, spec: RunSpec) -> Sequence[str]:
        return self._urls[spec.way][: spec.services]

    def get_alert_id(self, answer: bytes) -> str:
        return get_alert_id(answer)

    def processes(self) -> list[Process]:
        return self._processes()

    @contextmanager
    def connected(self, run: str = "") -> Iterator[None]:
        """Let this process read the tables of this target. For any run (bench.compare.turns.Side)."""
        self.connect()
        yield

    def start_run(self) -> None:
        self._since = run_rows.take_baseline()
        self._mails_before = len(self.sink.mails) if self.sink else 0

    def is_done(self, traffic: Traffic) -> bool:
        return not run_rows.has_pending()

    def reconcile(self, traffic: Traffic, sent: Sent) -> RunOutcome:
        return self.reconcile_run(traffic.run, sent.accepted, sent.accepted)

    def reconcile_run(self, run: str, accepted: Sequence[Accepted], timed: Iterable[Accepted]) -> RunOutcome:
        """Verify all accepted alerts. Measure the times of notifications only for `timed`."""
        rows = run_rows.load_run(self._since, run, self.sink.arrivals() if self.sink else None)
        if faults := rows.find_faults(accepted):
            raise AlertsLost(faults)
        messages = len(self.sink.mails) - self._mails_before if self.sink else len(rows.sent_at)
        notifications = sum(map(len, rows.notifications.values()))
        return RunOutcome(notifications, messages, list(rows.list_latencies_ms(timed)))


@contextmanager
def open_running(home: Path, database_url: str, sink_port: int | None, processes: Any) -> Iterator[Tocsin]:
    """Open the running instance of a data folder."""
    open_store(database_url, home)
    credentials = json.loads((home / "credentials.json").read_text())
    sink = Sink(sink_port).start() if sink_port else None
    try:
        yield Tocsin("Tocsin", credentials, processes, sink)
    finally:
        if sink is not None:
            sink.stop()


@contextmanager
def start_on_sqlite() -> Iterator[Tocsin]:
    """Start a new instance on SQLite."""
    with start_own_instance() as (instance, sink):
        open_store("", instance.home)
        yield _create_target("Tocsin, SQLite", instance, sink, instance.processes)


@contextmanager
def start_on_postgres(server: str, kind: type[Started] = Instance, **settings: str) -> Iterator[Tocsin]:
    """Start a new instance of this kind on a new PostgreSQL database. Raise ServerUnavailable."""
    with (
        create_own_database(server) as database,
        start_on_database(database, kind, **settings) as (target, _),
    ):
        yield target


@contextmanager
def start_on_database(
    database: Database, kind: type[Started], **settings: str
) -> Iterator[tuple[Tocsin, Started]]:
    """Start a new instance of this kind on an empty database."""
    with ExitStack() as stack:
        instance, sink = stack.enter_context(start_instance_of(kind, database_url=database.url, **settings))
        ours: set[int] = set()

        def processes() -> list[Process]:
            return instance.processes() + database.backends(frozenset(ours))

        def connect() -> None:
            if db.obj is not None:
                db.close_all()
            open_store(database.url, instance.home)
            with connection():
                ours.add(db.execute_sql("select pg_backend_pid()").fetchone()[0])

        connect()
        stack.callback(lambda: db.close_all())
        target = _create_target("Tocsin, PostgreSQL", instance, sink, processes)
        target.connect = connect
        yield target, instance


def _create_target(
    name: str, instance: Instance, sink: Sink, processes: Callable[[], list[Process]]
) -> Tocsin:
    credentials = instance.credentials()
    return Tocsin(name, credentials, processes, sink, _create_services(credentials["integration_key"]))


def _replace_key(url: str, key: str) -> str:
    *path, _, _ = url.split("/")
    return "/".join([*path, key, ""])


def _create_services(first_key: str) -> dict[Way, list[str]]:
    """Create more services with the policy of the first one, and return the keys of their integrations."""
    now = datetime.now(UTC)
    keys: dict[Way, list[str]] = {way: [] for way in Way}
    with connection(), store().write_transaction():
        first: Any = Integration.get(Integration.integration_key == first_key).service
        for number in range(2, SERVICES + 1):
            service = provisioning.create_service(
                first.team, f"Service {number}", first.escalation_policy, first.created_by, now
            )
            generic, groups = (
                provisioning.create_integration(service, name, application, first.created_by, now)
                for name, application in (("Alerts", GENERIC_APPLICATION), ("Groups", PROMETHEUS))
            )
            keys[Way.WEBHOOK].append(generic.integration_key)
            keys[Way.EVENT].append(generic.integration_key)
            keys[Way.ALERTMANAGER].append(groups.integration_key)
    return keys
