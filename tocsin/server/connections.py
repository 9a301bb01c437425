"""Close idle connections when there are many, so that new senders are served.

The server accepts no connection beyond a limit, and an idle one counts until it is closed after 30 s. A
client with thousands of idle connections would keep out everybody else. So, long before the limit, the
connections that have been silent for the longest time are closed. HTTP allows this at any time; a client
opens a new one. A client that has sent only a part of its request's body gets 408.
"""

import os
import socket
import stat
import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from tocsin.server.bodies import Body

# Other connections are closed before those that were silent for a shorter time.
MIN_SILENCE_S = 1.0

OPEN_FILES = Path("/proc/self/fd")
IS_SUPPORTED = hasattr(socket, "TCP_INFO") and OPEN_FILES.is_dir()

# tcpi_last_data_recv of struct tcp_info in linux/tcp.h: milliseconds since data was last received, or since
# the connection was opened.
_TCP_INFO = struct.Struct("=52xI")


def close_idle(
    port: int,
    limit: int,
    active: Collection[str],
    list_unfinished: Callable[[], Mapping[str, Body]] = dict,
) -> int:
    """Close idle connections to the port if there are more than half of the limit; return how many.

    `active` has the addresses of the clients, as IP:PORT, whose requests are being answered.
    `list_unfinished` returns the bodies that are not complete, by client: these clients get 408 first.
    """
    if not IS_SUPPORTED or sum(1 for _ in os.scandir(OPEN_FILES)) <= limit // 2:
        return 0
    silences: list[tuple[float, int, str]] = []
    total = 0
    for sock, handle in _list_connections(port):
        with sock:
            total += 1
            silence, peer = _get_silence_s(sock), _format_peer(sock)
            if silence >= MIN_SILENCE_S and peer not in active:
                silences.append((silence, handle, peer))
    excess = total - limit // 2
    if excess <= 0:
        return 0
    silences.sort(reverse=True)
    unfinished = list_unfinished()
    return sum(_close(handle, silence, unfinished.get(peer)) for silence, handle, peer in silences[:excess])


def _close(handle: int, silence: float, body: Body | None) -> bool:
    """Close a connection, unless it got data or its handle became another file in the meantime.

    With an unfinished body, answer 408: the server closes the connection after this answer.
    """
    try:
        sock = _duplicate_socket(handle)
        if sock is None:
            return False
        with sock:
            if _get_silence_s(sock) < silence:
                return False
            if body is not None:
                body.cancel()
            else:
                sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        return False
    return True


def _list_connections(port: int) -> Iterator[tuple[socket.socket, int]]:
    """Yield the open connections to the port, each as a duplicated socket, and the original handle."""
    for file in OPEN_FILES.iterdir():
        handle = int(file.name)
        try:
            sock = _duplicate_socket(handle)
        except OSError:
            continue  # the file was closed in the meantime
        if sock is None:
            continue
        if _is_open(sock) and sock.getsockname()[1] == port:
            yield sock, handle
        else:
            sock.close()


def _duplicate_socket(number: int) -> socket.socket | None:
    if not stat.S_ISSOCK(os.fstat(number).st_mode):
        return None
    return socket.socket(fileno=os.dup(number))


def _is_open(sock: socket.socket) -> bool:
    """Return whether the socket is a TCP connection with a peer."""
    if sock.type != socket.SOCK_STREAM or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    try:
        return bool(sock.getpeername())
    except OSError:
        return False


def _format_peer(sock: socket.socket) -> str:
    host, port = sock.getpeername()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _get_silence_s(sock: socket.socket) -> float:
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    (milliseconds,) = _TCP_INFO.unpack(info)
    return float(milliseconds / 1000)
