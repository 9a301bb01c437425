"""A server that accepts a connection and then says nothing delays only the threads that need it."""

import select
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from psycopg.conninfo import conninfo_to_dict

from models.store import postgresql_pool
from models.store.opening import open_store
from models.store.store import STORE_ERRORS, connection, db
from tests.support import stores
from tests.support.polling import wait_until

pytestmark = pytest.mark.skipif(not stores.SERVER, reason="an embedded store has no connections")

# The type of the message with which the server is ready, and the length of that message.
READY = b"Z\x00\x00\x00\x05"
CONNECT_S = 10


class Relay(threading.Thread):
    """Relays connections to PostgreSQL. New ones are silent at once, or when the server is ready."""

    def __init__(self, address: tuple[str | int, ...] | str) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.mode = "open"
        self.silent: list[socket.socket] = []
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._ending, self._ended = socket.socketpair()

    def run(self) -> None:
        while True:
            ready, _, _ = select.select([self._ended, self._listening, *self._pairs], [], [])
            if self._ended in ready:
                return
            for each in ready:
                if each is self._listening:
                    self._accept()
                elif each in self._pairs:
                    self._pass_on(each)

    def _accept(self) -> None:
        client, _ = self._listening.accept()
        if self.mode == "silent":
            self.silent.append(client)
            return
        family = socket.AF_UNIX if isinstance(self._address, str) else socket.AF_INET
        server = socket.socket(family)
        server.connect(self._address)
        self._pairs[client], self._pairs[server] = server, client

    def _pass_on(self, source: socket.socket) -> None:
        target = self._pairs[source]
        try:
            data = source.recv(65536)
            target.sendall(data)
        except OSError:
            data = b""
        if not data:
            del self._pairs[source], self._pairs[target]
            source.close()
            target.close()
            return
        if self.mode == "silent when ready" and READY in data:
            self.silent += (source, target)
            del self._pairs[source], self._pairs[target]

    def close(self) -> None:
        self._ending.close()
        self.join()
        for each in (self._listening, self._ended, *self._pairs, *self.silent):
            each.close()


@pytest.fixture
def relay(home) -> Iterator[Relay]:
    parameters = conninfo_to_dict(stores.get_url(home))
    host, port = parameters.get("host") or "/var/run/postgresql", parameters.get("port") or 5432
    address = f"{host}/.s.PGSQL.{port}" if str(host).startswith("/") else (host, int(port))
    relay = Relay(address)
    relay.start()
    yield relay
    relay.close()


@pytest.fixture
def relayed(empty_store, home, relay):
    """Open the store through the relay."""
    parameters = conninfo_to_dict(stores.get_url(home))
    name, user = parameters["dbname"], parameters.get("user") or ""
    yield open_store(
        f"postgresql://{user}@127.0.0.1:{relay.port}/{name}?connect_timeout={CONNECT_S}&sslmode=disable", home
    )
    db.close_all()


def refuse() -> float:
    """Fail to connect. Return how many seconds that took."""
    started = time.monotonic()
    with pytest.raises(STORE_ERRORS), connection():
        pass
    return time.monotonic() - started


def use_connection() -> int:
    """Return the number of the server process of a connection."""
    with connection():
        pid: int = db.execute_sql("select pg_backend_pid()").fetchone()[0]
        return pid


@pytest.mark.parametrize("mode", ["silent", "silent when ready"])
def test_a_thread_that_connects_does_not_block_threads_with_connections(relayed, relay, mode):
    """To give a connection back, and to take an idle one, needs the same locks as to connect."""
    with ThreadPoolExecutor(1) as pool, connection():
        pid = db.execute_sql("select pg_backend_pid()").fetchone()[0]
        relay.mode = mode
        connecting = pool.submit(refuse)
        wait_until(lambda: relay.silent)
        db.close()
        assert use_connection() == pid
        assert not connecting.done()
        for each in relay.silent:
            each.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("mode", ["silent", "silent when ready"])
def test_a_deadline_also_counts_for_a_new_connection(relayed, relay, mode):
    relay.mode = mode
    with relayed.deadline(0.2):
        assert refuse() < CONNECT_S / 2

    # The deadline of one thread says nothing about the server.
    relay.mode = "open"
    assert use_connection()


def test_a_server_that_is_silent_after_the_start_is_given_up(relayed, relay, monkeypatch):
    """Also in a process without limits."""
    monkeypatch.setattr(postgresql_pool, "SESSION_TIMEOUT_S", 0.2)
    monkeypatch.setattr(postgresql_pool, "RECONNECT_DELAY_S", 60.0)
    relay.mode = "silent when ready"

    assert refuse() < CONNECT_S / 2
    # No other thread tries again for a moment.
    tried = wait_until(lambda: list(relay.silent))
    refuse()
    assert relay.silent == tried


def test_many_threads_connect_at_the_same_time(relayed):
    barrier = threading.Barrier(12)

    def work() -> int:
        with connection():
            barrier.wait(20)
            return int(db.execute_sql("select pg_backend_pid()").fetchone()[0])

    with ThreadPoolExecutor(12) as pool:
        pids = {each.result() for each in [pool.submit(work) for _ in range(12)]}
    assert len(pids) == 12
    assert use_connection() in pids
