"""Give each kind of request its own threads, so that no kind takes the threads of the others.

Without a free thread in its share, a request waits in a list, without a thread. A share that is full because
of a part that hangs refuses its requests after some seconds, and costs the other shares nothing.
"""

import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import structlog

from web.server_interface import ALERT_PATHS, CALLBACK_PATHS, needs_store

log = structlog.get_logger()

# A request that waits longer is refused. Its sender should send it again.
MAX_DELAY_S = 10.0

# Threads for the callbacks of providers. One callback takes some milliseconds.
CALLBACK_THREADS = 4


class Job(Protocol):
    """A request: `run` answers it, `refuse` answers that it should be sent again. Neither may raise."""

    def run(self) -> None: ...

    def refuse(self) -> None: ...


class Share:
    """Runs at most `threads` jobs at the same time. Up to `pending` more are pending, in order."""

    def __init__(self, name: str, threads: int, pending: int) -> None:
        # Its threads start when they are needed. It never has jobs that are pending: this share keeps them.
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._free = threads
        self._max_pending = pending
        self._pending: deque[tuple[float, Job]] = deque()
        self._lock = threading.Lock()

    def run(self, job: Job) -> None:
        """Let a thread of the share run the job as soon as one is free. Do not wait."""
        with self._lock:
            if self._free:
                self._free -= 1
                is_admitted = True
            else:
                is_admitted = False
                is_refused = len(self._pending) >= self._max_pending
                if not is_refused:
                    self._pending.append((time.monotonic(), job))
        if is_admitted:
            self._pool.submit(self._run_all, job)
        elif is_refused:
            job.refuse()

    def close(self) -> None:
        """Refuse the jobs that are pending, and wait for the running ones. No job may come any more."""
        with self._lock:
            pending = list(self._pending)
            self._pending.clear()
        for _, job in pending:
            job.refuse()
        self._pool.shutdown()

    def refuse_late(self, now: float) -> None:
        """Refuse the jobs that are pending for too long."""
        while (job := self._take_late(now)) is not None:
            job.refuse()

    def _take_late(self, now: float) -> Job | None:
        with self._lock:
            if not self._pending or now - self._pending[0][0] < MAX_DELAY_S:
                return None
            return self._pending.popleft()[1]

    def _run_all(self, job: Job) -> None:
        """Run the job and then those that became pending in the meantime."""
        while True:
            try:
                job.run()
            except Exception as error:  # the share must not lose a thread for ever
                log.error("a request could not be answered", error=type(error).__name__)
            with self._lock:
                if not self._pending:
                    self._free += 1
                    return
                _, job = self._pending.popleft()


class Shares:
    """The shares of a web process.

    `alerts` accepts alerts. `others` has half as many threads, but not more than the store has connections
    for them. `callbacks` answers the providers of channels: strangers can send callbacks without a token.
    `health` answers /readyz, which may take seconds.
    """

    def __init__(self, threads: int, connections: int) -> None:
        # Callbacks use connections of the same kind.
        others = max(1, min(threads // 2, connections - CALLBACK_THREADS))
        self.alerts = Share("alerts", threads, 1024)
        self.others = Share("others", others, 256)
        self.callbacks = Share("callbacks", min(CALLBACK_THREADS, others), 64)
        self.health = Share("health", 2, 32)
        self._all = (self.alerts, self.others, self.callbacks, self.health)

    def choose(self, path: str, method: str) -> Share | None:
        """Return the share for a request to this path. None: it needs none, since its answer is quick."""
        if path.startswith(ALERT_PATHS):
            return self.others if needs_store(path, method) else self.alerts
        if path.startswith(CALLBACK_PATHS):
            return self.callbacks
        if path == "/healthz":
            return None
        return self.health if path == "/readyz" else self.others

    def refuse_late(self, now: float) -> None:
        for share in self._all:
            share.refuse_late(now)

    def close(self) -> None:
        """Wait for the running requests, also for those whose clients have gone."""
        for share in self._all:
            share.close()
