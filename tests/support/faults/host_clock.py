"""The clock of the host for one installation, set forward or back while its processes run.

libfaketime stands between the processes (including the embedded Redis server) and the C library. It reads the
offset at each access to the clock. Only wall clocks change; monotonic clocks continue, as with a real clock.
PostgreSQL's server is not one of these processes, and uses its own clock.

libfaketime 0.9 fails where Python sleeps until a moment (`time.sleep`, EINVAL). Tocsin does this in the
pauses between common batches of lanes, where the error costs a wake-up, and at the end of `tocsin up`: an
installation with such a clock must be killed, not stopped.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

SHARED = Path("/dev/shm")
LIBRARIES = ("lib", "lib64", "local/lib")
STEADY = timedelta(0)


def find_library() -> Path | None:
    """Return the path of libfaketime, None if it is not installed."""
    found = (Path("/usr", folder).glob("**/faketime/libfaketimeMT.so.1") for folder in LIBRARIES)
    return next((path for each in found for path in each), None)


def is_seen_by(environment: Mapping[str, str]) -> bool:
    """Return whether processes with these variables use such a clock."""
    return "FAKETIME_TIMESTAMP_FILE" in environment


def remove_shared(pids: Iterable[int]) -> None:
    """Remove the shared memory of killed processes with such a clock."""
    for pid in pids:
        for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
            (SHARED / name).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Span:
    """The true time between two clock steps, in which the clock is `off` by an offset."""

    begins: datetime
    ends: datetime
    off: timedelta

    def get_gap(self, shown: datetime) -> timedelta:
        """Return how far a shown time is outside this span."""
        return max(self.begins + self.off - shown, shown - self.ends - self.off, STEADY)


class HostClock:
    """A clock that is right until it is set."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "host-clock"
        self._steps = [(datetime.min.replace(tzinfo=UTC) + timedelta(days=1), STEADY)]
        self._write_offset()

    def environment(self, preloaded: Path) -> dict[str, str]:
        """Return variables for processes that use this clock."""
        return {
            "LD_PRELOAD": str(preloaded),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # Otherwise the offset also changes waits on the monotonic clock, such as those between threads.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
            "NO_FAKE_STAT": "1",
        }

    @property
    def off(self) -> timedelta:
        return self._steps[-1][1]

    def step(self, by: timedelta) -> None:
        self._steps.append((datetime.now(UTC), self.off + by))
        self._write_offset()

    def _write_offset(self) -> None:
        """Write the offset atomically, because it may be read at any time."""
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{self.off.total_seconds():+.0f}")
        draft.replace(self._file)

    def get_first_moment(self, shown: datetime) -> datetime:
        """Return the true time at which this clock first showed a time."""
        return next(
            max(span.begins, shown - span.off) for span in self._list_spans() if shown < span.ends + span.off
        )

    def get_moment(self, shown: datetime) -> datetime:
        """Return the true time at which this clock showed a recorded time."""
        return shown - self._find_span(shown).off

    def get_last_step_before(self, shown: datetime) -> datetime:
        """Return the true time of the last step before it showed a time."""
        return self._find_span(shown).begins

    def _find_span(self, shown: datetime) -> Span:
        # A time that was read during a step may be slightly outside both spans.
        return min(self._list_spans(), key=lambda each: each.get_gap(shown))

    def _list_spans(self) -> Iterator[Span]:
        far = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)
        for (begins, off), (ends, _) in pairwise([*self._steps, (far, STEADY)]):
            yield Span(begins, ends, off)
