"""Without Redis, alerts are accepted at once and pages go out (invariant 2, design, section 2)."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench import run_rows
from bench.load import Loader
from bench.run import percentile
from bench.servers.instance import Instance, find_free_port
from bench.servers.sink import Sink
from bench.traffic import Traffic
from models.store.opening import open_store
from models.store.store import db
from tests.support import stores
from tests.support.faults.installation import Installation
from tests.support.faults.ledger import OWNER, START
from tests.support.polling import wait_until
from tests.support.processes import is_running, list_descendants, start_redis

pytestmark = [pytest.mark.faults, pytest.mark.timeout(90)]

REQUESTS = 300


@contextmanager
def without_redis(launch: Callable[..., Instance]) -> Iterator[Instance]:
    """Start an instance without a Redis server."""
    yield launch(redis_url=f"redis://127.0.0.1:{find_free_port()}/0")


@contextmanager
def with_silent_redis(launch: Callable[..., Instance]) -> Iterator[Instance]:
    """Start an instance with a Redis server that accepts connections and never answers."""
    instance = launch()
    pid = instance.get_pid("redis")
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield instance
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("with_fault", [without_redis, with_silent_redis])
def test_alerts_are_accepted_and_pages_go_out_within_ten_seconds(
    with_fault: Callable[..., Iterator[Instance]],
    launch: Callable[..., Instance],
    sink: Sink,
    report: Callable[[str], None],
) -> None:
    with with_fault(launch) as instance:
        check_pages_go_out(instance, sink, report)


def test_pages_go_out_from_a_worker_that_dramatiq_runs(
    by_dramatiq: Installation, sink: Sink, report: Callable[[str], None]
) -> None:
    check_pages_go_out(by_dramatiq, sink, report)


@pytest.fixture
def by_dramatiq(tmp_path: Path, sink: Sink) -> Iterator[Installation]:
    """Start a web process, a clock, and a worker by the command of Dramatiq. Then stop Redis.

    The worker ends with the process that Dramatiq's command starts first, even if that one is killed.
    """
    instance = Installation(tmp_path, sink.port, owner_email=OWNER)
    started: list[subprocess.Popen[bytes]] = []
    try:
        with start_redis(instance.home):
            started.append(instance.run("web"))
            wait_until(lambda: instance.get_readiness() == 200, seconds=30)
            started.append(instance.run("clock"))
            queues = ("pipeline.normalize", "timers", "deliver.email")
            started.append(instance.run_module("dramatiq", "workers.main", "-p", "1", "-Q", *queues))
            wait_until(lambda: '"working"' in instance.read_output(), seconds=30)
        open_store(instance.database_url, instance.home)
        yield instance
    finally:
        below = [pid for process in started for pid in list_descendants(process.pid)]
        for process in started:
            process.kill()
            process.wait()
        wait_until(lambda: not any(is_running(pid) for pid in below), seconds=20)
        db.close_all()
        stores.drop_store(instance.home)


def check_pages_go_out(instance: Instance, sink: Sink, report: Callable[[str], None]) -> None:
    """Send alerts. Assert that they are accepted at once, and that each mail comes within ten seconds."""
    credentials = instance.credentials()
    loader = Loader(credentials["base_url"], 8)
    sent = loader.run(Traffic("away", REQUESTS, REQUESTS).requests(credentials["webhook_urls"]["generic"][1]))
    ready = instance.get_readiness()
    wait_until(lambda: not run_rows.has_pending(), seconds=30, every=0.1)

    rows = run_rows.load_run(START, "away", sink.arrivals())
    answered = {rows.receipts[one.alert_id][0]: one.at for one in sent.accepted}
    delays = [
        (rows.first_sent_at(row) or 0) - answered[receipt] for row, receipt in rows.opening_receipts.items()
    ]
    p99_ms = percentile(sorted(sent.latencies_ms), 99)
    report(f"accept p99 {p99_ms:.0f} ms, accepted to mail at most {max(delays):.1f} s")
    assert ready == 200
    assert (len(sent.accepted), sent.unknown) == (REQUESTS, 0)
    assert p99_ms < 200
    assert rows.find_faults(sent.accepted) == []
    assert len(delays) == REQUESTS
    assert max(delays) < 10
