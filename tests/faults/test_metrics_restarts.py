"""No value of /metrics falls while processes are killed and stopped under load."""

import random
import signal
import threading
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench.servers.instance import Instance
from tests.faults.lengths import length
from tests.support.faults.installation import Installation
from tests.support.faults.senders import Sender

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

RESTARTS = length(20, 50)
KINDS = ("web", "web", "worker", "clock")
SENDERS = 4
# Longer than a page is cached: the scrapes may reach different web processes.
SCRAPE_EVERY_S = 1.1
ACCEPTED = ("tocsin_alerts_accepted_total", ("source", "generic"))

Values = dict[tuple[object, ...], float]


def test_no_counter_falls_while_processes_are_restarted_under_load(
    launch: Callable[..., Installation],
    chance: random.Random,
    seed: int,
    report: Callable[[str], None],
) -> None:
    instance = launch()
    stopping = threading.Event()
    url = instance.credentials()["webhook_urls"]["generic"][1]
    senders = [Sender(f"sender{n}", url, seed, stopping, pause_s=0.03) for n in range(SENDERS)]
    scraper = Scraper(instance, stopping)
    extra = [(kind, instance.run(kind)) for kind in KINDS]
    for thread in (*senders, scraper):
        thread.start()
    try:
        for _ in range(RESTARTS):
            threading.Event().wait(chance.uniform(0.5, 3.0))
            kind, victim = extra.pop(chance.randrange(len(extra)))
            victim.send_signal(chance.choice((signal.SIGKILL, signal.SIGTERM)))
            victim.wait()
            extra.append((kind, instance.run(kind)))
    finally:
        stopping.set()
        for thread in (*senders, scraper):
            thread.join()
        for _, process in extra:
            process.kill()
            process.wait()
    instance.stop()
    # Without the second worker of an installation on PostgreSQL.
    Instance.start(instance)
    scraper.scrape()

    accepted, unknown = sum(len(each.accepted) for each in senders), sum(each.unknown for each in senders)
    counted = scraper.last[ACCEPTED]
    report(f"{accepted} accepted, {unknown} unknown, {counted:.0f} counted; {scraper.pages} scrapes")
    assert [each.failure for each in senders] == [None] * SENDERS
    assert scraper.falls == []
    assert scraper.pages > RESTARTS // 2
    assert accepted <= counted <= accepted + unknown
    assert len(list((instance.home / "metrics").glob("*.db"))) <= 2 * 4


class Scraper(threading.Thread):
    """Reads /metrics again and again, and records each value that is lower than before."""

    def __init__(self, instance: Installation, stopping: threading.Event) -> None:
        super().__init__(daemon=True)
        self.last: Values = {}
        self.falls: list[str] = []
        self.pages = 0
        self._instance = instance
        self._stopping = stopping

    def run(self) -> None:
        while not self._stopping.wait(SCRAPE_EVERY_S):
            # A web process that is killed gives no answer.
            try:
                self.scrape()
            except (OSError, HTTPException):
                continue

    def scrape(self) -> None:
        found = self._read()
        self.falls += [
            f"{name}: {value} -> {found.get(name)}"
            for name, value in self.last.items()
            if found.get(name, -1) < value
        ]
        self.last = found
        self.pages += 1

    def _read(self) -> Values:
        asked = HTTPConnection("127.0.0.1", self._instance.port, timeout=10)
        try:
            asked.request("GET", "/metrics")
            answer = asked.getresponse()
            text = answer.read().decode()
        finally:
            asked.close()
        if answer.status != 200:
            raise HTTPException(f"status {answer.status}")
        return {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            if family.type in ("counter", "histogram")
            for sample in family.samples
        }
