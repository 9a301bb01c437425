"""Measure two sides in turn, so that a change of the machine's speed harms both alike."""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from bench.load import Loader
from bench.report import align
from bench.run import Figures, RunSpec, Sender
from bench.suite import measure_named
from bench.tocsin import Tocsin

ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Side:
    """`during` gets the name of a run and returns a context in which the run of this side is measured."""

    name: str
    target: Tocsin
    during: Callable[[str], AbstractContextManager[object]] = nullcontext
    create_sender: Callable[..., Sender] = Loader


@dataclass(slots=True)
class Comparison:
    """The figures of both sides by the name of the run. Ratios are those of the second side to the first."""

    sides: tuple[str, str]
    figures: Mapping[str, Mapping[str, list[Figures]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )

    def get_mean(self, run: str, side: str, column: str) -> float:
        return statistics.mean(getattr(one, column) for one in self.figures[run][side])

    def get_ratio(self, run: str, column: str = "full_rate") -> float:
        first, second = (self.get_mean(run, side, column) for side in self.sides)
        return second / first if first else 0.0

    def get_error(self, run: str, column: str = "full_rate") -> float:
        """Return the standard error of the ratios of neighbouring runs; 0 if there are not two of them."""
        pairs = zip(*(self.figures[run][side] for side in self.sides), strict=False)
        values = [(getattr(first, column), getattr(second, column)) for first, second in pairs]
        ratios = [second / first for first, second in values if first]
        return statistics.stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else 0.0

    def get_lowest_ratio(self) -> tuple[str, float]:
        """Return the run with the lowest ratio of full rates, and the ratio."""
        ratios = {run: self.get_ratio(run) for run in self.figures}
        run = min(ratios, key=lambda name: ratios[name])
        return run, ratios[run]


def list_turns(sides: tuple[Side, Side], rounds: int = ROUNDS) -> Iterator[Side]:
    """Yield first, second, second, first, and again."""
    first, second = sides
    for _ in range(rounds):
        yield from (first, second, second, first)


def measure_in_turns(
    sides: tuple[Side, Side],
    specs: Iterable[RunSpec],
    rounds: int = ROUNDS,
    found: Comparison | None = None,
) -> Comparison:
    """Measure each run on both sides in turn. Raise AlertsLost if an accepted alert was lost."""
    found = found or Comparison((sides[0].name, sides[1].name))
    for spec in specs:
        for side in list_turns(sides, rounds):
            with side.during(spec.name):
                figures = measure_named(spec, side.target, True, side.create_sender)
            found.figures[spec.name][side.name].append(figures)
    return found


def shrink(specs: Sequence[RunSpec], factor: int) -> list[RunSpec]:
    """Return the runs with a fraction of their alerts."""
    return [
        replace(one, alerts=one.alerts // factor, entities=min(one.entities, one.alerts // factor))
        for one in specs
    ]


# Heading, field of the figures, format.
COLUMNS = (
    ("accept/s", "accept_rate", "{:,.0f}"),
    ("p50 ms", "p50_ms", "{:.1f}"),
    ("p99 ms", "p99_ms", "{:.1f}"),
    ("full/s", "full_rate", "{:,.0f}"),
    ("CPU ms/alert", "cpu_ms", "{:.2f}"),
    ("elsewhere %", "other_load", "{:.0f}"),
)


def format_comparison(found: Comparison) -> str:
    """Return a table with the means of both sides and the ratios of the second side to the first.

    The rows with ± are the standard errors of the ratios.
    """
    rows = []
    for run in found.figures:
        for side in found.sides:
            means = (form.format(found.get_mean(run, side, name)) for _, name, form in COLUMNS)
            rows.append([run, side, *means])
        ratios = (f"{found.get_ratio(run, name):.2f}" for _, name, _ in COLUMNS[:-1])
        errors = (f"{found.get_error(run, name):.2f}" for _, name, _ in COLUMNS[:-1])
        rows += [[run, "ratio", *ratios, ""], [run, "±", *errors, ""]]
    return align(["run", "target", *(heading for heading, _, _ in COLUMNS)], rows)
