"""Senders that wait for their incident, with the web process and the worker as processes of their own."""

import http.client
import json
import signal
import threading
import time
import urllib.request

import pytest

from tests.support.polling import wait_until
from tests.support.processes import start_tocsin

CRITICAL = {"message": "Disk full", "alert_type": "critical", "entity_id": "db1"}


@pytest.fixture
def web(home):
    with start_tocsin(home, "web") as running:
        wait_until(running.is_ready)
        yield running


class Sender:
    """An alert that is sent in a thread, and its answer."""

    def __init__(self, web):
        key = json.loads((web.home / "credentials.json").read_text())["integration_key"]
        self._path, self._port = f"/api/events/{key}/", web.port
        self.answer = None
        self.thread = threading.Thread(target=self._send)
        self.thread.start()

    def _send(self):
        client = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        client.request("POST", self._path, json.dumps(CRITICAL), {"Prefer": "wait=10"})
        found = client.getresponse()
        self.answer = found.status, found.headers["Preference-Applied"], json.loads(found.read())
        client.close()


def is_accepted(port: int) -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return b'tocsin_alerts_accepted_total{source="generic"} 1' in answer.read()


def test_the_result_of_another_process_reaches_the_sender(web):
    with start_tocsin(web.home, "worker") as worker:
        wait_until(lambda: "worker" in worker.log)
        sender = Sender(web)
        sender.thread.join()

    status, applied, event = sender.answer
    assert (status, applied) == (201, "wait=10")
    assert (event["incident"], event["incident_created"]) == (1, True)


def test_a_stop_of_the_web_process_ends_the_request(web):
    sender = Sender(web)
    wait_until(lambda: is_accepted(web.port))

    stopped_at = time.monotonic()
    assert web.signal(signal.SIGTERM) == 0
    sender.thread.join()
    assert time.monotonic() - stopped_at < 8, "the sender may wait 10 s"
    assert sender.answer[:2] == (201, None)
