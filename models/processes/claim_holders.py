"""Which process claimed a message, and whether it is known to be dead.

Each process holds a number in the store: a locked file on SQLite, a lock of a session on PostgreSQL. The
system or the server ends the lock with the process, also after a kill, and not while the process is frozen.
"""

import secrets
from collections.abc import Collection

from models.domain.enums import MessageStatus
from models.store import bulk
from models.store.store import Hold, store
from models.tables.callbacks import ClaimHolder
from models.tables.notifications import Message, MessageUpdate
from models.tables.outbound import OutboundTarget

_MAX_NUMBER = 2**31 - 1


class OwnHold:
    """The number of this process: a new one each time when the store has lost the hold."""

    def __init__(self) -> None:
        self._number: int | None = None
        self._hold: Hold | None = None

    @property
    def number(self) -> int | None:
        """The number, for claims; None: no process could see now that this one is dead."""
        return self._number if self._hold is not None else None

    def keep(self) -> None:
        """Hold the number if it is not held. Raise an error of STORE_ERRORS. Needs a connection."""
        if self._hold is not None and self._hold.is_kept():
            return
        self._hold = None
        number = self._number or secrets.randbelow(_MAX_NUMBER) + 1
        hold = store().hold(number)
        with store().write_transaction():
            bulk.insert(ClaimHolder, [{"number": number}], conflict=["number"])
        self._number, self._hold = number, hold

    def release(self) -> None:
        """End the hold. What this process has claimed and not recorded is free for others."""
        if self._hold is not None:
            self._hold.release()
            self._hold = None


def list_missing(own: int | None) -> list[int]:
    """Return the numbers of other processes that nobody holds now."""
    numbers = [number for (number,) in ClaimHolder.select(ClaimHolder.number).tuples() if number != own]
    return [number for number in numbers if not store().is_held(number)]


def end_claims(dead: Collection[int]) -> int:
    """End the claims of dead processes, and return how many. Then forget these processes.

    In a transaction for each kind of claim, so that no lock of one waits for those of another.
    """
    ended = 0
    for end in (_end_claims_of_changes, _end_claims_of_targets, _end_claims_of_messages):
        with store().write_transaction():
            ended += end(dead)
    with store().write_transaction():
        ClaimHolder.delete().where(ClaimHolder.number.in_(list(dead))).execute()
    return ended


def _end_claims_of_changes(dead: Collection[int]) -> int:
    now = store().now()
    is_claimed = MessageUpdate.claimed_by.in_(list(dead)) & (MessageUpdate.due_at > now)
    return int(MessageUpdate.update(due_at=now, claimed_by=None).where(is_claimed).execute())


def _end_claims_of_targets(dead: Collection[int]) -> int:
    is_claimed = OutboundTarget.claimed_by.in_(list(dead))
    return int(OutboundTarget.update(claimed_until=None, claimed_by=None).where(is_claimed).execute())


def _end_claims_of_messages(dead: Collection[int]) -> int:
    is_claimed = (Message.state == MessageStatus.PENDING) & Message.claimed_by.in_(list(dead))
    rows = store().for_update(Message.select(Message.id).where(is_claimed).order_by(Message.id))
    ended = [row.id for row in rows]
    of_dead = Message.id.in_(ended)
    # A message whose attempt was recorded is free already. A past claim of another one says that it may have
    # been sent.
    unrecorded = of_dead & Message.claimed_until.is_null(False)
    Message.update(claimed_until=Message.created_at).where(unrecorded).execute()
    Message.update(claimed_by=None).where(of_dead).execute()
    return len(ended)
