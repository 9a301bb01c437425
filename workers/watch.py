"""Looks into the database every few seconds, so that a bell that was lost costs no more than that.

The road, the timers, maintenance and heartbeats are looked at in turn, then every channel in a thread of its
own: a mail relay that hangs must not keep the next alert waiting.
"""

import threading
from collections.abc import Callable

import structlog

from models.base import STORE_ERRORS
from models.enums import DELIVERABLE
from workers import bell, deliver, heartbeats, maintenance, road, routing, timers

log = structlog.get_logger()

# Design, section 6: every 5 s while bells are heard; sooner while they are not, so that a page goes
# out within 10 s.
PASS_S = 5.0
PASS_WITHOUT_REDIS_S = 2.0


class Watch:
    """One per worker process."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._wanted = {int(channel): threading.Event() for channel in sorted(DELIVERABLE)}
        self._threads = [threading.Thread(target=self._passes, name="watch", daemon=True)]
        for channel in self._wanted:
            self._threads.append(
                threading.Thread(target=self._deliveries, args=(channel,), name="watch channel", daemon=True)
            )

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Begin no further look."""
        self._stopping.set()
        for wanted in self._wanted.values():
            wanted.set()

    def join(self) -> None:
        """Wait for the looks that are going on."""
        for thread in self._threads:
            thread.join()

    def _passes(self) -> None:
        while not self._stopping.wait(PASS_S if bell.line.up else PASS_WITHOUT_REDIS_S):
            attempt("routers", routing.sweep)
            attempt("road", road.sweep)
            attempt("timers", timers.run_due)
            attempt("maintenance", maintenance.release)
            attempt("heartbeats", heartbeats.raise_missing)
            for wanted in self._wanted.values():
                wanted.set()

    def _deliveries(self, channel: int) -> None:
        wanted = self._wanted[channel]
        while not self._stopping.is_set():
            wanted.wait()
            wanted.clear()
            if not self._stopping.is_set():
                attempt("deliver", lambda: deliver.drain(channel))


def attempt(what: str, look: Callable[[], object]) -> None:
    """Look, whatever comes of it: the next pass looks again."""
    try:
        look()
    except STORE_ERRORS as error:
        log.warning("the database cannot be used", look=what, error=type(error).__name__)
    except Exception:
        log.exception("a look into the database failed", look=what)
