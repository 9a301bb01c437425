"""Tries and simulations end when their client leaves."""

import contextlib
import json
import socket
import threading
import time

import pytest

from tests.support.polling import PATIENCE_S, wait_until
from tests.support.rules import action, add_rule
from tests.support.web.simulate_requests import DISK, SIMULATE, simulate
from tocsin.server import granian_worker
from tocsin.server.listening import BACKLOG
from tocsin.server.shares import Shares
from web.operations import run_simulation
from web.operations import simulate as simulate_module
from web.rules import dry_run

__all__ = ["simulate"]


@pytest.fixture
def connect(app):
    """connect(): a connection to a server with the real application."""
    with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as listening:
        listening.setblocking(False)
        port = listening.getsockname()[1]
        shares = Shares(4, 10)
        with granian_worker.run(app, listening, backlog=BACKLOG, shares=shares, connections=64):
            yield lambda: socket.create_connection(("127.0.0.1", port), timeout=30)


def build_request(world, path, body):
    data = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {world.tokens['alice']}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + data


def build_costly_simulation(world):
    """Build a request that needs more than a second of CPU time: 100 alerts that match 300 rules."""
    for number in range(300):
        add_rule(world, action(8, "{{message}} {{payload.labels.alertname}} " * 20), description=str(number))
    labels = {"alertname": "Full", "severity": "info"}
    alert = {"status": "firing", "labels": labels}
    alerts = [{**alert, "fingerprint": str(number)} for number in range(100)]
    body = {"integration": world.integration.unique_id, "source": "prometheus", "payload": {"alerts": alerts}}
    return build_request(world, SIMULATE, body)


def test_a_simulation_uses_no_cpu_time_after_its_client_left(connect, world, monkeypatch):
    entered = threading.Event()
    real = run_simulation.simulate

    def simulate_later(*arguments, **more):
        entered.set()
        return real(*arguments, **more)

    monkeypatch.setattr(run_simulation, "simulate", simulate_later)
    request = build_costly_simulation(world)

    def measure(*, leaves):
        entered.clear()
        with contextlib.closing(connect()) as sock:
            sock.sendall(request)
            assert entered.wait(PATIENCE_S)
            started = time.process_time()
            while not leaves and sock.recv(65536):
                pass
        wait_until(lambda: not simulate_module.CONCURRENCY._accounts)
        return time.process_time() - started

    complete, left = measure(leaves=False), measure(leaves=True)

    assert left < complete / 3


def test_a_simulation_that_is_left_is_truncated(simulate, monkeypatch):
    monkeypatch.setattr(simulate_module, "start_client_check", lambda: lambda: True)

    assert simulate()["is_truncated"]


def test_a_try_ends_between_two_steps(ask, world, monkeypatch):
    calls = []
    left = [False, False, True, True]
    monkeypatch.setattr(
        dry_run, "start_client_check", lambda: lambda: calls.append(1) or left[len(calls) - 1]
    )
    rule = {"or": [{"==": [{"var": "message"}, str(number)]} for number in range(50)]}

    answer = ask("POST", "/api/tocsin/rules/try/", {"rule_json": json.dumps(rule), "payload": DISK})

    # The third step, and the evaluation with the index, did not run.
    assert (answer.status_code, len(calls)) == (503, 4)
