"""What a connection is doing is read from its socket, and only the chosen ones are closed."""

import socket

import pytest

from tests.support.polling import wait_until
from tocsin.server import connection_limits, connections
from tocsin.server.connection_limits import Phase


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield server


@pytest.fixture
def pairs(listening):
    """Return both ends of ten connections to the server."""
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


def format_client(sock: socket.socket) -> str:
    return "{}:{}".format(*sock.getsockname())


def read_phases(port: int, **more) -> dict[str, Phase]:
    found = connections._list_connections(port, more.get("active", ()), more.get("unfinished", ()))
    return {each.client: each.phase for each in found}


def test_few_connections_stay_open(listening, pairs):
    assert connections.close_excess(listening.getsockname()[1], 4096, ()) == 0
    assert not any(is_closed(client) for client, _ in pairs)


def test_the_phase_of_each_connection(listening, pairs):
    port = listening.getsockname()[1]
    (silent, _), (begun, _), (answered, server), (next_one, its_server), *others = pairs
    begun.sendall(b"GET / HT")
    for client, end in ((answered, server), (next_one, its_server)):
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        end.recv(100)
        end.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
        client.recv(100)
    active, unfinished = format_client(others[0][0]), format_client(others[1][0])

    def read() -> list[Phase]:
        """The clock of the kernel has steps of some milliseconds, so the second request begins again."""
        next_one.sendall(b"G")
        phases = read_phases(port, active={active}, unfinished={unfinished})
        return [phases[format_client(each)] for each in (silent, begun, answered, next_one)] + [
            phases[active], phases[unfinished],
        ]  # fmt: skip

    wait_until(
        lambda: read() == [Phase.HEADERS, Phase.HEADERS, Phase.IDLE, Phase.HEADERS, Phase.ANSWER, Phase.BODY]
    )


def test_the_age_does_not_begin_again_with_each_byte(listening, pairs, monkeypatch):
    monkeypatch.setattr(connection_limits, "HEADERS_S", 0.05)
    active = {format_client(pairs[0][0])}

    def drip() -> int:
        for client, _ in pairs:
            client.sendall(b"x")
        # The limit of ten connections is reached; half of it is four.
        return connections.close_excess(listening.getsockname()[1], 8, active)

    wait_until(lambda: drip() > 0)
    closed = [is_closed(client) for client, _ in pairs]
    assert closed[0] is False
    assert closed.count(True) >= 6


def test_other_ports_stay_open(pairs):
    assert connections.close_excess(1, 2, ()) == 0
    assert not any(is_closed(client) for client, _ in pairs)


@pytest.mark.parametrize(
    ("client", "network"),
    [
        ("192.0.2.7:4000", "192.0.2.7"),
        ("[2001:db8::7]:4000", "2001:db8::/64"),
        ("127.0.0.1:4000", None),
        ("[::1]:4000", None),
        ("[::ffff:127.0.0.1]:4000", None),
        ("10.1.2.3:4000", None),
        ("[::ffff:10.1.2.3]:4000", None),
    ],
)
def test_loopback_and_proxies_are_shared_by_many_clients(monkeypatch, client, network):
    seen = []
    monkeypatch.setattr(connections, "IS_SUPPORTED", True)
    monkeypatch.setattr(
        connections, "choose_to_close", lambda found, limit, find: seen.append(find(client)) or []
    )

    connections.close_excess(1, 0, (), shared_networks=("10.0.0.0/8",))

    assert seen == [network]
