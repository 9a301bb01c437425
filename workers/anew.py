"""Work that is done anew when what it refers to was deleted while it was decided.

A lane knows the configuration as it was when it looked; whoever deletes a tag, a policy or an integration
waits for no lane. The store then refuses the reference, once that deletion is committed, and whoever looks
again finds another version of the configuration.
"""

from collections.abc import Callable
from typing import TypeVar

import peewee

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
