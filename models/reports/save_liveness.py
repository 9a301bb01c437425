"""Write the sign of life of this process to the store, in a separate thread."""

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from models.reports import backlog
from models.reports.backlog import ProcessLiveness
from models.store.limits import Use
from models.store.store import STORE_ERRORS, connection, store
from runtime.late_logs import LateLogger
from runtime.metrics import store_clock

log = LateLogger()

# A third of DEAD_AFTER (models/reports/backlog.py).
LIVENESS_EVERY_S = 15.0
# The pause after an error of the store.
RETRY_S = 5.0
# How long a process that ends waits until its row is deleted.
STOP_TIMEOUT_S = 2.0


class LivenessKeeper:
    """Write the sign of life of one process until stop() is called."""

    def __init__(self, kind: str, settings: Mapping[str, object]) -> None:
        """`settings` are shown by `tocsin check`: they have no values of secrets."""
        self._kind = kind
        self._settings = settings
        self._row = f"{kind}:{uuid.uuid4().hex[:16]}"
        self._liveness: ProcessLiveness | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="liveness", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Delete the row. Do not wait for a store that does not answer."""
        self._stopping.set()
        self._thread.join(STOP_TIMEOUT_S)

    def _run(self) -> None:
        pause = 0.0
        while not self._stopping.wait(pause):
            pause = LIVENESS_EVERY_S if self._write_safely(self._record) else RETRY_S
        if (liveness := self._liveness) is not None:
            self._write_safely(lambda: backlog.remove_process(liveness))

    def _write_safely(self, write: Callable[[], None]) -> bool:
        """Write in a transaction and log errors. Return whether it was committed."""
        try:
            with connection(Use.RESERVED), store().write_transaction():
                write()
        except STORE_ERRORS as error:
            log.debug("liveness could not be written", row=self._row, error=type(error).__name__)
            return False
        except Exception:
            log.exception("liveness could not be written", row=self._row)
            return False
        return True

    def _record(self) -> None:
        now = store().now()
        store_clock.update(now)
        self._liveness = self._liveness or ProcessLiveness(
            self._kind, self._row, now, settings=self._settings
        )
        backlog.record_liveness(self._liveness, now)


@contextmanager
def keep_liveness(kind: str, settings: Mapping[str, object]) -> Iterator[None]:
    """Write the sign of life of this process until the block ends."""
    keeper = LivenessKeeper(kind, settings)
    keeper.start()
    try:
        yield
    finally:
        keeper.stop()
