"""All processes are killed at the same time; the next start continues (invariant 1, design, section 2)."""

import random
import threading
import time
from collections.abc import Callable

import pytest

from bench.servers.instance import Instance
from bench.servers.sink import Sink
from tests.support.faults.ledger import Ledger, is_done, merge_senders
from tests.support.faults.senders import Sender
from tests.support.polling import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]

LONGEST_RECOVERY_S = 30
# A message that was in flight stays claimed for some seconds.
LONGEST_DELIVERY_S = 60
# A mail may be accepted by the relay before this is recorded.
RELAY_LINES = 4


def test_a_start_is_enough_after_kill_9_of_all_processes(
    launch: Callable[..., Instance],
    sink: Sink,
    chance: random.Random,
    seed: int,
    report: Callable[[str], None],
) -> None:
    instance = launch()
    url = instance.credentials()["webhook_urls"]["generic"][1]
    stopping = threading.Event()
    senders = [Sender(f"sender{n}", url, seed, stopping, pause_s=0.005) for n in range(4)]
    for sender in senders:
        sender.start()
    threading.Event().wait(chance.uniform(2, 4))
    instance.kill()
    stopping.set()
    for sender in senders:
        sender.join()

    started = time.monotonic()
    instance.start()
    wait_until(is_done, seconds=LONGEST_DELIVERY_S, every=0.1)
    seconds = time.monotonic() - started

    accepted, sequences = merge_senders(senders)
    ledger = Ledger(sink)
    report(f"{len(accepted)} accepted; {ledger.summarize()}; all done {seconds:.1f} s after the next start")
    assert [sender.failure for sender in senders] == [None] * 4
    assert len(accepted) > 100
    assert ledger.list_unprocessed(accepted, sequences) == []
    assert ledger.list_unordered(sequences) == []
    assert ledger.list_unnotified() == []
    assert ledger.count_duplicates() <= RELAY_LINES
    assert seconds < LONGEST_RECOVERY_S
