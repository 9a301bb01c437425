"""`python -m bench.timers`: measure 100,000 timers that are due at the same time."""

import json
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from bench.data import escalations
from bench.report import describe_machine, format_machine
from bench.run import percentile
from bench.servers.instance import NotReady, wait_until
from bench.servers.more_workers import MoreWorkers
from bench.servers.postgres import Database, ServerUnavailable, create_own_database
from bench.servers.processes import Meter, OtherLoad
from bench.servers.sink import Sink
from models.store.opening import open_store
from models.store.store import connection, db, store
from models.tables.incidents import IncidentLog
from models.tables.notifications import Message, Notification
from models.tables.timers import Timer

# The budget: all timers that are due in one minute are done within the next minute.
BUDGET_S = 60.0
TIMEOUT_S = 300.0
INCIDENTS = 100_000
TEAMS = 50
POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Measured:
    """`done_s` and the CPU times count from the due time of all timers to the end of the last."""

    incidents: int
    services: int
    messages: int
    done_s: float
    late_p50_s: float
    late_p99_s: float
    late_max_s: float
    workers_cpu_s: float
    server_cpu_s: float
    other_load: float

    @property
    def is_over(self) -> bool:
        return self.done_s > BUDGET_S


def measure(server: str, incidents: int) -> Measured:
    """Measure one run. Raise NotReady if it takes too long, ClickException if a timer was not done once."""
    with ExitStack() as stack:
        database = stack.enter_context(create_own_database(server))
        sink = Sink().start()
        stack.callback(sink.stop)
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="tocsin-bench-")))
        instance = MoreWorkers(folder, sink.port, database_url=database.url)
        stack.callback(instance.stop)
        instance.start()
        instance.add_worker()
        open_store(database.url, instance.home)
        stack.callback(db.close_all)
        with connection():
            due_at = store().now() + timedelta(seconds=20 + incidents / 2_500)
        written = escalations.write_incidents(
            instance.credentials()["account_id"], incidents, TEAMS, lambda number: due_at
        )
        return _measure_run(instance, database, written, due_at)


def _measure_run(
    instance: MoreWorkers, database: Database, written: escalations.WrittenIncidents, due_at: datetime
) -> Measured:
    with connection():
        wait_until(lambda: due_at - store().now() < timedelta(seconds=1), 600.0)
        if store().now() >= due_at:
            raise NotReady("writing the incidents took too long")
        ours = frozenset(one.pid for one in database.backends() if one.pid == _get_backend_pid())
        workers = Meter(instance.workers).start()
        backends = Meter(lambda: database.backends(ours)).start()
        other_load = OtherLoad(lambda: instance.processes() + database.backends(ours))
        is_done = wait_until(lambda: not _has_due_timers(due_at), TIMEOUT_S, POLL_S)
        other_percent = other_load.get_percent()
        workers.stop()
        backends.stop()
        if not is_done:
            raise NotReady(f"not done within {TIMEOUT_S:.0f} s:\n{instance.log.read_text()[-2000:]}")
        late = _reconcile(written, due_at)
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
            other_percent,
        )


def _get_backend_pid() -> int:
    pid: int = db.execute_sql("select pg_backend_pid()").fetchone()[0]
    return pid


def _has_due_timers(due_at: datetime) -> bool:
    found: bool = Timer.select().where(Timer.done_at.is_null(), Timer.due_at <= due_at).exists()
    return found and store().now() < due_at + timedelta(seconds=TIMEOUT_S)


def _reconcile(written: escalations.WrittenIncidents, due_at: datetime) -> list[float]:
    """Return the lateness of all timers in seconds, sorted. Verify that every step was taken once and
    notified once, and that the next timer is pending."""
    done = Timer.select(Timer.done_at).where(Timer.due_at == due_at, Timer.done_at.is_null(False))
    late = sorted((at - due_at).total_seconds() for (at,) in done.tuples())
    steps = Counter(row for (row,) in IncidentLog.select(IncidentLog.incident).tuples())
    notifications = Counter(row for (row,) in Notification.select(Notification.incident).tuples())
    following = Timer.select().where(Timer.done_at.is_null(), Timer.due_at > due_at).count()
    for what, found in (("timers done", len(late)), ("next timers pending", following)):
        if found != written.incidents:
            raise click.ClickException(f"{found:,} {what}, not {written.incidents:,}")
    for what, counted in (("steps", steps), ("notifications", notifications)):
        if len(counted) != written.incidents or set(counted.values()) != {1}:
            raise click.ClickException(f"{what} are not one for each incident")
    return late


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--server",
    envvar="TEST_DATABASE_URL",
    default="postgresql:///postgres",
    show_default=True,
    help="Server on which databases may be created.",
)
@click.option("--incidents", default=INCIDENTS, show_default=True)
@click.option("--json", "as_machine", is_flag=True, help="Print JSON.")
def main(server: str, incidents: int, as_machine: bool) -> None:
    """Measure timers that are due at the same time, with two workers on PostgreSQL.

    Exit code 1 if the timers take more than a minute, or could not be measured.
    """
    try:
        one = measure(server, incidents)
    except (ServerUnavailable, NotReady) as error:
        raise click.ClickException(f"not measured: {error}") from None
    machine = describe_machine()
    if as_machine:
        click.echo(json.dumps({"machine": machine, "timers": asdict(one)}, indent=2))
    else:
        click.echo(f"{_format_result(one)}\n\n{format_machine(machine)}")
    if one.is_over:
        sys.exit(1)


def _format_result(one: Measured) -> str:
    cpu_ms = 1000 * (one.workers_cpu_s + one.server_cpu_s) / one.incidents
    lines = (
        f"{one.incidents:,} timers of {one.services} services, due at once, two workers on PostgreSQL",
        f"done after {one.done_s:.1f} s (budget {BUDGET_S:.0f}), {one.incidents / one.done_s:,.0f} a second",
        f"late p50 {one.late_p50_s:.1f}, p99 {one.late_p99_s:.1f}, at most {one.late_max_s:.1f} s",
        f"CPU {cpu_ms:.2f} ms each: workers {one.workers_cpu_s:.1f} s, server {one.server_cpu_s:.1f} s",
        f"notified in {one.messages:,} messages; elsewhere {one.other_load:.0f} % of all cores",
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
