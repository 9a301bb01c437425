"""The processes of an instance, what they cost and what they hold: read from /proc."""

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

_TICKS = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    command: str

    @property
    def kind(self) -> str:
        """web, worker, clock, redis, up; or the program's name."""
        words = self.command.split("\0")
        if "tocsin" in words or any(word.endswith("/tocsin") for word in words):
            return next((word for word in words if word in ("web", "worker", "clock", "up")), "tocsin")
        program = Path(words[0]).name
        return "redis" if program.startswith(("redis", "valkey")) else program


def living() -> set[int]:
    """Every process there is, but for those that only wait for their parent to look at them."""
    return {pid for pid, _ in _parents()}


def family(pid: int) -> list[Process]:
    """A process and all that descend from it."""
    parents = dict(_parents())
    found = [pid] if pid in parents else []
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return [Process(one, _command(one)) for one in found]


def titled(beginning: str) -> list[Process]:
    """Every process whose command line, which some servers write anew, begins so."""
    found = (Process(pid, _command(pid)) for pid, _ in _parents())
    return [one for one in found if one.command.startswith(beginning)]


def of_home(home: Path) -> list[Process]:
    """Every process but this one that has a file of a data folder open."""
    inside = f"{home.resolve()}/"
    return [
        Process(pid, _command(pid)) for pid, _ in _parents() if pid != os.getpid() and _holds(pid, inside)
    ]


def _parents() -> Iterator[tuple[int, int]]:
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            fields = _stat(int(entry.name))
            # A zombie has ended already, it only waits to be looked at.
            if fields and fields[0] != "Z":
                yield int(entry.name), int(fields[1])


def _stat(pid: int) -> list[str]:
    """The fields after the program's name, which may hold anything: state, parent ..."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _command(pid: int) -> str:
    try:
        return (PROC / str(pid) / "cmdline").read_text().rstrip("\0")
    except OSError:
        return ""


def _holds(pid: int, inside: str) -> bool:
    try:
        handles = list((PROC / str(pid) / "fd").iterdir())
    except OSError:
        return False
    return any(_target(handle).startswith(inside) for handle in handles)


def _target(handle: Path) -> str:
    try:
        return str(handle.readlink())
    except OSError:
        return ""


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used; 0 when it is gone."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


def busy_seconds() -> float:
    """What all cores of this machine have worked so far, for whomever; what its host took counts too."""
    user, nice, system, _idle, _waiting, *rest = (PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]
    return sum(map(int, (user, nice, system, *rest))) / _TICKS


class Elsewhere:
    """Work on this machine since it was made that was done neither for us nor for these processes."""

    def __init__(self, processes: Callable[[], list[Process]]) -> None:
        self._processes = processes
        self._began_at = monotonic()
        self._busy, self._ours = busy_seconds(), self._of_ours()

    def percent(self) -> float:
        """Of all cores. High: the figures of this time are worth little."""
        others = busy_seconds() - self._busy - (self._of_ours() - self._ours)
        cores = os.cpu_count() or 1
        return max(100 * others / (monotonic() - self._began_at) / cores, 0.0)

    def _of_ours(self) -> float:
        ours = {one.pid for one in [*family(os.getpid()), *self._processes()]}
        return sum(map(cpu_seconds, ours))


def memory_mib(pid: int) -> float:
    """The proportional share of memory (PSS): what is shared counts once over all who share it."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


class Meter:
    """CPU and peak memory of a set of processes between start() and stop().

    A process that ends in between counts with what it had used when it was last looked at.
    """

    def __init__(self, processes: Callable[[], list[Process]]) -> None:
        self._processes = processes
        self._stopping = threading.Event()
        self._before: dict[int, float] = {}
        self._used: dict[int, float] = {}
        self._thread = threading.Thread(target=self._watch, name="meter", daemon=True)
        self.cpu_s = 0.0
        self.peak_mib = 0.0

    def start(self) -> "Meter":
        self._before = {one.pid: cpu_seconds(one.pid) for one in self._processes()}
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._look()
        self.cpu_s = sum(used - self._before.get(pid, 0.0) for pid, used in self._used.items())

    def _watch(self) -> None:
        while not self._stopping.wait(1.0):
            self._look()

    def _look(self) -> None:
        found = [one.pid for one in self._processes()]
        for pid in found:
            self._used[pid] = max(cpu_seconds(pid), self._used.get(pid, 0.0))
        self.peak_mib = max(self.peak_mib, sum(memory_mib(pid) for pid in found))
