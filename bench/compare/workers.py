"""`python -m bench.compare.workers`: measure two workers against one, and how long they wait for locks."""

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import click
import psycopg

from bench.compare.options import QUICK, judge, quick_option, run_or_exit, server_option
from bench.compare.turns import Side, format_comparison, measure_in_turns, shrink
from bench.report import align
from bench.run import RunSpec
from bench.servers.more_workers import MoreWorkers
from bench.servers.postgres import create_own_database
from bench.suite import STORM, UNIQUE
from bench.tocsin import start_on_database

# The full rate with two workers, against that with one. The two have no more cores than the one.
BUDGET = 0.95
ONE, TWO = "one worker", "two workers"
RUNS = (
    RunSpec(UNIQUE, 10_000, 10_000),
    RunSpec(STORM, 10_000, 200),
    RunSpec(f"{UNIQUE}, one service", 10_000, 10_000, services=1),
    RunSpec(f"{STORM}, one service", 10_000, 200, services=1),
)

SAMPLE_S = 0.05
# The backends that work, and those of them that wait for a lock; without those that accept alerts. What
# remains are the workers: the processes of an instance have no names of their own in this view.
BUSY = """
select count(*), count(*) filter (where wait_event_type = 'Lock') from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle'
and query not like 'INSERT INTO "receipt"%'
"""
LEGEND = """\
busy: backends that work or wait for the database, on average. blocked: those of them that wait for a lock.
waits %: the share of the time of the busy backends in which they wait for a lock."""


@dataclass(slots=True)
class LockWaits:
    """`busy` and `blocked` are sums over all samples: backends at work, and those that wait for a lock."""

    samples: int = 0
    busy: int = 0
    blocked: int = 0

    def get_percent(self) -> float:
        """Return the share of the time of busy backends in which they waited for a lock, in percent."""
        return 100 * self.blocked / max(self.busy, 1)


class LockSampler:
    """Adds the backends of a database that wait for locks to `found`, while its context is open."""

    def __init__(self, url: str, found: LockWaits) -> None:
        self._talk = psycopg.connect(url, autocommit=True)
        self._found = found
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._sample_loop, name="lock sampler", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._talk.close()

    def _sample_loop(self) -> None:
        while not self._stopping.wait(SAMPLE_S):
            busy, blocked = self._talk.execute(BUSY).fetchone() or (0, 0)
            self._found.samples += 1
            self._found.busy += busy
            self._found.blocked += blocked


@dataclass(slots=True)
class Bench:
    """An instance on a database, and the waits for locks by run and side."""

    instance: MoreWorkers
    url: str
    waits: dict[tuple[str, str], LockWaits] = field(default_factory=lambda: defaultdict(LockWaits))

    @contextmanager
    def run_one(self, run: str) -> Iterator[None]:
        self.instance.remove_workers()
        with self._sample(run, ONE):
            yield

    @contextmanager
    def run_two(self, run: str) -> Iterator[None]:
        if len(self.instance.workers()) < 2:
            self.instance.add_worker()
        with self._sample(run, TWO):
            yield

    @contextmanager
    def _sample(self, run: str, side: str) -> Iterator[None]:
        with LockSampler(self.url, self.waits[run, side]):
            yield


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@server_option
@quick_option
def main(server: str, quick: bool) -> None:
    """Measure one worker and two workers in turn, on one instance on PostgreSQL.

    Exit code 1 if two workers process less than 0.95 of the alerts that one processes in the same time.
    """
    run_or_exit(lambda: measure(server, quick))


def measure(server: str, quick: bool) -> tuple[str, bool]:
    """Return the tables with the budget, and whether it is met."""
    with (
        create_own_database(server) as database,
        start_on_database(database, MoreWorkers) as (target, instance),
    ):
        bench = Bench(instance, database.url)
        sides = (Side(ONE, target, bench.run_one), Side(TWO, target, bench.run_two))
        found = measure_in_turns(sides, shrink(RUNS, QUICK if quick else 1))
    run, ratio = found.get_lowest_ratio()
    verdict, is_met = judge(f"full rate, two workers against one, {run}", ratio, BUDGET)
    return "\n\n".join((format_comparison(found), format_waits(bench.waits), verdict)), is_met


def format_waits(waits: Mapping[tuple[str, str], LockWaits]) -> str:
    rows = [
        [
            run,
            side,
            f"{found.samples:,}",
            *(f"{each / max(found.samples, 1):.1f}" for each in (found.busy, found.blocked)),
            f"{found.get_percent():.1f}",
        ]
        for (run, side), found in waits.items()
    ]
    return f"{align(['run', 'target', 'samples', 'busy', 'blocked', 'waits %'], rows)}\n{LEGEND}"


if __name__ == "__main__":
    main()
