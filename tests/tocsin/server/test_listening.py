"""The socket that web listens on."""

import socket

from runtime.settings import load
from tocsin.server.listening import listen


def test_the_socket_has_tcp_nodelay(home):
    """Head and body of an answer are sent separately: without TCP_NODELAY the body comes 40 ms later."""
    home.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    with listen(load({"TOCSIN_HOME": str(home), "TOCSIN_PORT": str(port)})) as listening:
        with socket.create_connection(("127.0.0.1", port)):
            listening.setblocking(True)
            accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
