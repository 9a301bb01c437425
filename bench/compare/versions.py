"""`python -m bench.compare.versions FOLDER`: measure the code of another folder beside this one.

The speed of a machine can change by a third between minutes. So an instance of each version runs at the same
time, and each gets a short load in turn, many times. The ratios of neighbouring runs differ by some percent
only, and their mean by less: the output has its standard error.
"""

from pathlib import Path

import click

from bench.compare.options import QUICK, quick_option, run_or_exit, server_option
from bench.compare.turns import Side, format_comparison, measure_in_turns, shrink
from bench.run import RunSpec
from bench.servers.other_version import OtherVersion
from bench.suite import STORM, STORM_16, UNIQUE
from bench.tocsin import start_on_postgres
from bench.traffic import Way

RUNS = (
    RunSpec(UNIQUE, 6_000, 6_000, way=Way.EVENT),
    RunSpec(STORM, 10_000, 200, way=Way.EVENT),
    RunSpec(STORM_16, 6_000, 200, connections=16, way=Way.EVENT),
)
# The first alerts after a start are slower.
WARM_UP = RunSpec("warm-up", 4_000, 200, way=Way.EVENT)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--rounds", default=5, show_default=True, help="Rounds; each has two runs of both versions.")
@server_option
@quick_option
def main(folder: Path, rounds: int, server: str, quick: bool) -> None:
    """Measure the code in FOLDER and this code in turn, on PostgreSQL.

    FOLDER is a checkout of another commit. Its tables must have the columns that this code reads for its
    verification. `python -m tocsin` of its `.venv` is used if it has one, else the packages of this code.
    """
    run_or_exit(lambda: measure(folder.resolve(), server, rounds, quick))


def measure(folder: Path, server: str, rounds: int, quick: bool) -> tuple[str, bool]:
    """Return the table. Ratios are those of this code to the other. There is no budget."""
    factor = QUICK if quick else 1
    with (
        start_on_postgres(server, OtherVersion, code=str(folder)) as other,
        start_on_postgres(server) as this,
    ):
        sides = (Side("other", other, other.connected), Side("this", this, this.connected))
        measure_in_turns(sides, shrink([WARM_UP], factor), 1)
        found = measure_in_turns(sides, shrink(RUNS, factor), rounds)
    return format_comparison(found), True


if __name__ == "__main__":
    main()
