"""Without Redis every alert is taken at once and every page still goes out (law 2)."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from bench import books
from bench.instance import Instance, free_port
from bench.load import Loader
from bench.run import percentile
from bench.sink import Sink
from bench.traffic import Traffic
from tests.faults.ledger import START
from tests.waiting import until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(90)]

REQUESTS = 300


@contextmanager
def nobody_listens(launch: Callable[..., Instance]) -> Iterator[Instance]:
    """A Redis that is not there."""
    yield launch(redis_url=f"redis://127.0.0.1:{free_port()}/0")


@contextmanager
def never_answers(launch: Callable[..., Instance]) -> Iterator[Instance]:
    """A Redis that takes connections and says nothing."""
    instance = launch()
    pid = instance.pid_of("redis")
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield instance
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("away", [nobody_listens, never_answers])
def test_alerts_are_taken_and_pages_go_out_within_ten_seconds(
    away: Callable[..., Iterator[Instance]],
    launch: Callable[..., Instance],
    sink: Sink,
    tell: Callable[[str], None],
) -> None:
    with away(launch) as instance:
        credentials = instance.credentials()
        loader = Loader(credentials["base_url"], 8)
        sent = loader.run(
            Traffic("away", REQUESTS, REQUESTS).requests(credentials["webhook_urls"]["generic"][1])
        )
        ready = instance.readiness()
        until(lambda: not books.waiting(), seconds=30, every=0.1)

    written = books.read(START, "away", sink.arrivals())
    answered = {written.receipts[one.trace_id][0]: one.at for one in sent.accepted}
    waits = [(written.told_at(row) or 0) - answered[receipt] for row, receipt in written.opened_by.items()]
    p99_ms = percentile(sorted(sent.latencies_ms), 99)
    tell(f"accept p99 {p99_ms:.0f} ms, accepted to mail at most {max(waits):.1f} s")
    assert ready == 200
    assert (len(sent.accepted), sent.unknown) == (REQUESTS, 0)
    assert p99_ms < 200
    assert written.check(sent.accepted) == []
    assert len(waits) == REQUESTS
    assert max(waits) < 10
