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

from models.apply import Overtaken
from models.base import db

# More in a row are no coincidence: then something is wrong with the alert itself.
TRIES = 5

T = TypeVar("T")


def within(work: Callable[[], T]) -> T:
    """The result of work in a transaction within the caller's, which is undone when it fails."""
    for _ in range(TRIES - 1):
        try:
            with db.atomic():
                return work()
        except peewee.IntegrityError:
            continue
    with db.atomic():
        return work()


class Unlocked(Exception):
    """Incidents of these services too are to be moved, which are not locked."""

    def __init__(self, services: Collection[int]) -> None:
        super().__init__(f"services {sorted(services)} are not locked")
        self.services = frozenset(services)


# What ends a transaction so that the work is done in another one, whatever else it would be taken for.
ANOTHER_TRANSACTION = (Unlocked, Overtaken)


def with_locks(work: Callable[[frozenset[int]], T]) -> T:
    """The result of work, a transaction that begins with locking these services beside its own."""
    beside: frozenset[int] = frozenset()
    while True:
        try:
            return work(beside)
        except Unlocked as found:
            beside |= found.services
        except Overtaken:
            # Whoever was faster is done, so that somebody gets on each time.
            continue
