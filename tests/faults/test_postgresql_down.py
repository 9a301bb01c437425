"""PostgreSQL stops, crashes, or ends all connections: alerts are refused meanwhile, and none is lost."""

import random
import threading
import time
from collections.abc import Callable, Iterator

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
    pytest.mark.timeout(120),
    pytest.mark.skipif(not stores.SERVER, reason="belongs to the run on PostgreSQL"),
    IN_FULL,
]

LONGEST_REFUSAL_S = 3.0
ROUNDS_OF_ENDED_CONNECTIONS = 8


END_CONNECTIONS = """
select pg_terminate_backend(pid) from pg_stat_activity
where datname = current_database() and application_name = 'tocsin'
"""


@pytest.fixture
def server() -> Iterator[Server]:
    with running_server() as server:
        yield server


@pytest.fixture
def traffic(seed: int) -> Iterator[Callable[[Installation], Traffic]]:
    """Start senders that continue until the test checks their alerts."""
    started: list[Traffic] = []

    def start(instance: Installation) -> Traffic:
        started.append(Traffic(instance, seed))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def test_a_restarted_server_causes_only_refusals(
    launch: Callable[..., Installation],
    server: Server,
    sink: Sink,
    traffic: Callable[[Installation], Traffic],
    chance: random.Random,
    report: Callable[[str], None],
) -> None:
    instance = launch(database_url=server.url)
    before = list_database_users(instance)
    sending = traffic(instance)
    for mode in ("fast", "immediate"):
        sending.until_progress()
        server.stop(mode)
        assert get_readiness(instance) == (503, "failed")
        assert seconds_until_refused(instance) < LONGEST_REFUSAL_S
        threading.Event().wait(chance.uniform(0.5, 6.0))
        server.start()
        started = time.monotonic()
        sending.until_progress()
        report(f"{mode}: taken again {time.monotonic() - started:.1f} s after the start")
        wait_until(lambda: get_readiness(instance) == (200, "ok"))

    report(sending.check_nothing_lost(sink, interruptions=2))
    assert list_database_users(instance) == before
    wait_until(lambda: get_json(instance, "/readyz")[1]["clock"] == "ok")


def test_nothing_is_lost_when_all_connections_end_under_load(
    launch: Callable[..., Installation],
    sink: Sink,
    traffic: Callable[[Installation], Traffic],
    chance: random.Random,
    report: Callable[[str], None],
) -> None:
    instance = launch()
    sending = traffic(instance)
    sending.until_progress()
    ended = 0
    with psycopg.connect(instance.database_url, autocommit=True) as server:
        for _ in range(ROUNDS_OF_ENDED_CONNECTIONS):
            threading.Event().wait(chance.uniform(0.1, 1.0))
            ended += len(server.execute(END_CONNECTIONS).fetchall())
        sending.until_progress()

    summary = sending.check_nothing_lost(sink, interruptions=ROUNDS_OF_ENDED_CONNECTIONS)
    report(f"{ended} connections ended; {summary}")
    assert ended > ROUNDS_OF_ENDED_CONNECTIONS


def list_database_users(instance: Installation) -> set[int]:
    """Return the processes that use the database."""
    return {one.pid for one in instance.processes() if one.kind in ("web", "worker", "clock")}


def get_readiness(instance: Installation) -> tuple[int, str]:
    """Return the status of /readyz and its text about the database. Answers are up to a second old."""
    threading.Event().wait(1.1)
    status, answer_body = get_json(instance, "/readyz")
    return status, answer_body["database"]
