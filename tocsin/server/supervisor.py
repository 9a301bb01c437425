"""`tocsin up`: run all processes. A process that ends is started again; a stop ends all of them."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import structlog

from runtime.settings import Settings, needs_listener
from runtime.signals import STOP, Signals
from tocsin.server.embedded_redis import RedisKeeper

log = structlog.get_logger()

KINDS = ("web", "worker", "clock")
# Runs only if a setting needs it, because it uses memory.
LISTENER = "listener"

# Exit code of a process whose settings are invalid; a restart would not help.
CANNOT_START = 2

FIRST_PAUSE_S = 0.1
MAX_PAUSE_S = 10.0
# A process that ran longer is started again without a longer pause.
MIN_LIFETIME_S = 10.0
# After this time processes that have not stopped are killed. No accepted alert is lost (invariant 1,
# design, section 2).
STOP_TIMEOUT_S = 12.0
# A terminal, make and a process manager may each send a signal for the same request to stop.
SAME_REQUEST_S = 1.0
READY_POLL_S = 0.05


class AlreadyUp(RuntimeError):
    """Another `tocsin up` runs on this data folder."""


@dataclass
class Child:
    """A kind of process with its current process and the time of the next start."""

    kind: str
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_at: float = field(default_factory=time.monotonic)
    pause: float = FIRST_PAUSE_S

    def start(self) -> None:
        self.started_at = time.monotonic()
        # Without -P Python would first search the current folder for modules.
        command = [sys.executable, "-P", "-m", "tocsin", self.kind, "--parent", str(os.getpid())]
        # A new session: Ctrl-C at a terminal reaches only the supervisor, which then stops the processes.
        self.process = subprocess.Popen(  # noqa: S603 - no shell, nothing from outside
            command, stdin=subprocess.DEVNULL, start_new_session=True
        )

    def poll_exit_code(self) -> int | None:
        """Return the exit code once after the process has ended, else None."""
        if self.process is None or self.process.poll() is None:
            return None
        code, self.process = self.process.returncode, None
        lived = time.monotonic() - self.started_at
        self.pause = FIRST_PAUSE_S if lived > MIN_LIFETIME_S else min(self.pause * 2, MAX_PAUSE_S)
        self.start_at = time.monotonic() + self.pause
        return code


class Supervisor:
    """Runs all kinds of processes of one data folder, and Redis if TOCSIN_REDIS_URL is not set."""

    def __init__(self, settings: Settings, on_ready: Callable[[], None]) -> None:
        self._settings = settings
        self._on_ready = on_ready
        self._ready = False
        kinds = (*KINDS, LISTENER) if needs_listener(settings) else KINDS
        self._children = [Child(kind) for kind in kinds]
        self._keeper = None if settings.redis_url else RedisKeeper(settings.home)

    def run(self) -> int:
        """Supervise until this process is asked to stop; return the exit code."""
        signals = Signals(signal.SIGCHLD)
        if self._keeper is not None:
            self._keeper.start()
        try:
            return self._supervise(signals)
        finally:
            self._stop(signals)
            if self._keeper is not None:
                self._keeper.stop()

    def _supervise(self, signals: Signals) -> int:
        while not signals.wait(self._compute_timeout_s()) & STOP:
            for child in self._children:
                code = child.poll_exit_code()
                if code == CANNOT_START and not self._ready:
                    return CANNOT_START
                if code is not None:
                    log.warning("a process ended and will be started again", kind=child.kind, code=code)
                if child.process is None and child.start_at <= time.monotonic():
                    child.start()
            if not self._ready and is_ready(self._settings):
                self._ready = True
                self._on_ready()
        return 0

    def _compute_timeout_s(self) -> float | None:
        """Return the seconds until the next start or readiness check; None: only a signal needs action."""
        starts = [child.start_at - time.monotonic() for child in self._children if child.process is None]
        if not self._ready:
            starts.append(READY_POLL_S)
        return max(min(starts), 0.0) if starts else None

    def _stop(self, signals: Signals) -> None:
        """Ask all processes to stop and wait. Kill them at a second request or after STOP_TIMEOUT_S."""
        requested_at = time.monotonic()
        until = requested_at + STOP_TIMEOUT_S
        running = [child.process for child in self._children if child.process is not None]
        for process in running:
            process.terminate()
        while any(process.poll() is None for process in running):
            remaining = until - time.monotonic()
            again = remaining > 0 and bool(signals.wait(remaining) & STOP)
            if remaining <= 0 or (again and time.monotonic() - requested_at > SAME_REQUEST_S):
                for process in running:
                    process.kill()
        for process in running:
            process.wait()


def is_ready(settings: Settings) -> bool:
    """Return whether web answers that it can accept alerts."""
    host = settings.host if settings.host not in ("0.0.0.0", "::", "") else "localhost"  # noqa: S104
    client = HTTPConnection(host, settings.port, timeout=2)
    try:
        client.request("GET", "/readyz")
        return client.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        client.close()


def claim_lock(home: Path) -> int:
    """Take the lock of `tocsin up` and return its handle; closing the handle releases the lock.

    Raise AlreadyUp with the ID of the process that holds the lock.
    """
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(home / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.read(handle, 32).decode().strip()
        os.close(handle)
        raise AlreadyUp(f"Tocsin already runs on {home} (process {pid})") from None
    os.ftruncate(handle, 0)
    os.write(handle, str(os.getpid()).encode())
    return handle
