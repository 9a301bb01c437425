"""The host's clock is set while incidents escalate: each step is taken once, and pages continue.

On SQLite, this clock decides: an hour ahead makes timers due. After an hour back, the steps of incidents that
lie in the future count from then. On PostgreSQL, the server's clock decides, and nothing changes.
"""

import random
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from time import monotonic

import pytest

from bench.servers.instance import Instance
from bench.servers.sink import Sink
from models.domain.enums import IncidentStatus
from models.store.store import connection
from models.tables.incidents import Incident
from models.tables.timers import Timer
from tests.faults.lengths import FOR_THE_HOSTS_CLOCK, length
from tests.support.faults import escalations
from tests.support.faults.due_scans import DueScans
from tests.support.faults.escalations import (
    IN_TIME,
    answered,
    await_mails,
    count_steps,
    find_wrong_steps,
    pause,
)
from tests.support.faults.host_clock import HostClock
from tests.support.faults.installation import Installation
from tests.support.faults.senders import Connection
from tests.support.polling import wait_until
from tests.support.stores import SERVER

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]

HOUR = timedelta(hours=1)
ESCALATIONS = 500
# The time before the first step, in which incidents are written and some are acknowledged or resolved.
BEFORE = timedelta(seconds=12)
# The time over which steps become due. The clock is set in the middle.
SPREAD = timedelta(seconds=length(10, 15))
# The longest time from a new alert to its page: workers look into the database every 5 s.
SOON_S = 6.0
# The limit for all steps that an hour ahead makes due at once.
SOON_FOR_MANY = timedelta(seconds=10)
# The longest time without a due scan, and the highest number of scans within some seconds.
LONGEST_SILENCE_S = 4.0
MAX_IN_FIVE_SECONDS = 9
# Threads that send alerts while the clock is set.
SENDERS = 4


def test_an_hour_ahead_and_back_takes_each_step_once(
    launch: Callable[..., Installation],
    sink: Sink,
    host_clock: HostClock,
    chance: random.Random,
    report: Callable[[str], None],
) -> None:
    instance = launch()
    on_host = not SERVER
    with DueScans(instance) as scans:
        due_from = write_due_incidents(instance, chance)
        silent = list_due(due_from + SPREAD * 2 / 3, due_from + SPREAD)
        answered(instance, silent)
        sleep_until(due_from + SPREAD / 2)
        host_clock.step(HOUR)
        ahead_s = measure_page_time(instance, sink, "ahead")
        if on_host:
            # By this clock, the last step of each is overdue too.
            escalations.await_steps(due_from + HOUR, seconds=20)
        sleep_until(due_from + SPREAD)
        host_clock.step(-HOUR)
        set_back_s = measure_page_time(instance, sink, "back")
        escalations.await_steps(due_from + SPREAD)
        pause(3)
    still = await_mails(sink)

    late = list_lateness(host_clock if on_host else None)
    report(f"{summarize(late, scans)}; new alerts notified after {ahead_s:.1f} and {set_back_s:.1f} s")
    # Incidents with earlier steps take their last step now and notify again.
    steps, times = (2, (1, 2)) if on_host else (1, (1,))
    assert find_wrong_steps(ESCALATIONS, steps, times, len(silent)) == []
    assert still == []
    assert [
        seconds for seconds in late if not is_in_time(seconds, SOON_FOR_MANY if on_host else IN_TIME)
    ] == []
    assert max(ahead_s, set_back_s) <= SOON_S
    assert_steady(scans)


@FOR_THE_HOSTS_CLOCK
def test_an_hour_back_and_ahead_takes_each_step_once(
    launch: Callable[..., Installation],
    sink: Sink,
    host_clock: HostClock,
    chance: random.Random,
    report: Callable[[str], None],
) -> None:
    instance = launch()
    on_host = not SERVER
    with DueScans(instance) as scans:
        due_from = write_due_incidents(instance, chance)
        silent = list_due(due_from + SPREAD * 2 / 3, due_from + SPREAD)
        if not on_host:
            answered(instance, silent)
        sleep_until(due_from + SPREAD / 2)
        host_clock.step(-HOUR)
        if on_host:
            # By the corrected times, no other step becomes due until the clock is set ahead again.
            answered(instance, silent)
        set_back_s = measure_page_time(instance, sink, "back")
        before = count_steps()
        sleep_until(due_from + SPREAD + IN_TIME)
        meanwhile = count_steps() - before
        host_clock.step(HOUR)
        ahead_s = measure_page_time(instance, sink, "ahead")
        escalations.await_steps(due_from + SPREAD)
        pause(3)
    still = await_mails(sink)

    late = list_lateness(host_clock if on_host else None)
    report(f"{summarize(late, scans)}; new alerts notified after {set_back_s:.1f} and {ahead_s:.1f} s")
    # By the corrected times, the last step of each is overdue too when the clock is set ahead.
    steps, times = (2, (1, 2)) if on_host else (1, (1,))
    assert find_wrong_steps(ESCALATIONS, steps, times, len(silent)) == []
    assert still == []
    assert (meanwhile == 0) == on_host
    assert [
        seconds for seconds in late if not is_in_time(seconds, SOON_FOR_MANY if on_host else IN_TIME)
    ] == []
    assert max(set_back_s, ahead_s) <= SOON_S
    assert_steady(scans)


@pytest.mark.parametrize(
    "step", [pytest.param(HOUR, id="ahead"), pytest.param(-HOUR, id="back", marks=FOR_THE_HOSTS_CLOCK)]
)
def test_alerts_during_a_clock_step_notify_once_and_soon(
    launch: Callable[..., Installation],
    sink: Sink,
    host_clock: HostClock,
    report: Callable[[str], None],
    step: timedelta,
) -> None:
    instance = launch()
    stopping = threading.Event()
    with ThreadPoolExecutor(SENDERS) as pool:
        sent = [pool.submit(alerts_until, stopping, instance, number) for number in range(SENDERS)]
        pause(3)
        for by in (step, -step, step):
            host_clock.step(by)
            pause(3)
        stopping.set()
        accepted = sum(each.result() for each in sent)
    started_time = monotonic()
    wait_until(lambda: len(get_opened()) == accepted, seconds=30, every=0.2)
    still = await_mails(sink)

    report(f"{accepted} alerts, all notified {monotonic() - started_time:.1f} s after the last")
    assert still == []


def alerts_until(stopping: threading.Event, instance: Instance, number: int) -> int:
    """Send alerts that each open an incident. Return the number of accepted ones."""
    connection_to = Connection(instance.credentials()["webhook_urls"]["generic"][1])
    accepted = 0
    while not stopping.wait(0.03):
        accepted += connection_to.send(alert(f"sender {number} alert {accepted}")) is not None
    connection_to.close()
    return accepted


def alert(name: str) -> dict[str, object]:
    return {"message": name, "alert_type": "critical", "entity_id": name}


def get_opened() -> set[int]:
    with connection():
        return {number for (number,) in Incident.select(Incident.incident_number).tuples()}


def write_due_incidents(instance: Installation, chance: random.Random) -> datetime:
    """Write 500 incidents. Their next steps become due after the returned time."""
    due_from = escalations.now() + BEFORE
    escalations.write_escalations(instance, [due_from + SPREAD * chance.random() for _ in range(ESCALATIONS)])
    return due_from


def sleep_until(moment: datetime) -> None:
    """Sleep until a time of the test's own clock, which is not set and equals PostgreSQL's."""
    pause(max((moment - escalations.now()).total_seconds(), 0.0))


def list_due(since: datetime, until_then: datetime) -> list[int]:
    """Return the numbers of every second incident with a timer due in this time."""
    with connection():
        timers_due = Timer.select(Incident.incident_number).join(Incident)
        within = timers_due.where(Timer.due_at.between(since, until_then))
        return sorted(number for (number,) in within.tuples())[::2]


def measure_page_time(instance: Instance, sink: Sink, name: str) -> float:
    """Return the seconds from a new alert to its page."""
    connection_to = Connection(instance.credentials()["webhook_urls"]["generic"][1])
    started_time = monotonic()
    connection_to.send(alert(f"the clock is {name}"))
    connection_to.close()
    wait_until(lambda: any(f"the clock is {name}" in mail.text for mail in tuple(sink.mails)), seconds=30)
    return monotonic() - started_time


def list_lateness(clock: HostClock | None) -> list[float]:
    """Return the lateness of the timers of triggered incidents in seconds of the true clock.

    `clock` is the clock that decided, None for the true one. A timer that was overdue at a clock step may be
    postponed by it. It counts from the step that made it due again."""
    triggered = Incident.status == IncidentStatus.TRIGGERED
    with connection():
        query = Timer.select(Timer.due_at, Timer.done_at).join(Incident).where(triggered)
        rows = list(query.where(Timer.done_at.is_null(False)).tuples())
    if clock is not None:
        rows = [
            (
                max(clock.get_first_moment(timers_due), clock.get_last_step_before(done)),
                clock.get_moment(done),
            )
            for timers_due, done in rows
        ]
    return sorted((done_at - due_at).total_seconds() for due_at, done_at in rows)


def is_in_time(late_s: float, limit: timedelta) -> bool:
    # A process that read the clock during a step may be slightly early.
    return -0.1 <= late_s <= limit.total_seconds()


def summarize(late: Iterable[float], scans: DueScans) -> str:
    """Summarize the run in a line."""
    late = list(late)
    return (
        f"{len(late)} timers, late p50 {late[len(late) // 2]:.2f} s, at most {late[-1]:.2f} s;"
        f" longest without a tick {scans.get_longest_silence():.1f} s, {scans.get_most_within(5)} in 5 s"
    )


def assert_steady(scans: DueScans) -> None:
    """Assert that due scans neither stop for an hour nor come in a burst."""
    assert scans.get_longest_silence() <= LONGEST_SILENCE_S
    assert scans.get_most_within(5) <= MAX_IN_FIVE_SECONDS
