"""The instance for faults; on PostgreSQL with a second worker, as on another host."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from bench.servers.instance import START_S, Instance
from bench.servers.processes import Process, list_tree
from tests.support.faults import host_clock
from tests.support.polling import wait_until
from tests.support.stores import get_url


class Installation(Instance):
    """`tocsin up` and, on PostgreSQL, a second worker that is restarted too."""

    def __init__(self, folder: Path, relay_port: int, **settings: str) -> None:
        self.database_url = settings.pop("database_url", "") or get_url(folder / "home")
        if self.database_url:
            settings["database_url"] = self.database_url
        super().__init__(folder, relay_port, **settings)
        self._starts = 0
        self._second: subprocess.Popen[bytes] | None = None

    def start(self, timeout: float = START_S) -> "Installation":
        super().start(timeout)
        self._start_second()
        if self.database_url:
            wait_until(lambda: self._get_log_path().read_text().count('"working"') == self._starts)
        return self

    def stop(self) -> None:
        """Stop the processes. Kill them if their clock is not the machine's."""
        if not host_clock.is_seen_by(self._environment):
            super().stop()
            return
        started = self.processes()
        self.kill()
        host_clock.remove_shared(one.pid for one in started)

    def _get_log_path(self) -> Path:
        return self.home / "second-worker.log"

    def _start_second(self) -> None:
        if not self.database_url:
            return
        self._starts += 1
        self._second = self.run("worker")

    def run(self, kind: str) -> "subprocess.Popen[bytes]":
        """Start one more process of a kind. It is not restarted, and ends with the test at the latest."""
        return self.run_module("tocsin", kind, "--parent", str(os.getpid()))

    def run_module(self, *words: str) -> "subprocess.Popen[bytes]":
        """Start a command with the settings of this instance."""
        with self._get_log_path().open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", *words],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def read_output(self) -> str:
        """Return the output of all processes."""
        return "".join(path.read_text() for path in (self.log, self._get_log_path()) if path.exists())

    def _kill_all(self, processes: list[Process]) -> None:
        super()._kill_all(processes)
        if self._second is not None:
            self._second.wait()
            self._second = None

    def processes(self) -> list[Process]:
        return super().processes() + (list_tree(self._second.pid) if self._second is not None else [])

    def kill_one(self, kind: str, chance: random.Random) -> bool:
        """Kill one process of a kind with SIGKILL. Return False if there is none."""
        living = [one.pid for one in self.processes() if one.kind == kind]
        if not living:
            return False
        if self._second is not None:
            assert self._second.poll() is None, "the second worker has ended by itself"
        struck = chance.choice(living)
        os.kill(struck, signal.SIGKILL)
        if self._second is not None and struck == self._second.pid:
            self._second.wait()
            self._start_second()
        return True

    def kill_each(self, kind: str) -> None:
        """Kill all processes of a kind with SIGKILL. They are restarted."""
        for pid in [one.pid for one in self.processes() if one.kind == kind]:
            os.kill(pid, signal.SIGKILL)
        if kind == "worker" and self._second is not None:
            self._second.wait()
            self._start_second()
