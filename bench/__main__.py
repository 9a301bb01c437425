"""`python -m bench`: measure a running instance or, with --own, new instances and other systems (peers).

`python -m bench report FILE` writes the tables of docs/performance.md and docs/experiments/runs.md.
"""

import json
import signal
import sys
from pathlib import Path
from types import FrameType

import click

from bench.budgets import list_below_floor
from bench.page import PAGES, write_page
from bench.report import build_json, describe_machine, format_machine, format_report, format_runs
from bench.results import BadFile, read_results, write_results
from bench.run import RunSpec
from bench.servers import processes
from bench.suite import FAILURES, Results, Suite, measure_named
from bench.tocsin import open_running
from bench.traffic import Way


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--own", is_flag=True, help="Start new instances and other systems (peers), measure them, and stop them."
)
@click.option("--quick", is_flag=True, help="With --own: a tenth of all numbers, for a quick result.")
@click.option(
    "--peers/--no-peers", default=True, show_default=True, help="With --own: measure other systems too."
)
@click.option(
    "--server",
    envvar="TEST_DATABASE_URL",
    default="postgresql:///postgres",
    show_default=True,
    help="With --own: server on which databases may be created.",
)
@click.option(
    "--home", envvar="TOCSIN_HOME", default="./var", show_default=True, help="Data folder of the instance."
)
@click.option(
    "--database-url", envvar="TOCSIN_DATABASE_URL", default="", help="PostgreSQL of the instance, if any."
)
@click.option("--alerts", default=20_000, show_default=True, help="How many alerts to send.")
@click.option("--entities", type=int, help="Number of entities; default: as many as alerts.")
@click.option(
    "--way",
    type=click.Choice([way.name.lower() for way in Way]),
    default=Way.WEBHOOK.name.lower(),
    show_default=True,
    help="The operation that accepts the alerts.",
)
@click.option("--batch", default=1, show_default=True, help="Alerts per request, with --way alertmanager.")
@click.option("--connections", default=64, show_default=True, help="Number of keep-alive connections.")
@click.option("--rate", type=float, help="Requests per second; default: as fast as answers arrive.")
@click.option("--sink", "sink_port", type=int, help="Receive mail on this port of 127.0.0.1.")
@click.option(
    "--results",
    "results_path",
    type=click.Path(dir_okay=False, path_type=Path),
    default="bench-results.json",
    show_default=True,
    help="With --own: write all results into this file.",
)
@click.option("--json", "as_machine", is_flag=True, help="Print JSON.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@click.pass_context
def main(
    context: click.Context,
    *,
    own: bool,
    quick: bool,
    peers: bool,
    server: str,
    home: str,
    database_url: str,
    alerts: int,
    entities: int | None,
    way: str,
    batch: int,
    connections: int,
    rate: float | None,
    sink_port: int | None,
    results_path: Path,
    as_machine: bool,
    quiet: bool,
) -> None:
    """Send alerts, wait until all are processed and notified, verify every 2xx, and report.

    Exit code 1, and no figures, if an accepted alert was lost or not notified exactly once. Without
    --sink, a notification counts as sent when Tocsin has recorded that the relay accepted it.

    With --own, exit code 1 also if a figure is below the floor of its budget. With --quick, no floor applies:
    such short runs are slower.
    """
    if context.invoked_subcommand is not None:
        return
    for asked in (signal.SIGINT, signal.SIGTERM):
        signal.signal(asked, stop)
    machine = describe_machine()
    try:
        if own:
            results = Suite(server, quick, peers, quiet).run()
        else:
            spec = RunSpec("load", alerts, entities or alerts, batch, connections, rate, Way[way.upper()])
            results = _of_running(spec, Path(home), database_url, sink_port, quiet)
    except FAILURES as error:
        click.echo(f"not reported: {error}", err=True)
        sys.exit(1)
    if own:
        write_results(results_path, results, machine, quick=quick)
    if as_machine:
        click.echo(json.dumps(build_json(results, machine), indent=2))
    else:
        click.echo(
            format_report(results, machine)
            if own
            else f"{format_runs(results.runs)}\n\n{format_machine(machine)}"
        )
    if own and not quick and (below := list_below_floor(results)):
        click.echo(f"below the floor: {'; '.join(below)}", err=True)
        sys.exit(1)


@main.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--page",
    "pages",
    type=click.Path(dir_okay=False, path_type=Path),
    multiple=True,
    default=PAGES,
    help="A page with the tables.",
)
def report(file: Path, pages: tuple[Path, ...]) -> None:
    """Write the tables of docs/performance.md and docs/experiments/runs.md from a FILE of results."""
    try:
        for page in pages:
            write_page(page, read_results(file))
    except BadFile as error:
        raise click.ClickException(str(error)) from None


def _of_running(spec: RunSpec, home: Path, database_url: str, sink_port: int | None, quiet: bool) -> Results:
    if not (home / "credentials.json").exists():
        raise click.ClickException(f"no credentials.json in {home}: set TOCSIN_HOME or --home")
    with open_running(home, database_url, sink_port, lambda: processes.list_by_home(home)) as target:
        return Results([measure_named(spec, target, quiet)])


def stop(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, so that all started processes are stopped."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
