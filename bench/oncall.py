"""`python -m bench.oncall`: how long it takes to know who is on call, over a year and for many policies."""

import json
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException
from time import perf_counter

import click

from bench.instance import NotUp, own_instance
from bench.postgres import NoServer, own_database
from bench.report import machine_line, this_machine
from bench.rotas import BEGUN, DAY, KINDS, Kind, policies, schedule
from models.base import connection, db, open_store, store
from schedules.oncall import shifts

YEAR = 365 * DAY
TIMES = 5

# What is promised: of the best of five, as other work on the machine only adds.
YEAR_BUDGET_MS = 50.0
POLICIES = 10_000
POLICIES_BUDGET_MS = 2_000.0


@dataclass(frozen=True, slots=True)
class Measured:
    """`found` are shifts, or people named."""

    what: str
    found: int
    best_ms: float
    budget_ms: float

    @property
    def is_over(self) -> bool:
        return self.best_ms > self.budget_ms


def year(kind: Kind) -> Measured:
    """All shifts of a year, of a schedule with ten layers and fifty users."""
    facts, found, waits = schedule(kind), [], []
    for _ in range(TIMES):
        begun = perf_counter()
        found = shifts(facts, BEGUN, BEGUN + YEAR)
        waits.append(1000 * (perf_counter() - begun))
    return Measured(f"a year of {kind.name}", len(found), min(waits), YEAR_BUDGET_MS)


def team(name: str, server: str, count: int) -> Measured:
    """Who is on call by each step of each policy of a team, asked over HTTP."""
    with ExitStack() as ending:
        url = ending.enter_context(own_database(server)).url if server else ""
        instance, _ = ending.enter_context(own_instance(**({"database_url": url} if url else {})))
        open_store(url, instance.home)
        ending.callback(db.close_all)
        credentials = instance.credentials()
        made = policies(credentials["account_id"], count)
        with connection():
            db.execute_sql("VACUUM ANALYZE" if store().name == "postgresql" else "PRAGMA wal_checkpoint")
        link = HTTPConnection("127.0.0.1", instance.port, timeout=60)
        ending.callback(link.close)
        waits = []
        for _ in range(TIMES):
            begun = perf_counter()
            headers = {"Authorization": f"Bearer {credentials['token']}"}
            link.request("GET", f"/api/v2/account/teams/{made.unique_id}/oncall/", headers=headers)
            answer = link.getresponse()
            text = answer.read()
            waits.append(1000 * (perf_counter() - begun))
            if answer.status != 200:
                raise click.ClickException(f"{answer.status} {text[:200]!r}")
    said = json.loads(text)
    named = sum(len(step["oncalls"]) for policy in said for step in policy["oncalls"])
    if len(said) != count + 1 or named < count:
        raise click.ClickException(f"{len(said)} policies with {named} people were answered")
    return Measured(f"{count:,} policies on {name}", named, min(waits), POLICIES_BUDGET_MS)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--server",
    envvar="TEST_DATABASE_URL",
    default="postgresql:///postgres",
    show_default=True,
    help='Where databases may be made; "" leaves PostgreSQL out.',
)
@click.option("--policies", "count", default=POLICIES, show_default=True)
@click.option("--json", "as_machine", is_flag=True, help="For machines.")
def main(server: str, count: int, as_machine: bool) -> None:
    """Measure who is on call. Exit code 1 when one is over its budget, or could not be measured."""
    measured = [year(kind) for kind in KINDS]
    missing = False
    for name, where in (("SQLite", ""), ("PostgreSQL", server)):
        if name == "PostgreSQL" and not server:
            continue
        try:
            measured.append(team(name, where, count))
        except (NoServer, NotUp, OSError, HTTPException) as error:
            click.echo(f"{name}: not measured: {error}", err=True)
            missing = True
    machine = this_machine()
    if as_machine:
        click.echo(json.dumps({"machine": machine, "oncall": [asdict(one) for one in measured]}, indent=2))
    else:
        click.echo(f"{_table(measured)}\n\n{machine_line(machine)}")
    if missing or any(one.is_over for one in measured):
        sys.exit(1)


def _table(measured: list[Measured]) -> str:
    lines = [f"{'':32}{'found':>10}{'best ms':>10}{'budget':>10}"]
    for one in measured:
        over = "  over" if one.is_over else ""
        lines.append(f"{one.what:32}{one.found:10,}{one.best_ms:10.1f}{one.budget_ms:10.0f}{over}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
