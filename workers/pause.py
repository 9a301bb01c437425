"""Let a worker or clock process do nothing while the installation is paused (models/processes/pause.py)."""

import functools
from collections.abc import Callable

import structlog

from models.processes import pause
from models.store.store import connection

log = structlog.get_logger()


class PauseCheck:
    """Remembers that this installation runs, so that a wake-up costs no query.

    A pause begins only with a restore into an empty database. A process that was connected to an earlier
    database of the same name sees an error of the store before that, and then forgets.
    """

    def __init__(self) -> None:
        self._runs = False
        self._is_logged = False

    def is_paused(self) -> bool:
        """Return whether nothing may be processed now. Raises errors of the store."""
        # Another thread can call forget() meanwhile.
        runs = self._runs
        if not runs:
            with connection():
                runs = not pause.is_paused()
            self._runs = runs
            self._report(runs)
        return not runs

    def forget(self) -> None:
        """Read the state again before the next work."""
        self._runs = False

    def _report(self, runs: bool) -> None:
        if runs == self._is_logged:
            self._is_logged = not runs
            if self._is_logged:
                log.warning("this restored copy is paused: run `tocsin resume` to process and send")
            else:
                log.info("this restored copy was resumed")


pause_check = PauseCheck()


def unless_paused(job: Callable[[], object]) -> Callable[[], object]:
    """Return a periodic job that does nothing while the installation is paused."""

    @functools.wraps(job)
    def run() -> object:
        # Read each time: a clock process is not busy.
        pause_check.forget()
        return None if pause_check.is_paused() else job()

    return run
