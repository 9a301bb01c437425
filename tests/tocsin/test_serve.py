"""Granian in the process itself: as many requests at once as there are threads, and a graceful end."""

import http.client
import signal
import subprocess
import sys
import threading

import pytest

from tests.processes import descendants, environment, free_port
from tests.waiting import until

SERVER = """
import sys, threading
from pathlib import Path
from tocsin.serve import serve
from tocsin.settings import load

together = threading.Barrier(64, timeout=10)
entered = threading.Event()
leave = threading.Event()

def app(environ, start):
    path = environ["PATH_INFO"]
    if path == "/together":
        together.wait()
    if path == "/slow":
        entered.set()
        leave.wait(10)
    if path == "/leave":
        entered.wait(10)
        leave.set()
    start("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "2")])
    return [b"ok"]

settings = load()
settings.home.mkdir()
serve(app, settings)
"""


@pytest.fixture
def server(home):
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", SERVER], env=environment(home, port))
    until(lambda: asks(port, "/") == "ok")
    yield process, port
    process.kill()
    process.wait()


def asks(port: int, path: str, times: int = 1) -> str:
    """Ask several times on one connection; what was answered last."""
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=15)
    try:
        for _ in range(times):
            asked.request("GET", path)
            text = asked.getresponse().read().decode()
        return text
    except OSError as error:
        return repr(error)
    finally:
        asked.close()


def in_threads(count: int, port: int, path: str, times: int = 1) -> tuple[list[threading.Thread], list[str]]:
    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(asks(port, path, times))) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads, answers


def test_64_requests_are_really_served_at_once_in_one_process(server):
    """Each answer waits until all 64 are inside; then all ask again on the same connections."""
    process, port = server

    threads, answers = in_threads(64, port, "/together", times=2)
    for thread in threads:
        thread.join()

    assert answers == ["ok"] * 64
    assert descendants(process.pid) == []


def test_a_stop_finishes_what_runs_and_waits_for_no_idle_connection(server):
    process, port = server
    idle = http.client.HTTPConnection("127.0.0.1", port, timeout=15)
    idle.request("GET", "/")
    idle.getresponse().read()
    # Opened before the stop, so that they are accepted; the slow one runs through it.
    (slow,), answers = in_threads(1, port, "/slow")
    other = http.client.HTTPConnection("127.0.0.1", port, timeout=15)
    other.request("GET", "/leave")
    process.send_signal(signal.SIGTERM)

    slow.join()
    assert answers == ["ok"]
    assert process.wait(5) == 0
    other.close()
    idle.close()
