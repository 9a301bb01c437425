"""Look for pending work in the database every few seconds, so that a lost wake-up delays work only that long.

One thread polls the pipeline, timers, maintenance and heartbeats in turn. Each channel has a separate
thread: a mail relay that hangs must not delay the next alert.
"""

import threading
import time
from collections.abc import Callable

import structlog

from models.domain.channels import DELIVERY_CHANNELS, get_channel_name
from models.store.base import STORE_ERRORS, connection
from runtime.redis import redis_status
from workers.alerts import process_lane, process_router
from workers.delivery import deliver
from workers.pause import pause_check
from workers.periodic import missing_heartbeats, release_maintenance
from workers.timers import fire

log = structlog.get_logger()

# Design, section 6: every 5 s while Redis delivers wake-ups; more often while it does not, so that people are
# paged within 10 s.
INTERVAL_S = 5.0
INTERVAL_WITHOUT_REDIS_S = 2.0
# Redis can fail during the pause between two passes.
CHECK_S = 0.5


class Poller:
    """The poller of a worker process; there is one per process."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._requested = {channel: threading.Event() for channel in DELIVERY_CHANNELS}
        self._threads = [threading.Thread(target=self._poll, name="poller", daemon=True)]
        for channel in self._requested:
            self._threads.append(
                threading.Thread(
                    target=self._poll_channel, args=(channel,), name="poller channel", daemon=True
                )
            )

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Start no further pass."""
        self._stopping.set()
        for requested in self._requested.values():
            requested.set()

    def join(self) -> None:
        """Wait until the running passes end."""
        for thread in self._threads:
            thread.join()

    def _poll(self) -> None:
        while self._pause():
            # The state of a restored copy may change while this process runs.
            pause_check.forget()
            run_safely("routers", process_router.process_pending_routers)
            run_safely("pipeline", process_lane.process_pending_lanes)
            run_safely("timers", fire.fire_due)
            run_safely("maintenance", release_maintenance.release_deferred)
            run_safely("heartbeats", missing_heartbeats.report_missing)
            for requested in self._requested.values():
                requested.set()

    def _pause(self) -> bool:
        """Wait until the next pass is due. Return False when the poller stops."""
        began_at = time.monotonic()
        while not self._stopping.wait(min(CHECK_S, INTERVAL_S)):
            interval_s = INTERVAL_S if redis_status.up else INTERVAL_WITHOUT_REDIS_S
            if time.monotonic() - began_at >= interval_s:
                return True
        return False

    def _poll_channel(self, channel: int) -> None:
        requested = self._requested[channel]
        while not self._stopping.is_set():
            requested.wait()
            requested.clear()
            if not self._stopping.is_set():
                run_safely(f"deliver.{get_channel_name(channel)}", lambda: deliver.send_due(channel))


def run_safely(name: str, job: Callable[[], object]) -> None:
    """Run a job with its own connection, and log its errors: the next pass runs the job again.

    Do nothing while this installation is paused.
    """
    try:
        with connection():
            if not pause_check.is_paused():
                job()
    except STORE_ERRORS as error:
        pause_check.forget()
        log.warning("the database cannot be used", job=name, error=type(error).__name__)
    except Exception:
        log.exception("poller job failed", job=name)
