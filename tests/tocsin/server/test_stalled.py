"""Stalled connections are closed, so that their threads become free."""

import socket

import pytest

from tests.support.polling import wait_until
from tocsin.server.stalled import close_stalled


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def connect(listening):
    """connect(): both ends of a new connection to the server."""
    made: list[socket.socket] = []

    def open_pair() -> tuple[socket.socket, socket.socket]:
        client = socket.create_connection(listening.getsockname(), timeout=5)
        made.extend((client, listening.accept()[0]))
        return client, made[-1]

    yield open_pair
    for one in made:
        one.close()


def test_a_connection_without_an_answer_is_closed(listening, connect):
    client, _ = connect()
    client.sendall(b"POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\n")
    port = listening.getsockname()[1]

    assert close_stalled(port, timeout_s=60) == 0
    wait_until(lambda: close_stalled(port, timeout_s=0.05) == 1)
    assert client.recv(100) == b""


def test_a_connection_with_a_slow_sender_is_closed(listening, connect):
    client, _ = connect()

    def send_slowly() -> bool:
        client.sendall(b"x")
        return close_stalled(listening.getsockname()[1], timeout_s=0.3) == 1

    wait_until(send_slowly)
    assert client.recv(100) == b""


def test_a_connection_that_receives_data_stays_open(listening, connect):
    _, stalled = connect()
    client, server = connect()

    def answer() -> bool:
        server.sendall(b"x")
        return close_stalled(listening.getsockname()[1], timeout_s=0.3) == 1

    wait_until(answer)
    assert stalled.recv(100) == b""
    assert client.recv(1) == b"x"


def test_a_connection_to_another_port_stays_open(connect):
    client, server = connect()

    assert close_stalled(1, timeout_s=0.0) == 0

    server.sendall(b"answer")
    assert client.recv(100) == b"answer"
