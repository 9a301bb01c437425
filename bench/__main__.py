"""`python -m bench`: measure a running instance, or with --own one that is started for it."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from bench import processes
from bench.instance import NotUp, own_instance
from bench.load import NobodyAnswers
from bench.report import as_json, machine_line, table, this_machine
from bench.run import Figures, Lost, Plan, Target, credentials_of, measure
from bench.sink import Sink
from models.base import open_store

# What --own runs, in this order, all against one instance: together some two minutes on 2 cores.
OWN = (
    Plan("light load", 200, 200, connections=8, rate=20),
    Plan("unique", 20_000, 20_000),
    Plan("storm", 20_000, 200),
    Plan("storm, 16 connections", 20_000, 200, connections=16),
    Plan("unique, groups of 50", 20_000, 20_000, batch=50, connections=16),
    Plan("storm, groups of 50", 50_000, 200, batch=50, connections=16),
)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--own", is_flag=True, help="Start an instance, run the whole table against it, and end it.")
@click.option("--home", envvar="TOCSIN_HOME", default="./var", show_default=True, help="Its data folder.")
@click.option("--database-url", envvar="TOCSIN_DATABASE_URL", default="", help="Its PostgreSQL, if any.")
@click.option("--alerts", default=20_000, show_default=True, help="How many alerts to send.")
@click.option("--entities", type=int, help="About how many entities; default: as many as alerts.")
@click.option("--batch", default=1, show_default=True, help="Alerts in a request; above 1: Alertmanager's.")
@click.option("--connections", default=64, show_default=True, help="Connections, each kept alive.")
@click.option("--rate", type=float, help="Requests a second; default: as fast as answers come.")
@click.option("--sink", "sink_port", type=int, help="Receive its mail on this port of 127.0.0.1.")
@click.option("--json", "as_machine", is_flag=True, help="For machines.")
@click.option("--quiet", is_flag=True, help="No line of progress.")
def main(
    own: bool,
    home: str,
    database_url: str,
    alerts: int,
    entities: int | None,
    batch: int,
    connections: int,
    rate: float | None,
    sink_port: int | None,
    as_machine: bool,
    quiet: bool,
) -> None:
    """Send alerts, wait until all is told, reconcile every 2xx, and report.

    Exit code 1, and no figures, for a run in which an accepted alert was lost or not told of once.
    Without --sink a notice counts as out when the instance says that its relay took it.
    """
    plan = Plan("load", alerts, entities or alerts, batch, connections, rate)
    source = _own() if own else _running(Path(home), database_url, sink_port)
    plans = OWN if own else (plan,)
    machine = this_machine()
    try:
        with source as target:
            runs = [_told(plan, target, quiet) for plan in plans]
    except (Lost, NobodyAnswers, NotUp) as error:
        click.echo(f"not reported: {error}", err=True)
        sys.exit(1)
    if as_machine:
        click.echo(json.dumps(as_json(runs, machine), indent=2))
    else:
        click.echo(f"{table(runs)}\n\n{machine_line(machine)}")


def _told(plan: Plan, target: Target, quiet: bool) -> Figures:
    try:
        return measure(plan, target, quiet)
    except Lost as error:
        error.faults.insert(0, f"run {plan.name!r}")
        raise Lost(error.faults) from None


@contextmanager
def _own() -> Iterator[Target]:
    with own_instance() as (instance, sink):
        open_store("", instance.home)
        yield Target(instance.credentials(), instance.processes, sink)


@contextmanager
def _running(home: Path, database_url: str, sink_port: int | None) -> Iterator[Target]:
    if not (home / "credentials.json").exists():
        raise click.ClickException(f"no credentials.json in {home}: set TOCSIN_HOME or --home")
    open_store(database_url, home)
    sink = Sink(sink_port).start() if sink_port else None
    try:
        yield Target(credentials_of(home), lambda: processes.of_home(home), sink)
    finally:
        if sink is not None:
            sink.stop()


if __name__ == "__main__":
    main()
