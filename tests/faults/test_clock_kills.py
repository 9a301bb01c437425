"""The clock and workers are killed while incidents escalate: each step is taken once and on time."""

import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import pytest

from bench.servers.instance import Instance
from bench.servers.sink import Sink
from models.store.store import connection, store
from models.tables.incidents import Incident
from models.tables.timers import Timer
from tests.faults.lengths import length
from tests.support.faults.escalations import (
    IN_TIME,
    answered,
    await_mails,
    await_steps,
    find_unordered,
    find_wrong_steps,
    get_last_done_at,
    has_due_timers,
    now,
    pause,
    summarize,
    write_escalations,
)
from tests.support.faults.installation import Installation
from tests.support.polling import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]

ESCALATIONS = 2_000
# The time over which the steps become due.
SPREAD = timedelta(seconds=length(10, 15))
STRIKES = length(
    ("clock", "worker", "flushall", "clock"), ("clock", "worker", "clock", "flushall", "worker", "clock")
)
# The time before the first step, in which all rows must be written.
BEFORE = timedelta(seconds=8)


def test_each_step_is_taken_once_and_on_time_despite_kills_and_a_flushall(
    launch: Callable[..., Installation],
    flushall: Callable[[Instance], None],
    chance: random.Random,
    report: Callable[[str], None],
) -> None:
    instance = launch()
    due_from = write_due_incidents(instance, chance)
    outages = Outages(instance)
    for strike in STRIKES:
        pause(chance.uniform(1, 3))
        with outages.restart_measured(strike):
            if strike == "flushall":
                flushall(instance)
            else:
                wait_until(lambda kind=strike: instance.kill_one(kind, chance))
    await_steps(due_from + SPREAD)

    report(f"{summarize()}; {outages}")
    assert find_wrong_steps(ESCALATIONS) == []
    assert outages.list_late() == []


def test_one_of_two_clocks_can_be_killed(
    launch: Callable[..., Installation], chance: random.Random, report: Callable[[str], None]
) -> None:
    instance = launch()
    with start_second_clock(instance) as second:
        due_from = write_due_incidents(instance, chance)
        pause(chance.uniform(8, 8 + SPREAD.total_seconds() / 2))
        os.kill(second.pid, signal.SIGKILL)
        await_steps(due_from + SPREAD)

    report(summarize())
    assert find_wrong_steps(ESCALATIONS) == []
    assert Outages(instance).list_late() == []


def test_overdue_steps_are_taken_at_once_after_ten_minutes_of_downtime(
    launch: Callable[..., Installation], sink: Sink, chance: random.Random, report: Callable[[str], None]
) -> None:
    instance = launch()
    write_escalations(instance, [now() + timedelta(minutes=5)] * ESCALATIONS)
    instance.stop()
    shift_by_ten_minutes()
    with start_only_web(instance):
        answered(instance, chance.sample(range(1, ESCALATIONS + 1), ESCALATIONS // 4))
    started = now()
    instance.start()
    wait_until(lambda: not has_due_timers(now()), seconds=60, every=0.2)
    still = await_mails(sink)

    # The third step is due then too: both steps are taken, and one of them notifies.
    report(f"{summarize()}; all within {(get_last_done_at() - started).total_seconds():.1f} s of the start")
    assert find_wrong_steps(ESCALATIONS, steps=2, answered=ESCALATIONS // 4) == []
    assert find_unordered() == []
    assert still == []


def write_due_incidents(instance: Installation, chance: random.Random) -> datetime:
    """Write 2,000 incidents. Their next steps become due after the returned time."""
    due_from = now() + BEFORE
    write_escalations(instance, [due_from + SPREAD * chance.random() for _ in range(ESCALATIONS)])
    return due_from


def shift_by_ten_minutes() -> None:
    """Move all stored times ten minutes back."""
    by = timedelta(minutes=10)
    with connection(), store().write_transaction():
        for row in Timer.select():
            Timer.update(due_at=row.due_at - by).where(Timer.id == row.id).execute()
        for row in Incident.select():
            written_at = row.run_started_at - by
            moved = Incident.update(run_started_at=written_at, creation_date=written_at)
            moved.where(Incident.id == row.id).execute()


@contextmanager
def start_only_web(instance: Installation) -> Iterator[None]:
    """Run only the web process of an instance."""
    started = instance.run("web")
    try:
        wait_until(lambda: instance.get_readiness() == 200)
        yield
    finally:
        started.terminate()
        started.wait()


@contextmanager
def start_second_clock(instance: Installation) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a second clock beside `tocsin up`, as on another host."""
    started = instance.run("clock")
    try:
        wait_until(lambda: instance.read_output().count('"clock started"') == 2)
        yield started
    finally:
        started.kill()
        started.wait()


class Outages:
    """The times between a kill and the restart."""

    def __init__(self, instance: Installation) -> None:
        self._instance = instance
        self._spans: list[tuple[datetime, datetime]] = []

    @contextmanager
    def restart_measured(self, kind: str) -> Iterator[None]:
        """Record an outage around a kill. It ends when as many processes of this kind have started again."""
        before, started_at = self._count_starts(kind), now()
        yield
        if kind != "flushall":
            wait_until(lambda: self._count_starts(kind) > before, seconds=30)
        self._spans.append((started_at, now()))

    def _count_starts(self, kind: str) -> int:
        log_event = {"clock": '"clock started"', "worker": '"working"'}.get(kind, "")
        return self._instance.read_output().count(log_event) if log_event else 0

    def list_late(self) -> list[str]:
        """Return timers that were done more than 2 s after their due time or, during an outage, after its
        end."""
        with connection():
            done = Timer.select(Timer.incident, Timer.due_at, Timer.done_at).where(
                Timer.done_at.is_null(False)
            )
            rows = list(done.tuples())
        return [
            f"incident {incident}: {(done_at - due_at).total_seconds():.1f} s"
            for incident, due_at, done_at in rows
            if not due_at <= done_at <= self._get_expected_at(due_at) + IN_TIME
        ]

    def _get_expected_at(self, due_at: datetime) -> datetime:
        """Return when a timer was expected: after an outage that began while it was fired."""
        for started_at, ended in self._spans:
            if started_at - IN_TIME <= due_at <= ended or started_at <= due_at + IN_TIME <= ended:
                due_at = max(due_at, ended)
        return due_at

    def __str__(self) -> str:
        outages_s = [(ended - started_at).total_seconds() for started_at, ended in self._spans]
        return f"away {', '.join(f'{seconds:.1f}' for seconds in outages_s)} s"
