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
PATIENCE_S = 45.0
LOOK_EVERY_S = 5.0

OPEN_FILES = Path("/proc/self/fd")

# Of struct tcp_info in linux/tcp.h: the milliseconds since data was last sent, or since it was opened.
_TCP_INFO = struct.Struct("=44xI")


def watch(port: int) -> None:
    """Cut such connections for as long as this process lives; where there is no Linux, do nothing."""
    if hasattr(socket, "TCP_INFO") and OPEN_FILES.is_dir():
        threading.Thread(target=_look, args=(port,), name="stalled", daemon=True).start()


def _look(port: int) -> None:
    pause = threading.Event()
    while not pause.wait(LOOK_EVERY_S):
        try:
            count = cut(port, PATIENCE_S)
        except OSError as error:
            # Too many open files, for one; that passes, and is when this is needed most.
            log.warning("cannot look for stalled connections", error=type(error).__name__)
            continue
        if count:
            log.warning("stalled connections cut", count=count)


def cut(port: int, patience_s: float) -> int:
    """End the connections to our port to which nothing was sent for longer; returns how many."""
    count = 0
    for one in _connections(port):
        with one:
            if _silent_s(one) > patience_s:
                count += _end(one)
    return count


def _end(one: socket.socket) -> bool:
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        return False  # ended meanwhile
    return True


def _connections(port: int) -> Iterator[socket.socket]:
    """The open connections to our port, each by a handle of its own, which cannot become another's."""
    for file in OPEN_FILES.iterdir():
        try:
            one = _socket(int(file.name))
        except OSError:
            continue  # closed meanwhile
        if one is None:
            continue
        if _is_open(one) and one.getsockname()[1] == port:
            yield one
        else:
            one.close()


def _socket(number: int) -> socket.socket | None:
    if not stat.S_ISSOCK(os.fstat(number).st_mode):
        return None
    return socket.socket(fileno=os.dup(number))


def _is_open(one: socket.socket) -> bool:
    """Whether it is a connection of TCP with somebody at the other end."""
    if one.type != socket.SOCK_STREAM or one.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    try:
        return bool(one.getpeername())
    except OSError:
        return False


def _silent_s(one: socket.socket) -> float:
    info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    (milliseconds,) = _TCP_INFO.unpack(info)
    return float(milliseconds / 1000)
