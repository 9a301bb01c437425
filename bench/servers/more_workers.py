"""Run an instance with more than one worker."""

import os
import subprocess
from contextlib import suppress

from bench.servers.instance import START_S, STOP_S, Instance, NotReady, wait_until
from bench.servers.processes import Process, list_tree


class MoreWorkers(Instance):
    """`tocsin up` and more workers, which could also run on other hosts."""

    _more: "tuple[subprocess.Popen[bytes], ...]" = ()
    _starts = 1

    def add_worker(self, timeout: float = START_S) -> None:
        """Start one more worker, and wait until it takes work. Raise NotReady."""
        self._require_working(timeout)
        command = [self.python, "-P", "-m", "tocsin", "worker", "--parent", str(os.getpid())]
        with self.log.open("ab") as output:
            started = subprocess.Popen(
                command, env=self._environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._more = (*self._more, started)
        self._starts += 1
        self._require_working(timeout)

    def _require_working(self, timeout: float) -> None:
        """Wait until all workers that were started have reported that they work."""
        if not wait_until(lambda: self.log.read_text().count('"working"') >= self._starts, timeout):
            raise NotReady(f"a worker did not become ready:\n{self.log.read_text()[-2000:]}")

    def remove_workers(self) -> None:
        """Stop the workers that were added. The one of `tocsin up` remains."""
        for one in self._more:
            one.terminate()
        for one in self._more:
            with suppress(subprocess.TimeoutExpired):
                one.wait(STOP_S)
            one.kill()
            one.wait()
        self._more = ()

    def _kill_all(self, processes: list[Process]) -> None:
        super()._kill_all(processes)
        for one in self._more:
            one.wait()
        self._more = ()

    def processes(self) -> list[Process]:
        return super().processes() + [process for one in self._more for process in list_tree(one.pid)]

    def workers(self) -> list[Process]:
        return [one for one in self.processes() if one.kind == "worker"]
