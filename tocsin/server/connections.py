"""Close idle connections when there are many, so that new senders are served.

The server accepts no connection beyond a limit, and an idle one counts until it is closed after 30 s. A
client with thousands of idle connections would keep out everybody else. So, long before the limit, the
connections that have been silent for the longest time are closed. HTTP allows this at any time; a client
opens a new one.
"""

import os
import socket
import stat
import struct
from collections.abc import Collection, Iterator
from pathlib import Path

import structlog

log = structlog.get_logger()

# Other connections are closed before those that were silent for a shorter time.
MIN_SILENCE_S = 1.0

OPEN_FILES = Path("/proc/self/fd")
IS_SUPPORTED = hasattr(socket, "TCP_INFO") and OPEN_FILES.is_dir()

# tcpi_last_data_recv of struct tcp_info in linux/tcp.h: milliseconds since data was last received, or since
# the connection was opened.
_TCP_INFO = struct.Struct("=52xI")


def close_idle(port: int, limit: int, active: Collection[str]) -> int:
    """Close idle connections to the port if there are more than half of the limit; return how many.

    `active` has the addresses of the clients, as IP:PORT, whose requests are being answered.
    """
    if not IS_SUPPORTED or sum(1 for _ in os.scandir(OPEN_FILES)) <= limit // 2:
        return 0
    silences: list[tuple[float, int]] = []
    total = 0
    for sock, handle in _list_connections(port):
        with sock:
            total += 1
            silence = _get_silence_s(sock)
            if silence >= MIN_SILENCE_S and _format_peer(sock) not in active:
                silences.append((silence, handle))
    excess = total - limit // 2
    silences.sort(reverse=True)
    return sum(_close(handle, silence) for silence, handle in silences[: max(excess, 0)])


def _close(handle: int, silence: float) -> bool:
    """Close a connection, unless it got data or its handle became another file in the meantime."""
    try:
        sock = _duplicate_socket(handle)
        if sock is None:
            return False
        with sock:
            if _get_silence_s(sock) < silence:
                return False
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
