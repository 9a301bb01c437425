"""Run another program as a child process: on loopback, in its own folder, stopped with this process."""

import ctypes
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.servers.instance import wait_until
from bench.servers.processes import Process, list_tree

START_S = 20.0
STOP_S = 5.0

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class PeerUnavailable(RuntimeError):
    """A peer that cannot be measured; the text gives the reason."""


class ChildProcess:
    """A program that listens on a port of 127.0.0.1."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int) -> None:
        self._process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def processes(self) -> list[Process]:
        return list_tree(self._process.pid)

    def is_listening(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        """Ask all its processes to stop, and kill those that do not."""
        running = self.processes()
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        for one in running:
            with suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def child(
    name: str, command: Sequence[str], port: int, folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[ChildProcess]:
    """Start a program and wait until it accepts connections. Raise PeerUnavailable."""
    log = folder / f"{name}.log"
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                env={**os.environ, **(environment or {})},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
    except OSError as error:
        raise PeerUnavailable(f"{name} cannot be started: {error.strerror}") from None
    running = ChildProcess(process, port)
    try:
        if (
            not wait_until(lambda: running.has_ended() or running.is_listening(), START_S)
            or running.has_ended()
        ):
            raise PeerUnavailable(f"{name} did not start: {read_last_line(log)}")
        yield running
    finally:
        running.stop()


def read_last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "no output"


def _end_with_parent() -> None:
    """Let the child end with its parent, also after a kill of the parent. Runs in the child."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
