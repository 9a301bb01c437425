"""Work that is done anew, because something that it depends on was found too late.

A lane knows the configuration as it was when it looked; whoever deletes a tag, a policy or an integration
waits for no lane. The store then refuses the reference, once that deletion is committed, and whoever looks
again finds another version of the configuration.

Services are locked in one order, so that nobody waits for somebody who waits for them. A lane that finds
out that it moves incidents of other services begins again, with all their locks; and so does one when another
lane was faster to take a turn of its policy.
"""

from collections.abc import Callable, Collection
from typing import TypeVar

import peewee

from models.store.base import db
from models.write.apply import Conflict

# More in a row are no coincidence: then something is wrong with the alert itself.
MAX_ATTEMPTS = 5

T = TypeVar("T")


def run_in_savepoint(work: Callable[[], T]) -> T:
    """The result of work in a transaction within the caller's, which is undone when it fails."""
    for _ in range(MAX_ATTEMPTS - 1):
        try:
            with db.atomic():
                return work()
        except peewee.IntegrityError:
            continue
    with db.atomic():
        return work()


class LocksMissing(Exception):
    """Incidents of these services too are to be moved, which are not locked."""

    def __init__(self, services: Collection[int]) -> None:
        super().__init__(f"services {sorted(services)} are not locked")
        self.services = frozenset(services)


# What ends a transaction so that the work is done in another one, whatever else it would be taken for.
RETRY_ERRORS = (LocksMissing, Conflict)


def run_with_locks(work: Callable[[frozenset[int]], T]) -> T:
    """The result of work, a transaction that begins with locking these services beside its own."""
    extra_locks: frozenset[int] = frozenset()
    while True:
        try:
            return work(extra_locks)
        except LocksMissing as error:
            extra_locks |= error.services
        except Conflict:
            # Whoever was faster is done, so that somebody gets on each time.
            continue
