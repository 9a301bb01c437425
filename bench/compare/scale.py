"""`python -m bench.compare.scale`: measure an instance with many rows beside an empty one."""

import logging
import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from time import monotonic

import click
import structlog

from bench.compare.hot_statements import StoppedInstance, collect_of_alerts, list_large_scans
from bench.compare.options import QUICK, judge, quick_option, run_or_exit, server_option
from bench.compare.turns import Comparison, Side, format_comparison, measure_in_turns, shrink
from bench.data.large import Sizes, write_large, write_rules
from bench.run import RunSpec
from bench.servers.instance import Instance
from bench.servers.postgres import create_own_database
from bench.suite import STORM, UNIQUE
from bench.tocsin import Tocsin, start_on_database
from bench.traffic import Traffic, Way

# The full rate with many rows against that of an empty instance.
BUDGET = 0.9
EMPTY, LARGE = "empty", "large"
RUNS = (RunSpec(UNIQUE, 10_000, 10_000), RunSpec(STORM, 10_000, 200))
# Rules that match each alert; the others do not match.
MATCHING = (1, 100)
# A sequential scan of a smaller table costs little.
LARGE_TABLE = 1_000


@dataclass(frozen=True, slots=True)
class Started:
    target: Tocsin
    instance: Instance
    database_url: str


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@server_option
@quick_option
def main(server: str, quick: bool) -> None:
    """Fill a PostgreSQL database, then measure its instance and an empty one in turn.

    Exit code 1 if the full rate is less than 0.9 of the empty instance's, or a statement of an alert's path
    scans a large table.
    """
    # The output has figures, not one entry for each mail that this process sends.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    run_or_exit(lambda: measure(server, QUICK if quick else 1))


def measure(server: str, factor: int) -> tuple[str, bool]:
    """Return the table with the budgets, and whether they are met. All numbers are divided by `factor`."""
    sizes = Sizes().divide(factor)
    with ExitStack() as stack:
        empty, large = (_start(stack, server) for _ in range(2))
        filled_s = _fill(large, sizes)
        found = Comparison((EMPTY, LARGE))
        sides = (
            Side(EMPTY, empty.target, empty.target.connected),
            Side(LARGE, large.target, large.target.connected),
        )
        for matching in MATCHING:
            with large.target.connected():
                write_rules(_list_keys(large.target), sizes.rules, matching)
            specs = [replace(one, name=f"{one.name}, {matching} matching") for one in shrink(RUNS, factor)]
            measure_in_turns(sides, specs, found=found)
        statements, scans = _check_plans(large, LARGE_TABLE // factor)
    verdicts = [judge(f"full rate, {run}", found.get_ratio(run), BUDGET) for run in found.figures]
    sections = (
        f"{sizes.events:,} alerts, {sizes.incidents:,} open incidents, {sizes.services:,} services and "
        f"{sizes.rules:,} rules, written in {filled_s:.0f} s",
        format_comparison(found),
        "\n".join(text for text, _ in verdicts),
        "\n".join((f"{statements} statements, {len(scans)} with a scan of a large table", *scans)),
    )
    return "\n\n".join(sections), not scans and all(is_met for _, is_met in verdicts)


def _start(stack: ExitStack, server: str) -> Started:
    database = stack.enter_context(create_own_database(server))
    target, instance = stack.enter_context(start_on_database(database, Instance))
    return Started(target, instance, database.url)


def _fill(large: Started, sizes: Sizes) -> float:
    """Return the seconds that it took."""
    print(f"writing {sizes.events:,} alerts ...", file=sys.stderr, flush=True)
    started = monotonic()
    with large.target.connected():
        write_large(large.instance.credentials()["account_id"], sizes)
    return monotonic() - started


def _list_keys(target: Tocsin) -> list[str]:
    """Return the keys of the integrations that get the alerts of the runs."""
    return [url.split("/")[-2] for url in target.urls(RUNS[0])]


def _check_plans(large: Started, rows: int) -> tuple[int, list[str]]:
    """Return the number of statements of some alerts, and those that scan a table of this number of rows.

    The processes of the instance are stopped before.
    """
    large.instance.stop()
    sink = large.target.sink
    assert sink is not None
    with large.target.connected():
        requests = [
            request
            for way in (Way.WEBHOOK, Way.EVENT, Way.ALERTMANAGER)
            for request in Traffic("plans", 4, 2, way=way).requests(
                *large.target.urls(replace(RUNS[0], way=way))
            )
        ]
        stopped = StoppedInstance(large.instance.home, large.database_url, sink.port)
        seen = collect_of_alerts(stopped, requests)
        return len(seen), list_large_scans(seen, rows)


if __name__ == "__main__":
    main()
