"""Deadlines and memory of the request bodies that are being received. They occupy no threads.

A sender that stops, sends single bytes slowly, or disappears gets 408. All large bodies together may use a
fixed amount of memory: if it is used up, the oldest one that is not complete makes room. A sender that
sends at once is complete within milliseconds, so that this hits the senders that delay.
"""

import threading
import time
from collections.abc import Iterator
from typing import Protocol

KIB = 1024
# Small bodies are bounded by the number of connections alone. Most alerts are smaller than 4 KiB.
SMALL_BYTES = 64 * KIB
# The limit of the largest kind of body (pipeline/sources/table.py); a test compares them.
MAX_BYTES = 8192 * KIB
# For all large bodies of a process, from their first byte to their answer.
MAX_LARGE_BYTES = 256 * KIB * KIB
# A large body may also take as long as 8 MiB need over a line of 2 Mbit/s.
SMALL_TIMEOUT_S = 10.0
LARGE_TIMEOUT_S = 40.0
# A younger body does not make room for others.
MIN_TIME_S = 1.0
# A large body arrives in parts, each of which costs as much as a small body. Parts must have MIN_CHUNK_BYTES
# on average, except for FREE_CHUNKS.
FREE_CHUNKS = 200
MIN_CHUNK_BYTES = 64


class Body(Protocol):
    """A body that is not complete. `cancel` answers, unless the body is complete in the meantime.

    `client` is the address of its sender, as IP:PORT.
    """

    client: str

    def cancel(self, status: int = 408) -> object: ...


class Bodies:
    """The bodies that a process is receiving, the oldest first."""

    def __init__(self) -> None:
        self._small: dict[Body, float] = {}
        self._large: dict[Body, float] = {}
        self._large_bytes = 0
        self._is_stopping = False
        self._lock = threading.Lock()

    def add(self, body: Body, *, is_large: bool) -> None:
        with self._lock:
            (self._large if is_large else self._small)[body] = time.monotonic()

    def discard(self, body: Body) -> None:
        """Count a body as complete or cancelled."""
        with self._lock:
            if self._small.pop(body, None) is None:
                self._large.pop(body, None)

    def reserve(self, count: int) -> bool:
        """Reserve memory for a part of a large body, and return whether there is enough."""
        with self._lock:
            if self._large_bytes + count <= MAX_LARGE_BYTES:
                self._large_bytes += count
                return True
            oldest = next(_list_older(self._large, time.monotonic() - MIN_TIME_S), None)
        if oldest is not None:
            # Its memory is free for the next part or body.
            oldest.cancel()
        return False

    def release(self, count: int) -> None:
        with self._lock:
            self._large_bytes -= count

    def cancel_late(self, now: float) -> None:
        """Cancel the bodies that are not complete in time. When the process stops, none has any time."""
        if self._is_stopping:
            self.cancel_all()
            return
        with self._lock:
            late = [
                *_list_older(self._small, now - SMALL_TIMEOUT_S),
                *_list_older(self._large, now - LARGE_TIMEOUT_S),
            ]
        for body in late:
            body.cancel()

    def cancel_all(self) -> None:
        """End all bodies because the process stops: the sender may send again at once, unlike after 408."""
        self._is_stopping = True
        with self._lock:
            unfinished = [*self._small, *self._large]
        for body in unfinished:
            body.cancel(503)

    def list_unfinished(self) -> dict[str, Body]:
        """Return the bodies that are not complete, by client."""
        with self._lock:
            return {body.client: body for body in (*self._small, *self._large)}


def is_too_fragmented(chunks: int, size: int) -> bool:
    return chunks > FREE_CHUNKS + size // MIN_CHUNK_BYTES


def _list_older(bodies: dict[Body, float], start: float) -> Iterator[Body]:
    for body, started in bodies.items():
        if started > start:
            return
        yield body
