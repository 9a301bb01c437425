"""PostgreSQL or one of its backends hangs: requests get 503 in time, others go on, and nothing is lost."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from bench.servers.sink import Sink
from tests.faults.lengths import IN_FULL
from tests.support import stores
from tests.support.faults.installation import Installation
from tests.support.faults.traffic import Traffic, get_json, seconds_until_refused
from tests.support.polling import wait_until
from tests.support.postgresql.server import Server, running_server

pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(180),
    pytest.mark.skipif(not stores.SERVER, reason="belongs to the run on PostgreSQL"),
    IN_FULL,
]

# The deadline of an alert, with some time for the machine.
LONGEST_REFUSAL_S = 12.0
IDLE_BACKENDS = """
select pid, client_port from pg_stat_activity
where client_port > 0 and state = 'idle' and wait_event = 'ClientRead' order by backend_start
"""
FROZEN_BACKENDS = 3


@pytest.fixture
def server() -> Iterator[Server]:
    with running_server() as server:
        yield server


@contextmanager
def frozen(pids: list[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def frozen_backend(server: Server, instance: Installation) -> Iterator[None]:
    """Freeze the oldest idle backend of the web process, which is used first.

    One that is frozen during a commit can hold a lock that all other commits need.
    """
    (web,) = (one.pid for one in instance.processes() if one.kind == "web")
    with psycopg.connect(server.url, autocommit=True) as asked:
        while True:
            ports = list_ports(web)
            for pid, port in asked.execute(IDLE_BACKENDS).fetchall():
                if port in ports:
                    with suppress(ProcessLookupError), frozen([pid]):
                        asked.execute("select pg_stat_clear_snapshot()")
                        if (pid, port) in asked.execute(IDLE_BACKENDS).fetchall():
                            yield
                            return


def list_ports(pid: int) -> set[int]:
    """Return the local ports of the sockets of a process."""
    process = Path(f"/proc/{pid}")
    links = {str(file.readlink()) for file in (process / "fd").iterdir()}
    rows = [row.split() for row in (process / "net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if f"socket:[{row[9]}]" in links}


@pytest.fixture
def instance(launch: Callable[..., Installation], server: Server) -> Installation:
    return launch(database_url=server.url)


@pytest.fixture
def traffic(instance: Installation, seed: int) -> Traffic:
    """Return the senders of an instance that has accepted alerts."""
    traffic = Traffic(instance, seed)
    traffic.until_progress()
    return traffic


def test_one_frozen_backend_delays_alerts_and_stops_none(
    instance: Installation,
    server: Server,
    traffic: Traffic,
    sink: Sink,
    report: Callable[[str], None],
) -> None:
    for _ in range(FROZEN_BACKENDS):
        with frozen_backend(server, instance):
            started = time.monotonic()
            traffic.until_progress()
            seconds = time.monotonic() - started
            wait_until(lambda: get_json(instance, "/readyz")[0] == 200, seconds=LONGEST_REFUSAL_S)
        report(f"one backend frozen: alerts accepted again after {seconds:.1f} s")
        assert seconds < LONGEST_REFUSAL_S

    report(traffic.check_nothing_lost(sink, interruptions=1))


def test_a_frozen_server_causes_only_refusals(
    instance: Installation,
    server: Server,
    traffic: Traffic,
    sink: Sink,
    report: Callable[[str], None],
) -> None:
    with frozen(server.list_pids()):
        started = time.monotonic()
        assert get_json(instance, "/readyz")[0] == 503
        asked_s = time.monotonic() - started
        first, then = seconds_until_refused(instance), seconds_until_refused(instance)
        assert get_json(instance, "/readyz")[0] == 503
    started = time.monotonic()
    traffic.until_progress()
    wait_until(lambda: get_json(instance, "/readyz")[0] == 200, seconds=30)
    again_s = time.monotonic() - started

    report(f"server frozen: 503 after {first:.1f} s, then {then:.1f} s; /readyz 503 after {asked_s:.1f} s")
    report(f"taken again after {again_s:.1f} s; {traffic.check_nothing_lost(sink, interruptions=1)}")
    assert max(first, then) < LONGEST_REFUSAL_S
    assert asked_s < 5
    assert again_s < 30
