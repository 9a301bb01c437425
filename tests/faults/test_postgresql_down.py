"""PostgreSQL stops, crashes, or ends all connections: alerts are refused meanwhile, and none is lost."""

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from typing import Any

import psycopg
import pytest

from bench.servers.sink import Sink
from tests.support import stores
from tests.support.faults.installation import Installation
from tests.support.faults.ledger import Ledger, is_done, merge_senders
from tests.support.faults.senders import Connection, Sender, Unknown
from tests.support.polling import wait_until
from tests.support.postgresql_server import Server, running_server

pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not stores.SERVER, reason="belongs to the run on PostgreSQL"),
]

LONGEST_REFUSAL_S = 3.0
ROUNDS_OF_ENDED_CONNECTIONS = 8
# For each worker, a mail may be accepted by the relay before this is recorded.
MAILS_IN_FLIGHT = 2 * 4


END_CONNECTIONS = """
select pg_terminate_backend(pid) from pg_stat_activity
where datname = current_database() and application_name = 'tocsin'
"""


@pytest.fixture
def server() -> Iterator[Server]:
    with running_server() as server:
        yield server


@pytest.fixture
def traffic(seed: int) -> Iterator[Callable[[Installation], "Traffic"]]:
    """Start senders that continue until the test checks their alerts."""
    started: list[Traffic] = []

    def start(instance: Installation) -> Traffic:
        started.append(Traffic(instance, seed))
        return started[-1]

    yield start
    for one in started:
        one.stop()


class Traffic:
    def __init__(self, instance: Installation, seed: int) -> None:
        url = instance.credentials()["webhook_urls"]["generic"][1]
        self._stopping = threading.Event()
        self.senders = [Sender(f"sender{n}", url, seed, self._stopping, pause_s=0.05) for n in range(4)]
        for sender in self.senders:
            sender.start()

    @property
    def accepted(self) -> int:
        return sum(len(sender.accepted) for sender in self.senders)

    def until_progress(self) -> None:
        """Wait until more alerts are accepted."""
        before = self.accepted
        wait_until(lambda: self.accepted > before + 20, seconds=30)

    def stop(self) -> None:
        self._stopping.set()
        for sender in self.senders:
            sender.join()

    def check_nothing_lost(self, sink: Sink, interruptions: int) -> str:
        """Assert that no alert, notification or order was lost. Return a summary."""
        self.stop()
        wait_until(is_done, seconds=60, every=0.2)
        accepted, sequences = merge_senders(self.senders)
        ledger = Ledger(sink)
        assert [sender.failure for sender in self.senders] == [None] * len(self.senders)
        assert ledger.list_unprocessed(accepted, sequences) == []
        assert ledger.list_unordered(sequences) == []
        assert ledger.list_unnotified() == []
        assert ledger.count_duplicates() <= interruptions * MAILS_IN_FLIGHT
        return f"{len(accepted)} accepted; {ledger.summarize()}"


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


def get_json(instance: Installation, path: str) -> tuple[int, dict[str, Any]]:
    asked = HTTPConnection("127.0.0.1", instance.port, timeout=LONGEST_REFUSAL_S + 2)
    try:
        asked.request("GET", path)
        answer = asked.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        asked.close()


def seconds_until_refused(instance: Installation) -> float:
    """Return the seconds until an alert is refused with 503."""
    connection_to = Connection(instance.credentials()["webhook_urls"]["generic"][1])
    started_time = time.monotonic()
    with pytest.raises(Unknown, match="503"):
        connection_to.send(
            {"message": "Disk full", "alert_type": "critical", "entity_id": "nobody takes this"}
        )
    connection_to.close()
    return time.monotonic() - started_time
