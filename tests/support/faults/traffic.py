"""Senders during a fault of the database, and what the instance answers meanwhile."""

import json
import threading
import time
from http.client import HTTPConnection
from typing import Any

import pytest

from bench.servers.sink import Sink
from tests.support.faults.installation import Installation
from tests.support.faults.ledger import Ledger, is_done, merge_senders
from tests.support.faults.senders import Connection, Sender, Unknown
from tests.support.polling import wait_until

# For each worker, a mail may be accepted by the relay before this is recorded.
MAILS_IN_FLIGHT = 2 * 4
# Longer than an answer of /readyz may take.
TIMEOUT_S = 5.0


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


def get_json(instance: Installation, path: str) -> tuple[int, dict[str, Any]]:
    asked = HTTPConnection("127.0.0.1", instance.port, timeout=TIMEOUT_S)
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
