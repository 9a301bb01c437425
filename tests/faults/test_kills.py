"""Processes are killed at random times: accepted alerts are kept, in order, and notified once.

Invariants 1 to 3 and 8 (design, section 2)."""

import random
import threading
from collections.abc import Callable

import pytest

from bench.servers.instance import Instance
from bench.servers.sink import Sink
from tests.faults.lengths import length
from tests.support.faults import fan_out
from tests.support.faults.installation import Installation
from tests.support.faults.ledger import Ledger, find_secrets_in_logs, is_done, merge_senders
from tests.support.faults.senders import Sender
from tests.support.polling import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

STRIKES = length(
    ["web"] * 3 + ["worker"] * 3 + ["clock"] * 2 + ["redis"] * 2 + ["flushall"] * 2,
    ["web"] * 6 + ["worker"] * 6 + ["clock"] * 3 + ["redis"] * 3 + ["flushall"] * 4,
)
SENDERS = 6
# A router makes an event for each of two services from each of their alerts.
ROUTED_SENDERS = 2
ALERTS = length(3_000, 6_000)


def test_kills_and_flushalls_under_load_lose_nothing_and_repeat_few_mails(
    launch: Callable[..., Installation],
    sink: Sink,
    flushall: Callable[[Instance], None],
    chance: random.Random,
    seed: int,
    report: Callable[[str], None],
) -> None:
    instance = launch()
    stopping = threading.Event()
    senders = _senders(instance, seed, stopping)
    for sender in senders:
        sender.start()
    try:
        for strike in chance.sample(STRIKES, len(STRIKES)):
            threading.Event().wait(chance.uniform(0.5, 4.0))
            wait_until(lambda what=strike: _strike(instance, what, chance, flushall))
        wait_until(lambda: sum(len(sender.accepted) for sender in senders) >= ALERTS, seconds=60)
    finally:
        stopping.set()
        for sender in senders:
            sender.join()
    wait_until(is_done, seconds=60, every=0.2)

    accepted, sequences = merge_senders(senders)
    ledger = Ledger(sink)
    report(
        f"{len(accepted)} accepted, {sum(sender.unknown for sender in senders)} unknown; {ledger.summarize()}"
    )
    kills = len(STRIKES) - STRIKES.count("flushall")
    assert [sender.failure for sender in senders] == [None] * len(senders)
    assert ledger.list_unprocessed(accepted, sequences) == []
    assert ledger.list_unordered(sequences) == []
    assert ledger.list_unnotified() == []
    assert ledger.count_duplicates() <= kills
    assert find_secrets_in_logs(instance) == []


def _senders(instance: Installation, seed: int, stopping: threading.Event) -> list[Sender]:
    """Build the senders for the run, one line per kind of traffic."""
    url = instance.credentials()["webhook_urls"]["generic"][1]
    routed = fan_out.create_fan_out(instance)
    return [
        *(Sender(f"sender{n}", url, seed, stopping, pause_s=0.03) for n in range(SENDERS)),
        *(
            Sender(f"routed{n}", routed, seed, stopping, pause_s=0.03, targets=fan_out.TARGETS)
            for n in range(ROUTED_SENDERS)
        ),
    ]


def _strike(
    instance: Installation, strike: str, chance: random.Random, flushall: Callable[[Instance], None]
) -> bool:
    """Kill a process or empty Redis. Return False if the target is still starting."""
    if strike != "flushall":
        return instance.kill_one(strike, chance)
    try:
        flushall(instance)
    except OSError:
        return False
    return True
