"""`python -m bench.compare.loaders`: check the figures of the sender with a second, independent one."""

import click

from bench.compare.options import QUICK, quick_option, run_or_exit, server_option
from bench.compare.second_loader import SecondLoader
from bench.compare.turns import Side, format_comparison, measure_in_turns, shrink
from bench.run import RunSpec
from bench.suite import STORM, STORM_16, UNIQUE
from bench.tocsin import start_on_postgres

RUNS = (
    RunSpec(UNIQUE, 10_000, 10_000),
    RunSpec(STORM, 10_000, 200),
    RunSpec(STORM_16, 6_000, 200, connections=16),
)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@server_option
@quick_option
def main(server: str, quick: bool) -> None:
    """Send the same alerts with both senders to one instance on PostgreSQL, in turn.

    Only the names of the entities differ between the runs. The ratios are those of the second sender to the
    first: of the accept rate and of p50 and p99 of acceptance.
    """
    run_or_exit(lambda: measure(server, quick))


def measure(server: str, quick: bool) -> tuple[str, bool]:
    """Return the table. There is no budget."""
    with start_on_postgres(server) as target:
        sides = (Side("bench.load", target), Side("second", target, create_sender=SecondLoader))
        return format_comparison(measure_in_turns(sides, shrink(RUNS, QUICK if quick else 1))), True


if __name__ == "__main__":
    main()
