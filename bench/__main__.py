"""`python -m bench`: measure a running instance, or with --own all of it, beside its peers."""

import json
import signal
import sys
from pathlib import Path
from types import FrameType

import click

from bench import processes
from bench.report import build_json, describe_machine, format_machine, format_report, format_runs
from bench.run import RunSpec
from bench.suite import FAILURES, Results, Suite, measure_named
from bench.tocsin import open_running


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--own", is_flag=True, help="Start instances and peers, measure all of them, and end them.")
@click.option("--quick", is_flag=True, help="With --own: a tenth of everything, for a short look.")
@click.option("--peers/--no-peers", default=True, show_default=True, help="With --own: others beside it.")
@click.option(
    "--server",
    envvar="TEST_DATABASE_URL",
    default="postgresql:///postgres",
    show_default=True,
    help="With --own: where databases may be made.",
)
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
    quick: bool,
    peers: bool,
    server: str,
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
    for asked in (signal.SIGINT, signal.SIGTERM):
        signal.signal(asked, _stop)
    machine = describe_machine()
    try:
        if own:
            results = Suite(server, quick, peers, quiet).run()
        else:
            spec = RunSpec("load", alerts, entities or alerts, batch, connections, rate)
            results = _of_running(spec, Path(home), database_url, sink_port, quiet)
    except FAILURES as error:
        click.echo(f"not reported: {error}", err=True)
        sys.exit(1)
    if as_machine:
        click.echo(json.dumps(build_json(results, machine), indent=2))
    else:
        click.echo(
            format_report(results, machine)
            if own
            else f"{format_runs(results.runs)}\n\n{format_machine(machine)}"
        )


def _of_running(spec: RunSpec, home: Path, database_url: str, sink_port: int | None, quiet: bool) -> Results:
    if not (home / "credentials.json").exists():
        raise click.ClickException(f"no credentials.json in {home}: set TOCSIN_HOME or --home")
    with open_running(home, database_url, sink_port, lambda: processes.list_by_home(home)) as target:
        return Results([measure_named(spec, target, quiet)])


def _stop(number: int, frame: FrameType | None) -> None:
    """Like Ctrl-C: everything that was started is ended on the way out."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
