"""Without Redis, alerts are accepted at once and pages go out (invariant 2, design, section 2)."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from bench import run_rows as books
from bench.instance import Instance, find_free_port
from bench.load import Loader
from bench.run import percentile
from bench.sink import Sink
from bench.traffic import Traffic
from tests.support.faults.ledger import START
from tests.support.polling import wait_until

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
        credentials = instance.credentials()
        loader = Loader(credentials["base_url"], 8)
        sent = loader.run(
            Traffic("away", REQUESTS, REQUESTS).requests(credentials["webhook_urls"]["generic"][1])
        )
        ready = instance.get_readiness()
        wait_until(lambda: not books.has_pending(), seconds=30, every=0.1)

    run_rows = books.load_run(START, "away", sink.arrivals())
    answered = {run_rows.receipts[one.trace_id][0]: one.at for one in sent.accepted}
    delays = [
        (run_rows.first_sent_at(row) or 0) - answered[receipt]
        for row, receipt in run_rows.opening_receipts.items()
    ]
    p99_ms = percentile(sorted(sent.latencies_ms), 99)
    report(f"accept p99 {p99_ms:.0f} ms, accepted to mail at most {max(delays):.1f} s")
    assert ready == 200
    assert (len(sent.accepted), sent.unknown) == (REQUESTS, 0)
    assert p99_ms < 200
    assert run_rows.find_faults(sent.accepted) == []
    assert len(delays) == REQUESTS
    assert max(delays) < 10
