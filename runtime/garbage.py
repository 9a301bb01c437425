"""The garbage collector and the memory of long-lived processes."""

import ctypes
import gc
import os
from pathlib import Path

# See collect_rarely().
_RARE = (50_000, 5, 20)


def freeze_loaded() -> None:
    """Exclude all present objects from garbage collection; once, when a process has loaded its code.

    They live as long as the process. Without this, each full collection walks through all of them: in a storm
    of new incidents, this was 15 % of the CPU time of a worker.
    """
    gc.collect()
    gc.freeze()


def collect_rarely() -> None:
    """Look for garbage in cycles less often, in a process that works in batches.

    A batch of alerts creates some ten thousand objects, which nearly all live until its end. With the usual
    first threshold of 700, the collector looked at them again and again and found nothing: this was 6 % of
    the CPU time of a worker in a storm of new incidents. Not for a web process: cycles of requests with large
    bodies would live too long. With a threshold of 5,000, its memory grew to 1.1 GB in the siege.
    """
    gc.set_threshold(*_RARE)


# Blocks of at least this size are mappings of their own, which end when they are freed. Each arena of the
# allocator (up to eight for each core) keeps at most this much at its end.
KEPT_BYTES = 1024 * 1024
# Numbers of mallopt(3).
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_few_blocks() -> None:
    """Let the allocator of the system keep little of what is freed; in a process that gets large bodies.

    By itself it raises both limits with the largest block that was freed: after a body of 8 MB, each arena
    kept up to 56 MB, which _trim() does not reach. Of an attack with large bodies, a web process kept 200 MB.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, KEPT_BYTES)
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)


# A process that has grown by less keeps the memory: it will probably need it again.
MIN_SURPLUS_BYTES = 48 * 1024 * 1024
# Giving back takes some milliseconds, in which no thread can allocate memory. While it brings little, as in a
# process that needs its memory, the time until the next try doubles.
EVERY_S, MAX_EVERY_S = 10.0, 160.0
MIN_GAIN_BYTES = 8 * 1024 * 1024


class Surplus:
    """The memory that a process has got for large bodies and does not need any more.

    The allocator of the system keeps what is freed between blocks that are in use. After an attack with large
    bodies, web processes kept up to 500 MB.
    """

    def __init__(self) -> None:
        self._rest = 0
        self._next_s, self._every_s = 0.0, EVERY_S

    def give_back(self, now_s: float) -> bool:
        """Give memory back if the process has grown since it was smallest; return whether it tried.

        `now_s` is a monotonic time.
        """
        if now_s < self._next_s:
            return False
        size = measure_memory()
        self._rest = min(self._rest or size, size)
        if size - self._rest < MIN_SURPLUS_BYTES:
            return False
        gc.collect()
        _trim()
        gain = size - measure_memory()
        self._every_s = EVERY_S if gain >= MIN_GAIN_BYTES else min(2 * self._every_s, MAX_EVERY_S)
        self._next_s = now_s + self._every_s
        return True


def measure_memory() -> int:
    """Return the memory that this process occupies, in bytes; 0 if the system does not say it."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _trim() -> None:
    # Only the C library of GNU has this function.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
