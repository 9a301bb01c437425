"""Run a new instance: `tocsin up` in a folder of its own, with a mail server of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, TypeVar

from bench.servers.processes import Process, list_pids, list_tree
from bench.servers.sink import Sink

START_S = 30.0
STOP_S = 20.0


class NotReady(RuntimeError):
    """The instance did not become ready; the text ends with its last output."""


def wait_until(condition: Callable[[], Any], timeout: float, pause: float = 0.02) -> Any:
    """Return the first true result of a condition, or the last one after `timeout` seconds."""
    end, event = monotonic() + timeout, threading.Event()
    while not (answer := condition()) and monotonic() < end:
        event.wait(pause)
    return answer


def find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


class Instance:
    """All processes of one data folder. They can be killed and restarted on the same folder and port."""

    # The interpreter that runs all processes.
    python = sys.executable

    def __init__(self, folder: Path, relay_port: int, **settings: str) -> None:
        self.home = folder / "home"
        self.log = folder / "instance.log"
        self.port = find_free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
        settings_here = {
            "home": str(self.home),
            "port": str(self.port),
            "smtp_host": "127.0.0.1",
            "smtp_port": str(relay_port),
            # All alerts notify one person, and each incident must be in a mail at once.
            "mail_limit": "1000000",
            **settings,
        }
        self._environment = environment | {
            f"TOCSIN_{name.upper()}": value for name, value in settings_here.items()
        }

    def start(self, timeout: float = START_S) -> "Instance":
        """Start the processes and wait until alerts are accepted."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [self.python, "-P", "-m", "tocsin", "up"],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        if (
            not wait_until(lambda: self._has_ended() or self.get_readiness() == 200, timeout)
            or self._has_ended()
        ):
            self.kill()
            raise NotReady(f"tocsin up did not become ready:\n{self.log.read_text()[-2000:]}")
        return self

    def _has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def stop(self) -> None:
        """Ask the processes to stop, and kill those that do not."""
        if self._process is None:
            return
        started = self.processes()
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        self._kill_all(started)

    def kill(self) -> None:
        """Send SIGKILL to all processes at the same time."""
        self._kill_all(self.processes())

    def _kill_all(self, processes: list[Process]) -> None:
        for one in processes:
            with suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
            self._process = None
        wait_until(lambda: list_pids().isdisjoint(one.pid for one in processes), 5.0)

    def processes(self) -> list[Process]:
        return list_tree(self._process.pid) if self._process is not None else []

    def get_pid(self, kind: str) -> int | None:
        return next((one.pid for one in self.processes() if one.kind == kind), None)

    def credentials(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.home / "credentials.json").read_text())
        return found

    def get_readiness(self) -> int:
        """Return the status of /readyz; 0 without an answer."""
        asked = HTTPConnection("127.0.0.1", self.port, timeout=3)
        try:
            asked.request("GET", "/readyz")
            return asked.getresponse().status
        except (OSError, HTTPException):
            return 0
        finally:
            asked.close()


Started = TypeVar("Started", bound=Instance)


@contextmanager
def start_own_instance(**settings: str) -> Iterator[tuple[Instance, Sink]]:
    """Start a new instance with its mail server. Both stop, and the folder is deleted, with the context."""
    with start_instance_of(Instance, **settings) as started:
        yield started


@contextmanager
def start_instance_of(kind: type[Started], **settings: str) -> Iterator[tuple[Started, Sink]]:
    """Start a new instance of this class, as above."""
    sink = Sink().start()
    try:
        with TemporaryDirectory(prefix="tocsin-bench-") as folder:
            instance = kind(Path(folder), sink.port, **settings)
            try:
                instance.start()
                yield instance, sink
            finally:
                instance.stop()
    finally:
        sink.stop()
