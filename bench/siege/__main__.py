"""`python -m bench.siege`: one tenant attacks, another receives its mail, on SQLite and on PostgreSQL."""

import signal
import sys

import click

from bench.__main__ import stop
from bench.report import describe_machine, format_machine
from bench.servers.instance import NotReady
from bench.servers.postgres import ServerUnavailable
from bench.siege.report import format_figures
from bench.siege.run import Siege, start_on_postgres, start_on_sqlite

STARTS = {"sqlite": lambda _: start_on_sqlite(), "postgresql": start_on_postgres}
# The share of the duration in which each attack runs by itself before: 50 alerts of the other tenant.
BY_ITSELF = 1 / 12


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--duration", default=120.0, show_default=True, help="Seconds of all attacks together.")
@click.option(
    "--store",
    "stores",
    type=click.Choice([*STARTS]),
    multiple=True,
    default=[*STARTS],
    help="One store.",
)
@click.option("--attack", "only", multiple=True, help="Only attacks whose names contain this text.")
@click.option("--server", envvar="TEST_DATABASE_URL", default="postgresql:///postgres", show_default=True)
def main(duration: float, stores: tuple[str, ...], only: tuple[str, ...], server: str) -> None:
    """Attack with each input by itself, then with everything at the same time.

    Print what it costs, and what it does to another tenant.

    Exit code 1 if an accepted alert of the other tenant was lost or notified twice, or if the other tenant
    got a 5xx or no answer.
    """
    for asked in (signal.SIGINT, signal.SIGTERM):
        signal.signal(asked, stop)
    machine = describe_machine()
    siege = Siege(
        duration,
        duration * BY_ITSELF,
        only=only,
        report=lambda text: click.echo(f"{text} ...", err=True),
    )
    failed = False
    for store in stores:
        try:
            with STARTS[store](server) as target:
                figures = siege.run(target)
        except (NotReady, ServerUnavailable) as error:
            click.echo(f"{store}: not measured: {error}", err=True)
            sys.exit(1)
        click.echo(f"{format_figures(figures)}\n")
        failed = failed or figures.failed
    click.echo(format_machine(machine))
    sys.exit(failed)


if __name__ == "__main__":
    main()
