"""Close stalled connections, because a request occupies its thread until its body is complete.

The server waits for a body without a timeout. A sender that stops, sends single bytes slowly, or disappears
would occupy its thread forever. With as many such senders as threads, nobody else gets an answer. The kernel
knows these connections: the server has not sent data to them for a long time.
"""

import os
import socket
import stat
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import structlog

log = structlog.get_logger()

# The server closes connections that begin no request for 30 s (its header_read_timeout, measured). A sender
# that has begun a request also gets the longest time of a wait for the store, and time for a large body.
TIMEOUT_S = 45.0
CHECK_EVERY_S = 5.0

OPEN_FILES = Path("/proc/self/fd")

# tcpi_last_data_sent of struct tcp_info in linux/tcp.h: milliseconds since data was last sent, or since the
# connection was opened.
_TCP_INFO = struct.Struct("=44xI")


def start_watching(port: int) -> None:
    """Close stalled connections from a thread until this process ends. Only Linux supports this."""
    if hasattr(socket, "TCP_INFO") and OPEN_FILES.is_dir():
        threading.Thread(target=_run, args=(port,), name="stalled", daemon=True).start()


def _run(port: int) -> None:
    pause = threading.Event()
    while not pause.wait(CHECK_EVERY_S):
        try:
            count = close_stalled(port, TIMEOUT_S)
        except OSError as error:
            # For example too many open files. That is temporary, and closing connections helps then most.
            log.warning("cannot check for stalled connections", error=type(error).__name__)
            continue
        if count:
            log.warning("stalled connections closed", count=count)


def close_stalled(port: int, timeout_s: float) -> int:
    """Close the connections to the port to which nothing was sent for `timeout_s`; return their number."""
    count = 0
    for sock in _list_connections(port):
        with sock:
            if _get_silence_s(sock) > timeout_s:
                count += _shut_down(sock)
    return count


def _shut_down(sock: socket.socket) -> bool:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        return False  # the connection has ended in the meantime
    return True


def _list_connections(port: int) -> Iterator[socket.socket]:
    """Yield the open connections to the port. Each has a duplicated handle, which no other thread closes."""
    for file in OPEN_FILES.iterdir():
        try:
            sock = _duplicate_socket(int(file.name))
        except OSError:
            continue  # the file was closed in the meantime
        if sock is None:
            continue
        if _is_open(sock) and sock.getsockname()[1] == port:
            yield sock
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


def _get_silence_s(sock: socket.socket) -> float:
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    (milliseconds,) = _TCP_INFO.unpack(info)
    return float(milliseconds / 1000)
