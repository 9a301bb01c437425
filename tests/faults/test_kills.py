"""Whatever is killed, whenever: what was accepted is kept, in order, and told of once (laws 1 to 3, 8)."""

import os
import random
import signal
import threading
from collections.abc import Callable

import pytest

from bench.instance import Instance
from bench.sink import Sink
from tests.faults.ledger import Ledger, secrets_in_logs, settled, together
from tests.faults.senders import Sender
from tests.waiting import until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

STRIKES = ["web"] * 6 + ["worker"] * 6 + ["clock"] * 3 + ["redis"] * 3 + ["flushall"] * 4
SENDERS = 8
ALERTS = 6_000


def test_kills_and_flushalls_under_load_lose_nothing_and_double_little(
    launch: Callable[..., Instance],
    sink: Sink,
    flushall: Callable[[Instance], None],
    chance: random.Random,
    seed: int,
    tell: Callable[[str], None],
) -> None:
    instance = launch()
    url = instance.credentials()["webhook_urls"]["generic"][1]
    stopping = threading.Event()
    senders = [Sender(f"sender{n}", url, seed, stopping, pause_s=0.03) for n in range(SENDERS)]
    for sender in senders:
        sender.start()
    try:
        for strike in chance.sample(STRIKES, len(STRIKES)):
            threading.Event().wait(chance.uniform(0.5, 4.0))
            _strike(instance, strike, flushall)
        until(lambda: sum(len(sender.accepted) for sender in senders) >= ALERTS, seconds=60)
    finally:
        stopping.set()
        for sender in senders:
            sender.join()
    until(settled, seconds=60, every=0.2)

    accepted, stories = together(senders)
    ledger = Ledger(sink)
    tell(f"{len(accepted)} accepted, {sum(sender.unknown for sender in senders)} unknown; {ledger.told()}")
    kills = len(STRIKES) - STRIKES.count("flushall")
    assert [sender.failure for sender in senders] == [None] * SENDERS
    assert ledger.unprocessed(accepted) == []
    assert ledger.disordered(stories) == []
    assert ledger.untold() == []
    assert ledger.told_twice() <= kills
    assert secrets_in_logs(instance) == []


def _strike(instance: Instance, strike: str, flushall: Callable[[Instance], None]) -> None:
    pid = until(lambda: instance.pid_of("redis" if strike == "flushall" else strike))
    if strike == "flushall":
        until(lambda: _flushed(instance, flushall))
    else:
        os.kill(pid, signal.SIGKILL)


def _flushed(instance: Instance, flushall: Callable[[Instance], None]) -> bool:
    """Not while the server is on its way up."""
    try:
        flushall(instance)
    except OSError:
        return False
    return True
