"""Look for pending work in the database every few seconds, so that a lost wake-up delays work only that long.

One thread polls the pipeline, timers, maintenance and heartbeats in turn. The channels have threads of their
own (workers/delivery/threads.py): a provider that hangs must not delay the next alert.
"""

import threading
import time

from runtime.redis import redis_status
from workers.alerts import lane_actors, process_lane, process_router
from workers.delivery import deliver
from workers.delivery.dead_workers import DeadWorkers
from workers.delivery.transport.channel import DEADLINE_S
from workers.pause import pause_check
from workers.periodic import expired_entities, missing_heartbeats, release_maintenance
from workers.run_safely import run_safely
from workers.timers import fire

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
        self._dead_workers = DeadWorkers(_send_again)
        self._thread = threading.Thread(target=self._poll, name="poller", daemon=True)

    def start(self) -> None:
        deliver.threads.start()
        self._dead_workers.start()
        self._thread.start()

    def stop(self) -> None:
        """Start no further pass, and send no further message."""
        self._stopping.set()
        deliver.threads.stop()

    def join(self) -> None:
        """Wait until the running pass ends, and until the messages in flight are sent."""
        self._thread.join()
        deliver.threads.join(DEADLINE_S)
        self._dead_workers.stop()

    def _poll(self) -> None:
        while self._pause():
            # The state of a restored copy may change while this process runs.
            pause_check.forget()
            run_safely("routers", process_router.process_pending_routers)
            run_safely("pipeline", _process_lanes)
            run_safely("timers", fire.fire_due)
            run_safely("maintenance", release_maintenance.release_deferred)
            run_safely("heartbeats", missing_heartbeats.report_missing)
            run_safely("expired entities", expired_entities.report_expired)
            run_safely("late messages", deliver.fail_over_late)
            run_safely("delivery", deliver.hand_over_due)

    def _pause(self) -> bool:
        """Wait until the next pass is due. Return False when the poller stops."""
        began_at = time.monotonic()
        while not self._stopping.wait(min(CHECK_S, INTERVAL_S)):
            interval_s = INTERVAL_S if redis_status.up else INTERVAL_WITHOUT_REDIS_S
            if time.monotonic() - began_at >= interval_s:
                return True
        return False


def _send_again() -> None:
    """Send what a dead worker had claimed."""
    deliver.hand_over_due()
    for wake_up in deliver.WAKE_UPS.values():
        wake_up()


def _process_lanes() -> None:
    """Process the lanes with pending alerts, except those that this process already works on.

    In a storm, these always have pending alerts. A second thread would only take small batches from them, and
    would not come to the other work of the poller.
    """
    process_lane.process_pending_lanes(lane_actors.is_covered)
