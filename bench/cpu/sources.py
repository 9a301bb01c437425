"""`python -m bench.cpu.sources`: measure the CPU time of reading a body of each source, per KB."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from time import thread_time

import click
import orjson

from bench.report import describe_machine, format_machine
from pipeline.sources.reading.body import RequestBody
from pipeline.sources.table import SOURCES
from tocsin.commands.alerts.send import list_kinds, load_example

TIMES, BODIES = 7, 200
# A worker with one core then reads 10 MB of bodies in a second.
BUDGET_US = 100.0
# The alerts of a group, for tools that send groups.
GROUP = 50


@dataclass(frozen=True, slots=True)
class Measured:
    """`us_per_kb` is the CPU time of a KB in microseconds, `us` that of a body: medians of several runs."""

    kind: str
    size: int
    us: float
    us_per_kb: float

    @property
    def is_over(self) -> bool:
        # Bodies of less than a KB have a fixed cost.
        return self.us / max(self.size / 1024, 1) > BUDGET_US


def measure(kind: str, name: str, body: object) -> Measured:
    """Read a body many times, as a worker does."""
    raw, parse = orjson.dumps(body), SOURCES[kind].parse
    runs = []
    for _ in range(TIMES):
        started = thread_time()
        for _ in range(BODIES):
            parse(RequestBody(raw))
        runs.append((thread_time() - started) / BODIES * 1e6)
    us = median(runs)
    return Measured(name, len(raw), round(us, 1), round(us / (len(raw) / 1024), 1))


def list_bodies() -> list[tuple[str, str, object]]:
    """Return (kind, name, body) of each example, and a group of those that can have many alerts."""
    found = []
    for kind in list_kinds():
        body = load_example(kind)["body"]
        found.append((kind, kind, body))
        if isinstance(body, dict) and isinstance(body.get("alerts"), list):
            found.append((kind, f"{kind}, {GROUP} alerts", {**body, "alerts": body["alerts"] * GROUP}))
    return found


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "as_machine", is_flag=True, help="Print JSON.")
def main(as_machine: bool) -> None:
    """Measure the CPU time of reading a body of each source. Exit code 1 if one is over its budget."""
    machine = describe_machine()
    measured = [measure(*one) for one in list_bodies()]
    if as_machine:
        click.echo(json.dumps({"machine": machine, "sources": [asdict(one) for one in measured]}, indent=2))
    else:
        click.echo(f"{_format_table(measured)}\n\n{format_machine(machine)}")
    if any(one.is_over for one in measured):
        sys.exit(1)


def _format_table(measured: Sequence[Measured]) -> str:
    lines = [f"{'source':28}{'bytes':>8}{'µs':>10}{'µs per KB':>12}"]
    for one in measured:
        over = "  over" if one.is_over else ""
        lines.append(f"{one.kind:28}{one.size:8,}{one.us:10.1f}{one.us_per_kb:12.1f}{over}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
