"""Send messages in threads of their own, a few for each channel.

A provider that hangs can hold a thread for ten seconds. So the threads of the worker, which also process
alerts and timers, only ask for a thread of the channel. A thread begins when a channel has due messages, and
ends when none is left.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from models.domain.channels import USER_EMAIL_CHANNEL, get_channel_name
from workers.run_safely import run_safely

# Threads of all channels but e-mail. Each may use one of the 40 connections of a process to the database.
MAX_THREADS = 20


class DeliveryThreads:
    """The threads of all channels in this process. `send_due` sends the due messages of a channel."""

    def __init__(self, send_due: Callable[[int], object]) -> None:
        self._send_due = send_due
        self._lock = threading.Lock()
        self._running: Counter[int] = Counter()
        # The channels for which a thread was requested while all of theirs ran.
        self._look_again: set[int] = set()
        self._threads: set[threading.Thread] = set()
        self._is_started = False
        self._stopping = threading.Event()

    def start(self) -> None:
        self._stopping.clear()
        self._is_started = True

    def request(self, channel: int, max_threads: int) -> bool:
        """Let a thread send the due messages of a channel, if it has fewer than `max_threads`.

        Return False if start() was not called.
        """
        with self._lock:
            if not self._is_started:
                return False
            if not self._stopping.is_set() and not self._begin(channel, max_threads):
                self._look_again.add(channel)
            return True

    def try_begin(self, channel: int, max_threads: int) -> bool:
        """Begin a thread that sends the due messages of a channel. Return whether one could begin now."""
        with self._lock:
            may_begin = self._is_started and not self._stopping.is_set()
            return may_begin and self._begin(channel, max_threads)

    def _begin(self, channel: int, max_threads: int) -> bool:
        if self._running[channel] >= max_threads or not self._has_room(channel):
            return False
        self._running[channel] += 1
        thread = threading.Thread(target=self._run, args=(channel,), name="delivery", daemon=True)
        self._threads.add(thread)
        thread.start()
        return True

    def _has_room(self, channel: int) -> bool:
        """Return whether a thread of this channel may begin. Those of e-mail, the last way to people, may."""
        others = self._running.total() - self._running[USER_EMAIL_CHANNEL]
        return channel == USER_EMAIL_CHANNEL or others < MAX_THREADS

    def is_stopping(self) -> bool:
        """Return whether no further message may be claimed, because the worker ends."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Begin no further message."""
        self._stopping.set()

    def join(self, timeout_s: float) -> None:
        """Wait until the messages in flight are sent, but at most so long. Then threads are not used."""
        until = time.monotonic() + timeout_s
        with self._lock:
            running = list(self._threads)
        for thread in running:
            thread.join(max(until - time.monotonic(), 0.0))
        with self._lock:
            self._is_started = False
            # A thread that still hangs must not claim another message.
            if not self._threads:
                self._stopping.clear()

    def _run(self, channel: int) -> None:
        next_channel: int | None = channel
        while next_channel is not None:
            channel = next_channel
            run_safely(f"deliver.{get_channel_name(channel)}", partial(self._send_due, channel))
            with self._lock:
                self._running[channel] -= 1
                # A channel that found no room is next.
                next_channel = min(self._look_again, default=None)
                if next_channel is None or self._stopping.is_set():
                    # Under the same lock: a request that comes now starts a new thread.
                    self._threads.discard(threading.current_thread())
                    return
                self._look_again.discard(next_channel)
                self._running[next_channel] += 1
