"""Somebody else's program as a child of ours: on loopback, in a folder of its own, ended with us."""

import ctypes
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.instance import until
from bench.processes import Process, family

START_S = 20.0
STOP_S = 5.0

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class Absent(RuntimeError):
    """A peer that cannot be measured here; the text says why."""


class Child:
    """A program that listens on a port of 127.0.0.1."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int) -> None:
        self._process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def processes(self) -> list[Process]:
        return family(self._process.pid)

    def listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        """Ask all of its processes to stop; kill what does not."""
        started = self.processes()
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        for one in started:
            with suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def child(
    name: str, command: Sequence[str], port: int, folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Child]:
    """The running program, once it takes connections. Raises Absent."""
    log = folder / f"{name}.log"
    try:
        with log.open("wb") as told:
            process = subprocess.Popen(
                command,
                env={**os.environ, **(environment or {})},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=told,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
    except OSError as error:
        raise Absent(f"{name} cannot be started: {error.strerror}") from None
    started = Child(process, port)
    try:
        if not until(lambda: started.ended() or started.listens(), START_S) or started.ended():
            raise Absent(f"{name} did not start: {last_line(log)}")
        yield started
    finally:
        started.stop()


def last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "it said nothing"


def _end_with_parent() -> None:
    """Runs in the child: also a killed parent leaves nothing running."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
