"""`python -m bench.oncall`: measure who is on call, over a year and for many policies.

Also measure how much longer alerts wait for their answers beside people who ask who is on call.
"""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException
from time import perf_counter
from typing import Any

import click

from bench.data.schedules import DAY, KINDS, STARTED_AT, Kind, build_schedule, write_policies
from bench.load import Loader
from bench.report import describe_machine, format_machine
from bench.servers.instance import NotReady, start_own_instance
from bench.servers.postgres import ServerUnavailable, create_own_database
from bench.traffic import Traffic, Way
from models.store.opening import open_store
from models.store.store import connection, db, store
from models.tables.schedules import Schedule
from models.tables.teams import Team
from schedules.oncall.schedule_shifts import list_shifts

YEAR = 365 * DAY
TIMES = 5

# The budget, for the best of five runs, because other work on the machine only adds time.
YEAR_BUDGET_MS = 50.0
POLICIES = 10_000
POLICIES_BUDGET_MS = 2_000.0
# Who is on call by one schedule must not cost more in an account with many schedules.
ONE_BUDGET_MS = 20.0
PROBLEMS_BUDGET_MS = 500.0
# Beside this number of clients that ask without a pause, the answer to an alert must come this soon (99 %).
ASKING = 4
ALERTS = 1_000
ALERTS_PER_SECOND = 100.0
ACCEPT_BUDGET_MS = 100.0


@dataclass(frozen=True, slots=True)
class Measured:
    """`found` is the number of shifts, or of people."""

    subject: str
    found: int
    best_ms: float
    budget_ms: float

    @property
    def is_over(self) -> bool:
        return self.best_ms > self.budget_ms


def measure_year(kind: Kind) -> Measured:
    """Measure all shifts of a year of a schedule with ten layers and fifty users."""
    facts, found, times_ms = build_schedule(kind), [], []
    for _ in range(TIMES):
        started_time = perf_counter()
        found = list_shifts(facts, STARTED_AT, STARTED_AT + YEAR)
        times_ms.append(1000 * (perf_counter() - started_time))
    return Measured(f"a year of {kind.name}", len(found), min(times_ms), YEAR_BUDGET_MS)


def measure_account(name: str, server: str, count: int) -> list[Measured]:
    """Measure who is on call in all policies of a team, and in one of its schedules, over HTTP."""
    with ExitStack() as stack:
        url = stack.enter_context(create_own_database(server)).url if server else ""
        instance, _ = stack.enter_context(start_own_instance(**({"database_url": url} if url else {})))
        open_store(url, instance.home)
        stack.callback(db.close_all)
        credentials = instance.credentials()
        team_row = write_policies(credentials["account_id"], count)
        with connection():
            db.execute_sql(store().upkeep_sql)
            schedule = Schedule.select().where(Schedule.team == team_row).order_by(Schedule.id).get()
            schedule_count = Schedule.select().count()
        client = HTTPConnection("127.0.0.1", instance.port, timeout=60)
        stack.callback(client.close)
        one = f"/api/tocsin/schedules/{schedule.unique_id}/oncall/"
        where = f"1 of {schedule_count:,} schedules"
        token, address = credentials["token"], ("127.0.0.1", instance.port)
        alert_url = f"{instance.url}/api/events/{credentials['integration_key']}/"
        accept_ms = [_measure_accept_p99(alert_url)]
        with _ask_all_the_time(address, token, one):
            accept_ms.append(_measure_accept_p99(alert_url))
        return [
            Measured(f"accept p99 on {name}", ALERTS, accept_ms[0], ACCEPT_BUDGET_MS),
            Measured(f"accept p99 beside {ASKING} who ask", ALERTS, accept_ms[1], ACCEPT_BUDGET_MS),
            _measure_policies(client, credentials["token"], team_row, name, count),
            _measure_schedule(client, credentials["token"], one, f"{where} on {name}", ONE_BUDGET_MS),
            _measure_schedule(
                client, credentials["token"], f"{one}?include=conflicts,gaps", f"{where}, with problems",
                PROBLEMS_BUDGET_MS,
            ),
        ]  # fmt: skip


def _measure_accept_p99(url: str) -> float:
    """Send alerts at a low rate. Return the 99th percentile of the times until their answers, in ms."""
    traffic = Traffic("oncall", ALERTS, 10, way=Way.EVENT)
    sent = Loader(url, 8, rate=ALERTS_PER_SECOND).run(traffic.requests(url))
    if sent.refused or sent.unknown:
        raise click.ClickException(f"refused {dict(sent.refused)}, without an answer {sent.unknown}")
    return sorted(sent.latencies_ms)[int(0.99 * len(sent.latencies_ms))]


@contextmanager
def _ask_all_the_time(address: tuple[str, int], token: str, path: str) -> Iterator[None]:
    """Let some clients ask the same question without a pause. Too many questions are refused with 429."""
    stopping = threading.Event()

    def ask() -> None:
        client = HTTPConnection(*address, timeout=60)
        while not stopping.is_set():
            client.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            client.getresponse().read()
        client.close()

    clients = [threading.Thread(target=ask) for _ in range(ASKING)]
    for client in clients:
        client.start()
    try:
        yield
    finally:
        stopping.set()
        for client in clients:
            client.join()


def _measure_policies(client: HTTPConnection, token: str, team: Team, name: str, count: int) -> Measured:
    path = f"/api/v2/account/teams/{team.unique_id}/oncall/"
    policies, best_ms = _ask(client, token, path)
    people_count = sum(len(step["oncalls"]) for policy in policies for step in policy["oncalls"])
    if len(policies) != count + 1 or people_count < count:
        raise click.ClickException(f"{len(policies)} policies with {people_count} people were answered")
    return Measured(f"{count:,} policies on {name}", people_count, best_ms, POLICIES_BUDGET_MS)


def _measure_schedule(
    client: HTTPConnection, token: str, path: str, subject: str, budget_ms: float
) -> Measured:
    answer, best_ms = _ask(client, token, path)
    if not answer["oncalls"] or (answer["conflicts"] is None) == ("include" in path):
        raise click.ClickException(f"{path} was answered with {answer}")
    return Measured(subject, len(answer["oncalls"]), best_ms, budget_ms)


def _ask(client: HTTPConnection, token: str, path: str) -> tuple[Any, float]:
    """Return the answer to a request, and the milliseconds of the fastest of some."""
    times_ms = []
    for _ in range(TIMES):
        started_time = perf_counter()
        client.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = client.getresponse()
        text = answer.read()
        times_ms.append(1000 * (perf_counter() - started_time))
        if answer.status != 200:
            raise click.ClickException(f"{answer.status} {text[:200]!r}")
    return json.loads(text), min(times_ms)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--server",
    envvar="TEST_DATABASE_URL",
    default="postgresql:///postgres",
    show_default=True,
    help='Server on which databases may be created; "": no PostgreSQL.',
)
@click.option("--policies", "count", default=POLICIES, show_default=True)
@click.option("--json", "as_machine", is_flag=True, help="Print JSON.")
def main(server: str, count: int, as_machine: bool) -> None:
    """Measure who is on call. Exit code 1 if a figure is over its budget or could not be measured."""
    measured = [measure_year(kind) for kind in KINDS]
    missing = False
    for name, where in (("SQLite", ""), ("PostgreSQL", server)):
        if name == "PostgreSQL" and not server:
            continue
        try:
            measured += measure_account(name, where, count)
        except (ServerUnavailable, NotReady, OSError, HTTPException) as error:
            click.echo(f"{name}: not measured: {error}", err=True)
            missing = True
    machine = describe_machine()
    if as_machine:
        click.echo(json.dumps({"machine": machine, "oncall": [asdict(one) for one in measured]}, indent=2))
    else:
        click.echo(f"{_format_table(measured)}\n\n{format_machine(machine)}")
    if missing or any(one.is_over for one in measured):
        sys.exit(1)


def _format_table(measured: list[Measured]) -> str:
    lines = [f"{'':32}{'found':>10}{'best ms':>10}{'budget':>10}"]
    for one in measured:
        over = "  over" if one.is_over else ""
        lines.append(f"{one.subject:32}{one.found:10,}{one.best_ms:10.1f}{one.budget_ms:10.0f}{over}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
