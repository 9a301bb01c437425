"""With many connections, those that are idle for the longest time are closed."""

import socket

import pytest

from tests.support.polling import wait_until
from tocsin.server import connections


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield server


@pytest.fixture
def pairs(listening, monkeypatch):
    """Return both ends of ten connections to the server."""
    monkeypatch.setattr(connections, "MIN_SILENCE_S", 0.0)
    made: list[tuple[socket.socket, socket.socket]] = []
    for _ in range(10):
        client = socket.create_connection(listening.getsockname(), timeout=5)
        made.append((client, listening.accept()[0]))
    yield made
    for pair in made:
        for each in pair:
            each.close()


def is_closed(sock: socket.socket) -> bool:
    sock.settimeout(0.01)
    try:
        return sock.recv(1) == b""
    except TimeoutError:
        return False


def test_few_connections_stay_open(listening, pairs):
    assert connections.close_idle(listening.getsockname()[1], 4096, ()) == 0
    assert not any(is_closed(client) for client, _ in pairs)


def test_the_excess_is_closed_and_active_or_recent_connections_stay(listening, pairs):
    active = "{}:{}".format(*pairs[0][0].getsockname())
    port = listening.getsockname()[1]

    def send_and_close() -> bool:
        """The other connections get older, this one stays young."""
        pairs[1][0].sendall(b"x")
        return connections.close_idle(port, 8, {active}) > 0

    # Ten connections, and half of the limit is four.
    wait_until(send_and_close)
    closed = [is_closed(client) for client, _ in pairs]
    assert closed.count(True) == 6
    assert closed[:2] == [False, False]


def test_young_connections_and_other_ports_stay_open(listening, pairs, monkeypatch):
    assert connections.close_idle(1, 2, ()) == 0
    monkeypatch.setattr(connections, "MIN_SILENCE_S", 60.0)
    assert connections.close_idle(listening.getsockname()[1], 2, ()) == 0
    assert not any(is_closed(client) for client, _ in pairs)
