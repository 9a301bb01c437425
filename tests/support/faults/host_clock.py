"""The clock of the host as one installation sees it: set forward or back while its processes run.

By libfaketime, which stands between the processes (the embedded Redis is one of them) and the C library, and
reads at every look at the clock how far off it is. Only wall clocks are: what counts seconds goes on, as when
a real clock is set. PostgreSQL's server is none of these processes, and keeps its own.

libfaketime 0.9 fails where Python sleeps until a moment (`time.sleep`, EINVAL). Nothing of Tocsin sleeps so
but the end of `tocsin up`: an installation with such a clock is to be killed, not stopped.
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
    """libfaketime, where it is installed."""
    found = (Path("/usr", folder).glob("**/faketime/libfaketimeMT.so.1") for folder in LIBRARIES)
    return next((path for each in found for path in each), None)


def is_seen_by(environment: Mapping[str, str]) -> bool:
    """Whether processes with these variables have such a clock."""
    return "FAKETIME_TIMESTAMP_FILE" in environment


def remove_shared(pids: Iterable[int]) -> None:
    """Take away what processes with such a clock leave behind when they are killed."""
    for pid in pids:
        for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
            (SHARED / name).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Span:
    """From one step to the next, by the true clock; then the host's is `off` by so much."""

    begins: datetime
    ends: datetime
    off: timedelta

    def get_gap(self, shown: datetime) -> timedelta:
        """By how much this was not shown within it."""
        return max(self.begins + self.off - shown, shown - self.ends - self.off, STEADY)


class HostClock:
    """Right, until it is stepped."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "host-clock"
        self._steps = [(datetime.min.replace(tzinfo=UTC) + timedelta(days=1), STEADY)]
        self._write_offset()

    def environment(self, preloaded: Path) -> dict[str, str]:
        """With these variables a process sees this clock."""
        return {
            "LD_PRELOAD": str(preloaded),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # Else it moves by the offset what waits by the monotonic clock: Python's threads for each other.
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
        """Whole in every moment, since it may be read in any."""
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{self.off.total_seconds():+.0f}")
        draft.replace(self._file)

    def get_first_moment(self, shown: datetime) -> datetime:
        """The true moment in which this clock showed so much for the first time."""
        return next(
            max(span.begins, shown - span.off) for span in self._list_spans() if shown < span.ends + span.off
        )

    def get_moment(self, shown: datetime) -> datetime:
        """The true moment in which this clock showed this, as somebody wrote down."""
        return shown - self._find_span(shown).off

    def get_last_step_before(self, shown: datetime) -> datetime:
        """The true moment of the last step before it showed this."""
        return self._find_span(shown).begins

    def _find_span(self, shown: datetime) -> Span:
        # Who looked in the moment of a step may miss both spans by a little.
        return min(self._list_spans(), key=lambda each: each.get_gap(shown))

    def _list_spans(self) -> Iterator[Span]:
        far = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)
        for (begins, off), (ends, _) in pairwise([*self._steps, (far, STEADY)]):
            yield Span(begins, ends, off)
