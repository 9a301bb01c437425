"""Read the CPU time and the memory of processes from /proc."""

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

_JIFFIES_PER_S = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    command: str

    @property
    def kind(self) -> str:
        """Return web, worker, clock, listener, redis, up or database, or else the name of the program."""
        words = self.command.split("\0")
        if "tocsin" in words or any(word.endswith("/tocsin") for word in words):
            return next(
                (word for word in words if word in ("web", "worker", "clock", "listener", "up")), "tocsin"
            )
        if self.command.startswith("postgres:"):
            return "database"
        program = Path(words[0]).name
        return "redis" if program.startswith(("redis", "valkey")) else program


def list_pids() -> set[int]:
    """Return the IDs of all processes except zombies."""
    return {pid for pid, _ in _list_parents()}


def list_tree(pid: int) -> list[Process]:
    """Return a process and all its descendants."""
    parents = dict(_list_parents())
    found = [pid] if pid in parents else []
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return [Process(one, _read_command(one)) for one in found]


def list_by_title(prefix_text: str) -> list[Process]:
    """Return the processes whose command line begins with a text. Some servers rewrite their command line."""
    found = (Process(pid, _read_command(pid)) for pid, _ in _list_parents())
    return [one for one in found if one.command.startswith(prefix_text)]


def list_by_home(home: Path) -> list[Process]:
    """Return the processes, except this one, that have a file of a data folder open."""
    prefix = f"{home.resolve()}/"
    return [
        Process(pid, _read_command(pid))
        for pid, _ in _list_parents()
        if pid != os.getpid() and _has_open_file(pid, prefix)
    ]


def _list_parents() -> Iterator[tuple[int, int]]:
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            fields = _read_stat(int(entry.name))
            # A zombie has already ended; only its parent has not read its exit status.
            if fields and fields[0] != "Z":
                yield int(entry.name), int(fields[1])


def _read_stat(pid: int) -> list[str]:
    """Return the fields after the program's name (which may contain any character): state, parent ..."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _read_command(pid: int) -> str:
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").rstrip("\0")
    except OSError:
        return ""


def _has_open_file(pid: int, prefix: str) -> bool:
    try:
        handles = list((PROC / str(pid) / "fd").iterdir())
    except OSError:
        return False
    return any(_read_link(handle).startswith(prefix) for handle in handles)


def _read_link(handle: Path) -> str:
    try:
        return str(handle.readlink())
    except OSError:
        return ""


def get_cpu_seconds(pid: int) -> float:
    """Return the user and system time of a process; 0 if it has ended."""
    fields = _read_stat(pid)
    return (int(fields[11]) + int(fields[12])) / _JIFFIES_PER_S if fields else 0.0


def get_busy_seconds() -> float:
    """Return the busy time of all cores of this machine, including time that its host took."""
    user, nice, system, _idle, _iowait, *rest = (PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]
    return sum(map(int, (user, nice, system, *rest))) / _JIFFIES_PER_S


class OtherLoad:
    """The CPU time that other processes of this machine have used since this object was created."""

    def __init__(self, processes: Callable[[], list[Process]]) -> None:
        self._processes = processes
        self._started_at = monotonic()
        self._busy, self._own = get_busy_seconds(), self._get_own_seconds()

    def get_percent(self) -> float:
        """Return the share of all cores in percent. If it is high, the figures are not reliable."""
        other_seconds = get_busy_seconds() - self._busy - (self._get_own_seconds() - self._own)
        cores = os.cpu_count() or 1
        return max(100 * other_seconds / (monotonic() - self._started_at) / cores, 0.0)

    def _get_own_seconds(self) -> float:
        ours = {one.pid for one in [*list_tree(os.getpid()), *self._processes()]}
        return sum(map(get_cpu_seconds, ours))


def get_memory_mib(pid: int) -> float:
    """Return the proportional memory (PSS) in MiB: shared memory is divided among its processes."""
    return _read_mib(pid, "smaps_rollup", "Pss:")


def get_resident_mib(pid: int) -> float:
    """Return the resident memory (RSS) in MiB: memory that processes share counts in each of them."""
    return _read_mib(pid, "status", "VmRSS:")


def _read_mib(pid: int, file: str, label: str) -> float:
    """Return a value of a file of /proc in MiB; 0 if the process has ended."""
    try:
        rows = (PROC / str(pid) / file).read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(row.split()[1]) / 1024 for row in rows if row.startswith(label)), 0.0)


class Meter:
    """CPU and peak memory of a set of processes between start() and stop().

    A process that ends in between counts with its last reading.
    """

    def __init__(self, processes: Callable[[], list[Process]]) -> None:
        self._processes = processes
        self._stopping = threading.Event()
        self._before: dict[int, float] = {}
        self._used: dict[int, float] = {}
        self._kinds: dict[int, str] = {}
        self._thread = threading.Thread(target=self._sample_loop, name="meter", daemon=True)
        self.cpu_s = 0.0
        self.peak_mib = 0.0
        self.cpu_s_by_kind: dict[str, float] = {}
        # The peak of each kind. The peaks may be at different times.
        self.peak_mib_by_kind: dict[str, float] = {}

    def start(self) -> "Meter":
        self._before = {one.pid: get_cpu_seconds(one.pid) for one in self._processes()}
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._sample()
        for pid, used in self._used.items():
            kind, used_here = self._kinds[pid], used - self._before.get(pid, 0.0)
            self.cpu_s_by_kind[kind] = self.cpu_s_by_kind.get(kind, 0.0) + used_here
        self.cpu_s = sum(self.cpu_s_by_kind.values())

    def _sample_loop(self) -> None:
        while not self._stopping.wait(1.0):
            self._sample()

    def _sample(self) -> None:
        mib: dict[str, float] = {}
        for one in self._processes():
            kind = self._kinds.setdefault(one.pid, one.kind)
            self._used[one.pid] = max(get_cpu_seconds(one.pid), self._used.get(one.pid, 0.0))
            mib[kind] = mib.get(kind, 0.0) + get_memory_mib(one.pid)
        self.peak_mib = max(self.peak_mib, sum(mib.values()))
        for kind, used in mib.items():
            self.peak_mib_by_kind[kind] = max(used, self.peak_mib_by_kind.get(kind, 0.0))
