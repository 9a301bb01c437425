"""`python -m bench.timers`: how long 100,000 incidents wait for a step that is due for all at once."""

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from bench import chains
from bench.instance import Instance, NotUp, until
from bench.postgres import Database, NoServer, own_database
from bench.processes import Elsewhere, Meter, Process, family
from bench.report import machine_line, this_machine
from bench.run import percentile
from bench.sink import Sink
from models.base import connection, db, open_store, store
from models.incidents import IncidentLog
from models.notices import Message, Notice
from models.timers import Timer

# What is promised: all that are due in one minute are done within the next.
BUDGET_S = 60.0
PATIENCE_S = 300.0
INCIDENTS = 100_000
TEAMS = 50
POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Measured:
    """`done_s` is from the moment at which all were due to the end of the last; CPU is until then, too."""

    incidents: int
    services: int
    messages: int
    done_s: float
    late_p50_s: float
    late_p99_s: float
    late_max_s: float
    workers_cpu_s: float
    server_cpu_s: float
    elsewhere: float

    @property
    def is_over(self) -> bool:
        return self.done_s > BUDGET_S


class TwoWorkers(Instance):
    """`tocsin up`, and one more worker as on another host."""

    _second: "subprocess.Popen[bytes] | None" = None

    def start(self, timeout: float = 30.0) -> "TwoWorkers":
        super().start(timeout)
        command = [sys.executable, "-P", "-m", "tocsin", "worker", "--parent", str(os.getpid())]
        with self.log.open("ab") as told:
            self._second = subprocess.Popen(
                command, env=self._environment, stdin=subprocess.DEVNULL, stdout=told, stderr=told
            )
        if not until(lambda: self.log.read_text().count('"working"') == 2, timeout):
            raise NotUp(f"the second worker did not get ready:\n{self.log.read_text()[-2000:]}")
        return self

    def _end(self, processes: list[Process]) -> None:
        super()._end(processes)
        if self._second is not None:
            self._second.wait()
            self._second = None

    def processes(self) -> list[Process]:
        return super().processes() + (family(self._second.pid) if self._second is not None else [])

    def workers(self) -> list[Process]:
        return [one for one in self.processes() if one.kind == "worker"]


def measured(server: str, incidents: int) -> Measured:
    """One run. Raises NotUp when they are not all done in time, and a fault when one was not done once."""
    with ExitStack() as ending:
        database = ending.enter_context(own_database(server))
        sink = Sink().start()
        ending.callback(sink.stop)
        folder = Path(ending.enter_context(TemporaryDirectory(prefix="tocsin-bench-")))
        instance = TwoWorkers(folder, sink.port, database_url=database.url)
        ending.callback(instance.stop)
        instance.start()
        open_store(database.url, instance.home)
        ending.callback(db.close_all)
        with connection():
            due_at = store().now() + timedelta(seconds=20 + incidents / 2_500)
        written = chains.written(
            instance.credentials()["account_id"], incidents, TEAMS, lambda number: due_at
        )
        return _watched(instance, database, written, due_at)


def _watched(instance: TwoWorkers, database: Database, written: chains.Chains, due_at: datetime) -> Measured:
    with connection():
        until(lambda: due_at - store().now() < timedelta(seconds=1), 600.0)
        if store().now() >= due_at:
            raise NotUp("it took too long to write them")
        ours = frozenset(one.pid for one in database.backends() if one.pid == _backend())
        workers = Meter(instance.workers).start()
        backends = Meter(lambda: database.backends(ours)).start()
        elsewhere = Elsewhere(lambda: instance.processes() + database.backends(ours))
        is_done = until(lambda: not _waits(due_at), PATIENCE_S, POLL_S)
        others = elsewhere.percent()
        workers.stop()
        backends.stop()
        if not is_done:
            raise NotUp(f"not done within {PATIENCE_S:.0f} s:\n{instance.log.read_text()[-2000:]}")
        late = _reconciled(written, due_at)
        return Measured(
            written.incidents,
            len(written.services),
            Message.select().count(),
            max(late),
            percentile(late, 50),
            percentile(late, 99),
            max(late),
            workers.cpu_s,
            backends.cpu_s,
            others,
        )


def _backend() -> int:
    pid: int = db.execute_sql("select pg_backend_pid()").fetchone()[0]
    return pid


def _waits(due_at: datetime) -> bool:
    found: bool = Timer.select().where(Timer.done_at.is_null(), Timer.due_at <= due_at).exists()
    return found and store().now() < due_at + timedelta(seconds=PATIENCE_S)


def _reconciled(written: chains.Chains, due_at: datetime) -> list[float]:
    """How many seconds each was late, in order. Every step is taken once, told of once, and followed by
    the next."""
    done = Timer.select(Timer.done_at).where(Timer.due_at == due_at, Timer.done_at.is_null(False))
    late = sorted((at - due_at).total_seconds() for (at,) in done.tuples())
    steps = Counter(row for (row,) in IncidentLog.select(IncidentLog.incident).tuples())
    told = Counter(row for (row,) in Notice.select(Notice.incident).tuples())
    following = Timer.select().where(Timer.done_at.is_null(), Timer.due_at > due_at).count()
    for what, found in (("timers done", len(late)), ("steps next", following)):
        if found != written.incidents:
            raise click.ClickException(f"{found:,} {what}, not {written.incidents:,}")
    for what, counted in (("steps", steps), ("notices", told)):
        if len(counted) != written.incidents or set(counted.values()) != {1}:
            raise click.ClickException(f"{what} are not one for each incident")
    return late


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--server",
    envvar="TEST_DATABASE_URL",
    default="postgresql:///postgres",
    show_default=True,
    help="Where databases may be made.",
)
@click.option("--incidents", default=INCIDENTS, show_default=True)
@click.option("--json", "as_machine", is_flag=True, help="For machines.")
def main(server: str, incidents: int, as_machine: bool) -> None:
    """Fire as many timers as are due in one moment, with two workers on PostgreSQL. Exit code 1 when that
    takes more than a minute, or could not be measured."""
    try:
        one = measured(server, incidents)
    except (NoServer, NotUp) as error:
        raise click.ClickException(f"not measured: {error}") from None
    machine = this_machine()
    if as_machine:
        click.echo(json.dumps({"machine": machine, "timers": asdict(one)}, indent=2))
    else:
        click.echo(f"{_told(one)}\n\n{machine_line(machine)}")
    if one.is_over:
        sys.exit(1)


def _told(one: Measured) -> str:
    cpu_ms = 1000 * (one.workers_cpu_s + one.server_cpu_s) / one.incidents
    lines = (
        f"{one.incidents:,} timers of {one.services} services, due at once, two workers on PostgreSQL",
        f"done after {one.done_s:.1f} s (budget {BUDGET_S:.0f}), {one.incidents / one.done_s:,.0f} a second",
        f"late p50 {one.late_p50_s:.1f}, p99 {one.late_p99_s:.1f}, at most {one.late_max_s:.1f} s",
        f"CPU {cpu_ms:.2f} ms each: workers {one.workers_cpu_s:.1f} s, server {one.server_cpu_s:.1f} s",
        f"told in {one.messages:,} messages; elsewhere {one.elsewhere:.0f} % of all cores",
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
