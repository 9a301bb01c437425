"""`python -m bench.memory`: measure the memory of an embedded instance at rest and under a steady load."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import click

from bench.budgets import MB
from bench.compare.options import judge, run_or_exit
from bench.idle import idle
from bench.report import align
from bench.run import Figures, RunSpec
from bench.servers.processes import Process, get_resident_mib
from bench.suite import measure_named
from bench.tocsin import Tocsin, start_on_sqlite

# The budgets: all processes at rest in megabytes, the growth from the fifth minute to the last in percent.
REST_MB = 350
GROWTH_PERCENT = 5
# Caches and pools are filled by then.
WARM_MINUTE = 5
REST_S = 10.0
# A tenth of the alerts open incidents.
ALERTS_OF_ENTITY = 10


@dataclass(frozen=True, slots=True)
class Minute:
    """Resident memory (RSS) in MiB by kind of process, at the end of a minute."""

    mib: dict[str, float]
    figures: Figures

    @property
    def total_mib(self) -> float:
        return sum(self.mib.values())


@dataclass(frozen=True, slots=True)
class Load:
    """`rate` alerts a second for `minutes`. A minute has `seconds`, for trials."""

    minutes: int = 15
    rate: float = 50.0
    seconds: float = 60.0

    def build_spec(self) -> RunSpec:
        alerts = max(int(self.rate * self.seconds), 1)
        entities = max(alerts // ALERTS_OF_ENTITY, 1)
        return RunSpec("one minute", alerts, entities, connections=8, rate=self.rate)


DEFAULT = Load()


def measure_minutes(target: Tocsin, load: Load) -> list[Minute]:
    """Measure each minute. Raise AlertsLost if an accepted alert was lost."""
    found = []
    for _ in range(load.minutes):
        figures = measure_named(load.build_spec(), target, True)
        found.append(Minute(sum_by_kind(target.processes()), figures))
    return found


def sum_by_kind(processes: Iterable[Process]) -> dict[str, float]:
    """Return the resident memory of processes by their kind. Memory that they share counts in each."""
    found: dict[str, float] = defaultdict(float)
    for one in processes:
        found[one.kind] += get_resident_mib(one.pid)
    return dict(found)


def get_growth_percent(minutes: Sequence[Minute]) -> float:
    """Return the growth to the last minute: from the fifth, or from the first if there are not more."""
    first = minutes[WARM_MINUTE - 1 if len(minutes) > WARM_MINUTE else 0].total_mib
    return 100 * (minutes[-1].total_mib / first - 1)


def measure(load: Load) -> tuple[str, bool]:
    """Return the table with the budgets, and whether they are met."""
    with start_on_sqlite() as target:
        rest = idle(target, REST_S)
        minutes = measure_minutes(target, load)
    at_rest, rest_is_met = judge(
        "memory at rest (PSS), all processes", rest.mib * MB, REST_MB, at_least=False, unit=" MB"
    )
    growth, growth_is_met = judge(
        f"growth (RSS) to minute {len(minutes)}",
        get_growth_percent(minutes),
        GROWTH_PERCENT,
        at_least=False,
        unit=" %",
    )
    return "\n\n".join((format_minutes(minutes), at_rest, growth)), rest_is_met and growth_is_met


def format_minutes(minutes: Sequence[Minute]) -> str:
    kinds = sorted({kind for minute in minutes for kind in minute.mib})
    rows = [
        [
            str(number),
            f"{minute.total_mib:.1f}",
            *(f"{minute.mib.get(kind, 0.0):.1f}" for kind in kinds),
            f"{minute.figures.accept_rate:.0f}",
            f"{minute.figures.p99_ms:.1f}",
        ]
        for number, minute in enumerate(minutes, start=1)
    ]
    return align(["minute", "RSS MiB", *kinds, "accept/s", "p99 ms"], rows)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--minutes", type=click.IntRange(1), default=DEFAULT.minutes, show_default=True)
@click.option(
    "--rate", type=click.FloatRange(0.1), default=DEFAULT.rate, show_default=True, help="Alerts a second."
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1),
    default=DEFAULT.seconds,
    show_default=True,
    help="The length of a minute; less for a trial.",
)
def main(minutes: int, rate: float, seconds: float) -> None:
    """Start an instance on SQLite, measure its memory at rest, then every minute under load.

    Exit code 1 if it is over 350 MB at rest, or grows by more than 5 % from the fifth minute to the last.
    """
    run_or_exit(lambda: measure(Load(minutes, rate, seconds)))


if __name__ == "__main__":
    main()
