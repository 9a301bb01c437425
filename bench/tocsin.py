"""Tocsin as a target: one that runs already, or one of one's own on a store of its own."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench import books
from bench.instance import Instance, own_instance
from bench.load import Accepted, Sent, trace_id_of
from bench.postgres import own_database
from bench.processes import Process
from bench.run import Lost, Told
from bench.sink import Sink
from bench.traffic import GENERIC, Traffic
from models import founding
from models.applications import GENERIC as GENERIC_APPLICATION
from models.base import connection, db, open_store, store
from models.services import Integration

# Alerts of one run are spread over so many.
SERVICES = 20


class Tocsin:
    """A running instance whose tables are open to this process."""

    alone = GENERIC

    def __init__(
        self,
        name: str,
        credentials: dict[str, Any],
        processes: Callable[[], list[Process]],
        sink: Sink | None = None,
        more_urls: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.sink = sink
        self._processes = processes
        self._generic = [credentials["webhook_urls"]["generic"][1], *more_urls]
        self._groups = [credentials["webhook_urls"]["prometheus"][1]]
        self._since = books.Mark(0, 0, 0)
        self._mails_before = 0

    def urls(self, batch: int) -> Sequence[str]:
        return self._generic if batch == 1 else self._groups

    def name_of(self, answer: bytes) -> str:
        return trace_id_of(answer)

    def processes(self) -> list[Process]:
        return self._processes()

    def begin(self) -> None:
        self._since = books.mark()
        self._mails_before = len(self.sink.mails) if self.sink else 0

    def settled(self, traffic: Traffic) -> bool:
        return not books.waiting()

    def told(self, traffic: Traffic, sent: Sent) -> Told:
        return self.told_of(traffic.run, sent.accepted, sent.accepted)

    def told_of(self, run: str, accepted: Sequence[Accepted], timed: Iterable[Accepted]) -> Told:
        """All that was accepted must be borne out; only the notices of `timed` are timed."""
        written = books.read(self._since, run, self.sink.arrivals() if self.sink else None)
        if faults := written.check(accepted):
            raise Lost(faults)
        messages = len(self.sink.mails) - self._mails_before if self.sink else len(written.handed_over)
        notices = sum(map(len, written.notices.values()))
        return Told(notices, messages, list(written.notice_waits_ms(timed)))


@contextmanager
def running(home: Path, database_url: str, sink_port: int | None, processes: Any) -> Iterator[Tocsin]:
    """The instance of a data folder, whoever started it."""
    open_store(database_url, home)
    credentials = json.loads((home / "credentials.json").read_text())
    sink = Sink(sink_port).start() if sink_port else None
    try:
        yield Tocsin("Tocsin", credentials, processes, sink)
    finally:
        if sink is not None:
            sink.stop()


@contextmanager
def on_sqlite() -> Iterator[Tocsin]:
    """An instance of one's own on the embedded default."""
    with own_instance() as (instance, sink):
        yield _opened("Tocsin, SQLite", instance, sink, "", instance.processes)


@contextmanager
def on_postgres(server: str) -> Iterator[Tocsin]:
    """An instance of one's own on a fresh database of a server. Raises NoServer."""
    with ExitStack() as ending:
        database = ending.enter_context(own_database(server))
        instance, sink = ending.enter_context(own_instance(database_url=database.url))
        ours: set[int] = set()

        def processes() -> list[Process]:
            return instance.processes() + database.backends(frozenset(ours))

        target = _opened("Tocsin, PostgreSQL", instance, sink, database.url, processes)
        ending.callback(db.close_all)
        with connection():
            ours.add(db.execute_sql("select pg_backend_pid()").fetchone()[0])
        yield target


def _opened(
    name: str, instance: Instance, sink: Sink, database_url: str, processes: Callable[[], list[Process]]
) -> Tocsin:
    open_store(database_url, instance.home)
    credentials = instance.credentials()
    return Tocsin(name, credentials, processes, sink, _more_urls(credentials["webhook_urls"]["generic"][1]))


def _more_urls(first: str) -> list[str]:
    """Where more services take alerts, told like the first one; they are made here."""
    parts = urlsplit(first)
    *path, key, _ = parts.path.split("/")
    now = datetime.now(UTC)
    keys = []
    with connection(), store().writing():
        like: Any = Integration.get(Integration.integration_key == key).service
        for number in range(2, SERVICES + 1):
            service = founding.new_service(
                like.team, f"Service {number}", like.escalation_policy, like.created_by, now
            )
            made = founding.new_integration(service, "Alerts", GENERIC_APPLICATION, like.created_by, now)
            keys.append(made.integration_key)
    return [parts._replace(path="/".join([*path, key, ""])).geturl() for key in keys]
