"""Connections that have stalled are cut, since a request holds its thread until its body is whole.

The server waits for a body without any limit of time. A sender that stops, sends a byte now and then, or
has vanished without a word would keep its thread for ever, and as many as there are threads would keep
everybody out. The kernel knows which connections these are: nothing was sent to them for too long.
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

# The server itself closes those that begin no request for 30 s (its header_read_timeout, measured); who
# has begun one gets as long again as the longest wait for the store, and time for a large body.
TIMEOUT_S = 45.0
CHECK_EVERY_S = 5.0

OPEN_FILES = Path("/proc/self/fd")

# Of struct tcp_info in linux/tcp.h: the milliseconds since data was last sent, or since it was opened.
_TCP_INFO = struct.Struct("=44xI")


def start_watching(port: int) -> None:
    """Cut such connections for as long as this process lives; where there is no Linux, do nothing."""
    if hasattr(socket, "TCP_INFO") and OPEN_FILES.is_dir():
        threading.Thread(target=_run, args=(port,), name="stalled", daemon=True).start()


def _run(port: int) -> None:
    pause = threading.Event()
    while not pause.wait(CHECK_EVERY_S):
        try:
            count = close_stalled(port, TIMEOUT_S)
        except OSError as error:
            # Too many open files, for one; that passes, and is when this is needed most.
            log.warning("cannot look for stalled connections", error=type(error).__name__)
            continue
        if count:
            log.warning("stalled connections cut", count=count)


def close_stalled(port: int, timeout_s: float) -> int:
    """End the connections to our port to which nothing was sent for longer; returns how many."""
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
        return False  # ended meanwhile
    return True


def _list_connections(port: int) -> Iterator[socket.socket]:
    """The open connections to our port, each by a handle of its own, which cannot become another's."""
    for file in OPEN_FILES.iterdir():
        try:
            sock = _duplicate_socket(int(file.name))
        except OSError:
            continue  # closed meanwhile
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
    """Whether it is a connection of TCP with somebody at the other end."""
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
