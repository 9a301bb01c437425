"""Find workers that died, and let others send at once what they had claimed."""

import threading
from collections import Counter
from collections.abc import Callable

import structlog

from models.processes import claim_holders
from models.processes.claim_holders import OwnHold
from models.store.store import STORE_ERRORS, connection, store

log = structlog.get_logger()

# With the start of another worker by the supervisor, a claim ends within 5 s after the death of its process.
LOOK_EVERY_S = 1.5
# How often a process tries to hold its number again, more often than others look.
HOLD_EVERY_S = 0.5

# The hold of this process.
own = OwnHold()


class DeadWorkers:
    """The thread of a worker that looks for the dead. `on_ended` is called after claims were ended."""

    def __init__(self, on_ended: Callable[[], None]) -> None:
        self._on_ended = on_ended
        self._stopping = threading.Event()
        # How often in a row a number was found free.
        self._missing: Counter[int] = Counter()
        self._thread = threading.Thread(target=self._run, name="dead workers", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and the hold of this process: it has recorded what it sent, or hangs."""
        self._stopping.set()
        self._thread.join()
        own.release()

    def _run(self) -> None:
        looks, per_look = 0, round(LOOK_EVERY_S / HOLD_EVERY_S)
        while True:
            try:
                with connection():
                    own.keep()
                    if looks % per_look == 0:
                        self.look()
            except STORE_ERRORS as error:
                # After an outage, the others need time to hold their numbers again.
                self._missing.clear()
                log.debug("dead workers could not be found", error=type(error).__name__)
            except Exception:
                log.exception("dead workers could not be found")
            looks += 1
            if self._stopping.wait(HOLD_EVERY_S):
                return

    def look(self) -> None:
        """End the claims of the processes that are known to be dead now. Needs a connection."""
        missing = claim_holders.list_missing(own.number)
        self._missing = Counter({number: self._missing[number] + 1 for number in missing})
        dead = [number for number, looks in self._missing.items() if looks >= store().looks_until_dead]
        if not dead:
            return
        ended = claim_holders.end_claims(dead)
        if ended:
            log.warning("workers died while they sent messages, which are sent again", messages=ended)
            self._on_ended()
