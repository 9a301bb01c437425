"""Run a transaction again when the facts that it was decided from have changed.

A worker decides with the configuration that it loaded. A request that deletes a tag, a policy or an
integration does not wait for lanes. After that deletion is committed, the database refuses the reference, and
the next attempt loads the new version of the configuration.

All workers lock services in the same order, so that two of them never wait for each other. When a worker
finds out that a decision changes incidents of other services, it rolls back, locks those services too and
starts again. It also starts again when another worker advanced the same round robin first.
"""

from collections.abc import Callable, Collection
from typing import TypeVar

import peewee

from models.store.store import db
from models.write.apply import Conflict

# After this many IntegrityErrors in a row, the cause is the alert itself.
MAX_ATTEMPTS = 5

T = TypeVar("T")


def run_in_savepoint(work: Callable[[], T]) -> T:
    """Run `work` in a savepoint of the caller's transaction. Repeat it after an IntegrityError.

    Raise the error of attempt number MAX_ATTEMPTS.
    """
    for _ in range(MAX_ATTEMPTS - 1):
        try:
            with db.atomic():
                return work()
        except peewee.IntegrityError:
            continue
    with db.atomic():
        return work()


class LocksMissing(Exception):
    """The work changes incidents of `services`, which are not locked."""

    def __init__(self, services: Collection[int]) -> None:
        super().__init__(f"services {sorted(services)} are not locked")
        self.services = frozenset(services)


# Errors that end a transaction so that the work runs again in a new one. They are not failures of an alert.
RETRY_ERRORS = (LocksMissing, Conflict)


def run_with_locks(work: Callable[[frozenset[int]], T]) -> T:
    """Run a transaction until it has all locks. `work` gets the row numbers of extra services to lock."""
    extra_locks: frozenset[int] = frozenset()
    while True:
        try:
            return work(extra_locks)
        except LocksMissing as error:
            extra_locks |= error.services
        except Conflict:
            # The other worker has committed, so there is progress in each round.
            continue
