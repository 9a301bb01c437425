"""Save what a process counts, and its sign of life, in a thread of its own."""

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from models.reports import backlog
from models.reports.backlog import ProcessLiveness
from models.store.base import STORE_ERRORS, connection, store
from runtime.metrics import Counters, Series, counters, store_clock

log = structlog.get_logger()

FLUSH_EVERY_S = 5.0
# A third of what counts as silence (models/reports/backlog.py).
LIVENESS_EVERY_S = 15.0
# What the end of a process may cost for what it has counted.
FINAL_FLUSH_S = 2.0


def save(source: Counters = counters) -> None:
    """Add what was counted since the last time to the store. Raise what the store raises; nothing is lost."""
    source.flush(_add)


def _add(increments: dict[Series, float]) -> None:
    with connection(), store().write_transaction():
        backlog.add(increments)


class MetricsKeeper:
    """Save the counts and the sign of life of this process every few seconds, until it ends."""

    def __init__(self, kind: str, source: Counters = counters) -> None:
        self._kind = kind
        self._row = f"{kind}:{uuid.uuid4().hex[:16]}"
        self._counts = source
        self._liveness: ProcessLiveness | None = None
        self._next_report_at = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        self._counts.add("tocsin_process_starts_total", kind=self._kind)
        self._thread.start()

    def stop(self) -> None:
        """Save for the last time. Do not wait for a store that does not answer."""
        self._stopping.set()
        self._thread.join(FINAL_FLUSH_S)

    def _run(self) -> None:
        while True:
            self._flush_safely()
            if self._stopping.is_set():
                return
            self._stopping.wait(FLUSH_EVERY_S)

    def _flush_safely(self) -> None:
        """Save and log errors: the next pass saves what this one did not."""
        try:
            save(self._counts)
            self._report_liveness()
        except STORE_ERRORS as error:
            log.debug("the counts are saved when the database is up again", error=type(error).__name__)
        except Exception:
            log.exception("the counts could not be saved")

    def _report_liveness(self) -> None:
        if self._stopping.is_set():
            if self._liveness is not None:
                with connection(), store().write_transaction():
                    backlog.remove_process(self._liveness)
            return
        if time.monotonic() < self._next_report_at:
            return
        with connection(), store().write_transaction():
            now = store().now()
            store_clock.update(now)
            self._liveness = self._liveness or ProcessLiveness(self._kind, self._row, now)
            backlog.record_liveness(self._liveness, now)
        self._next_report_at = time.monotonic() + LIVENESS_EVERY_S


@contextmanager
def keep_metrics(kind: str) -> Iterator[None]:
    """Save what this process counts, until the block ends."""
    keeper = MetricsKeeper(kind)
    keeper.start()
    try:
        yield
    finally:
        keeper.stop()
