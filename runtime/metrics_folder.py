"""TOCSIN_HOME/metrics: the files in which the processes of one host count, written by prometheus_client.

Each process writes two files of its own, and holds a lock on each until it ends or is killed. The files
of dead processes are merged into one file of each type, so no counter falls when a process is restarted.
After a restart of the host the counters begin at 0, since the disk may have older values than were shown.

prometheus_client chooses where it counts when it is imported: call `join` before that.
"""

import fcntl
import os
import struct
import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

from runtime.late_logs import LateLogger

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

log = LateLogger()

# The environment variable from which prometheus_client takes the folder.
VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
# The types in the table of metrics (runtime/metrics.py). There are no gauges in files.
TYPES = ("counter", "histogram")
# Three times what all series need. All bytes are written at the start: a full disk is then an error that can
# be handled. Later, a write to the mapped file would end the process (SIGBUS).
FILE_BYTES = 1 << 17
# Changes with each start of the host.
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

# The files of this process; they stay open, and so locked.
_own_files: list[BinaryIO] = []


def join(home: Path) -> None:
    """Let this process count in the folder. If it cannot write there, it counts in memory, and logs that."""
    folder = home / "metrics"
    os.environ[VARIABLE] = str(folder)
    from prometheus_client import values

    name = uuid.uuid4().hex
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(exist_ok=True, mode=0o700)
        # Do not wait for the lock: the process that holds it merges the files.
        with suppress(BlockingIOError), _lock(folder, fcntl.LOCK_NB) as lock:
            _tidy_up(folder, lock)
        _own_files.extend([_create_own_file(folder / f"{each}_{name}.db") for each in TYPES])
        # Not by the process ID: in containers, several processes of a folder can have the same one.
        values.ValueClass = values.MultiProcessValue(lambda: name)
    except OSError as error:
        log.error("the metrics of this process are not shown", error=str(error))
        del os.environ[VARIABLE]
        values.ValueClass = values.MutexValue


def collect() -> "list[Metric]":
    """Return the sums over all processes of this host, dead ones included. Empty without `join`."""
    if VARIABLE not in os.environ:
        return []
    from prometheus_client.multiprocess import MultiProcessCollector

    folder = Path(os.environ[VARIABLE])
    with _lock(folder) as lock:
        _tidy_up(folder, lock)
        # An empty file is one whose process is just starting.
        return list(
            MultiProcessCollector.merge([path for path in folder.glob("*.db") if path.stat().st_size])
        )


@contextmanager
def _lock(folder: Path, flags: int = 0) -> Iterator[TextIO]:
    """Hold the lock of the folder, and yield its file."""
    with (folder / "lock").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | flags)
        yield file


def _create_own_file(path: Path) -> BinaryIO:
    """Create a file and lock it. Retry if another process has merged and removed the file in between."""
    while True:
        file = path.open("a+b")
        fcntl.flock(file, fcntl.LOCK_EX)
        if path.exists():
            break
        file.close()
    file.write(bytes(FILE_BYTES))
    file.flush()
    return file


def _tidy_up(folder: Path, lock: TextIO) -> None:
    """Merge the files of dead processes, or remove them if the host was restarted. Needs the lock."""
    boot = BOOT_ID.read_text() if BOOT_ID.exists() else "unknown"
    lock.seek(0)
    is_new_boot = lock.read() != boot
    try:
        for draft in folder.glob("*.draft"):
            _finish_merge(draft)
        for path in folder.glob("*.db"):
            with path.open("r+b") as file, suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if is_new_boot:
                    path.unlink()
                elif path != _get_merged(path):
                    _merge(path)
    except OSError as error:
        # The files are shown unmerged, and merged later.
        log.warning("the metrics of ended processes cannot be merged", error=str(error))
        return
    if is_new_boot:
        lock.truncate(0)
        lock.write(boot)


def _get_merged(path: Path) -> Path:
    """Return the file for the dead processes of this type."""
    return path.with_name(f"{path.name.partition('_')[0]}_merged.db")


def _merge(dead: Path) -> None:
    """Add the counts of a dead process to the merged file.

    The draft has the sums of both files. The deletion of the dead process's file makes it valid. If the merge
    is interrupted before that, the next process deletes the draft; if after it, the next process uses the
    draft.
    """
    from prometheus_client.mmap_dict import MmapedDict

    totals: defaultdict[str, float] = defaultdict(float)
    for path in (_get_merged(dead), dead):
        for key, value in _read(path):
            totals[key] += value
    draft = dead.with_suffix(".draft")
    draft.write_bytes(bytes(FILE_BYTES))
    merged = MmapedDict(draft)
    for key, value in totals.items():
        merged.write_value(key, value, 0.0)
    merged.close()
    dead.unlink()
    _finish_merge(draft)


def _finish_merge(draft: Path) -> None:
    """Use a valid draft as the merged file. Delete a draft whose dead process still has its file."""
    if draft.with_suffix(".db").exists():
        draft.unlink()
    else:
        draft.rename(_get_merged(draft))


def _read(path: Path) -> list[tuple[str, float]]:
    from prometheus_client.mmap_dict import MmapedDict

    if not path.exists() or not path.stat().st_size:
        return []
    try:
        return [(key, value) for key, value, *_ in MmapedDict.read_all_values_from_file(path)]
    except (RuntimeError, ValueError, struct.error) as error:
        log.warning("a damaged file of metrics is dropped", file=path.name, error=str(error))
        return []
