"""Granian in the process itself: one request per thread at the same time, and a graceful stop."""

import contextlib
import http.client
import signal
import socket
import subprocess
import sys
import threading

import pytest

from tests.support.polling import wait_until
from tests.support.processes import build_environment, find_free_port, list_descendants

SERVER = """
import os, sys, threading
from pathlib import Path
from runtime.settings import load
from tocsin.server.serve import serve

together = threading.Barrier(64, timeout=30)
entered = threading.Event()

def app(environ, start):
    path = environ["PATH_INFO"]
    if path.startswith("/api/events/together"):
        together.wait()
    if path == "/open":
        Path("/dev/null").open().close()
    if path == "/slow":
        entered.set()
        (settings.home / "leave").read_bytes()
    text = str(entered.is_set()) if path == "/entered" else "ok"
    if path == "/client":
        text = environ["REMOTE_ADDR"]
    start("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
    return [text.encode()]

settings = load()
settings.home.mkdir()
os.mkfifo(settings.home / "leave")
serve(app, settings)
"""


BEHIND_A_PROXY = "import os; os.environ['TOCSIN_TRUSTED_PROXIES'] = '127.0.0.1/32'; "
FEW_FILES = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))"


@pytest.fixture
def server(home, request):
    port = find_free_port()
    before = getattr(request, "param", "")
    process = subprocess.Popen([sys.executable, "-c", before + SERVER], env=build_environment(home, port))
    wait_until(lambda: ask(port, "/") == "ok")
    yield process, port
    process.kill()
    process.wait()


def ask(port: int, path: str, times: int = 1) -> str:
    """Send requests on one connection and return the last answer."""
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        for _ in range(times):
            asked.request("GET", path)
            text = asked.getresponse().read().decode()
        return text
    except OSError as error:
        return repr(error)
    finally:
        asked.close()


def ask_in_threads(
    count: int, port: int, path: str, times: int = 1
) -> tuple[list[threading.Thread], list[str]]:
    bodies: list[str] = []
    threads = [threading.Thread(target=lambda: bodies.append(ask(port, path, times))) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads, bodies


def test_one_process_serves_64_requests_at_the_same_time(server):
    """Each answer waits until all 64 requests have arrived; then all connections send a second request."""
    process, port = server

    threads, bodies = ask_in_threads(64, port, "/api/events/together", times=2)
    for thread in threads:
        thread.join()

    assert bodies == ["ok"] * 64
    assert list_descendants(process.pid) == []


def test_a_stop_finishes_running_requests_and_ignores_idle_connections(server, home):
    process, port = server
    idle = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    idle.request("GET", "/")
    idle.getresponse().read()
    (slow,), bodies = ask_in_threads(1, port, "/slow")
    wait_until(lambda: ask(port, "/entered") == "True")
    process.send_signal(signal.SIGTERM)

    # The stop has begun. A new request could be too late now, so a pipe lets the slow one continue.
    assert idle.sock.recv(1) == b""
    assert bodies == []
    (home / "leave").write_bytes(b"now")
    slow.join()
    assert bodies == ["ok"]
    assert process.wait(30) == 0
    idle.close()


@pytest.mark.parametrize(
    ("server", "client"), [("", "127.0.0.1"), (BEHIND_A_PROXY, "203.0.113.7")], indirect=["server"]
)
def test_only_a_trusted_proxy_says_who_the_client_is(server, client):
    asked = http.client.HTTPConnection("127.0.0.1", server[1], timeout=30)
    with contextlib.closing(asked):
        asked.request("GET", "/client", headers={"X-Forwarded-For": "198.51.100.1, 203.0.113.7"})

        assert asked.getresponse().read().decode() == client


@pytest.mark.parametrize("server", [FEW_FILES], indirect=True, ids=["frugal"])
def test_the_connection_limit_leaves_files_for_requests(server):
    _, port = server
    first = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(first), contextlib.ExitStack() as stack:
        first.connect()
        for _ in range(300):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
        first.request("GET", "/open")

        assert first.getresponse().read() == b"ok"
