"""Processes that count in the metrics of a data folder, without a database."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# Counts one alert and one timer for each line of its input, and answers each line.
PROGRAM = """
import sys
from pathlib import Path
from runtime import metrics_folder
metrics_folder.join(Path(sys.argv[1]))
from runtime import metrics
print("ready", flush=True)
for line in sys.stdin:
    metrics.count_accepted({"generic": 1})
    metrics.count_timer("escalate", float(line))
    print("counted", flush=True)
"""


class CountingProcess:
    def __init__(self, home: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._read()

    def count(self, seconds: float = 0.3) -> None:
        self.start_to_count(seconds)
        self._read()

    def start_to_count(self, seconds: float = 0.3) -> None:
        self._input.write(f"{seconds}\n")
        self._input.flush()

    def _read(self) -> None:
        assert self._output.readline(), "the process has ended"

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextlib.contextmanager
def start_counting(home: Path, processes: int = 1) -> Iterator[list[CountingProcess]]:
    """Start processes. They are killed at the end."""
    started = [CountingProcess(home) for _ in range(processes)]
    try:
        yield started
    finally:
        for each in started:
            each.kill()
