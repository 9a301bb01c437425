"""The options that the comparisons share."""

import sys
from collections.abc import Callable

import click

from bench.report import describe_machine, format_machine
from bench.servers.postgres import ServerUnavailable
from bench.suite import FAILURES

# The factor of --quick for all numbers.
QUICK = 100

server_option = click.option(
    "--server",
    envvar="TEST_DATABASE_URL",
    default="postgresql:///postgres",
    show_default=True,
    help="Server on which databases may be created.",
)
quick_option = click.option("--quick", is_flag=True, help="A hundredth of all numbers, as a trial.")


def run_or_exit(measure: Callable[[], tuple[str, bool]]) -> None:
    """Print the text of a measurement. Exit code 1 if it does not meet its budget, or failed."""
    machine = describe_machine()
    try:
        text, is_met = measure()
    except (*FAILURES, ServerUnavailable) as error:
        click.echo(f"not reported: {error}", err=True)
        sys.exit(1)
    click.echo(f"{text}\n\n{format_machine(machine)}")
    if not is_met:
        sys.exit(1)


def judge(
    what: str, measured: float, limit: float, *, at_least: bool = True, unit: str = ""
) -> tuple[str, bool]:
    """Return a line with a value, its budget and whether it is met, and whether it is met."""
    is_met = measured >= limit if at_least else measured <= limit
    sign, verdict = ">=" if at_least else "<=", "met" if is_met else "missed"
    return f"{what}: {measured:.2f}{unit} (budget {sign} {limit:g}{unit}): {verdict}", is_met
