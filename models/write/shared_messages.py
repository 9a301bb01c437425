"""Let the pieces of a receipt share their outgoing messages: one message per contact and step.

A message that later pieces may join is held: it is claimed, so that no worker sends it. It is sent after the
last piece, or HOLD after it was created. What comes later is in a second message, which each piece holds for
another HOLD. So a person gets at most two messages, unless no piece is done for that long.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import peewee

from models.domain.enums import MessageStatus
from models.store.prepared import Prepared, bind, in_bound, on_found_rows
from models.store.store import store
from models.tables.notifications import Message

# How long the first message of a contact waits for more pieces.
HOLD = timedelta(seconds=10)


# The columns of a message that no later piece can join.
NOT_HELD: dict[str, object] = {
    "pieces_of": None,
    "group_key": None,
    "held_until": None,
    "claimed_until": None,
    "is_extended": False,
}


def name_pieces(receipt: int, service: int) -> str:
    """Return the name of a receipt's alerts in a service, whose messages are shared (Message.pieces_of)."""
    return f"receipt {receipt} of service {service}"


@dataclass(frozen=True, slots=True)
class SharedMessages:
    """The stored messages of receipts in pieces.

    `open_rows` has the row of each message that can be joined, `known` all messages, each by `pieces_of` and
    `group_key`.
    """

    open_rows: dict[tuple[str, str], int]
    known: frozenset[tuple[str, str]]


def _is_open() -> peewee.Expression:
    """Return the condition that a message is held, and no worker has begun to send it."""
    held: peewee.Expression = Message.held_until.is_null(False)
    is_pending = on_found_rows(Message.state == MessageStatus.PENDING)
    return held & is_pending & (Message.claimed_until == Message.held_until)


_KNOWN = Prepared(
    lambda: Message.select(Message.pieces_of, Message.group_key).where(
        in_bound(Message.pieces_of, "names"), Message.group_key.is_null(False)
    )
)
# Only open messages are locked. A delivery locks its message before its notifications, a piece locks its
# notifications before messages. The two never wait for each other, because a delivery that waits holds no
# open message: to claim one is the last thing that it does in its transaction.
_OPEN = Prepared(
    lambda: store().for_update(
        Message.select(Message.id, Message.channel, Message.pieces_of, Message.group_key)
        .where(in_bound(Message.pieces_of, "names"), _is_open())
        .order_by(Message.id)
    )
)


def find_shared(names: Collection[str]) -> SharedMessages:
    """Return the messages of these receipts in pieces. Lock those that can be joined.

    A delivery skips locked messages.
    """
    if not names:
        return SharedMessages({}, frozenset())
    open_rows = {
        (pieces_of, group_key): row for row, _, pieces_of, group_key in _OPEN.rows(names=list(names))
    }
    return SharedMessages(open_rows, frozenset(_KNOWN.rows(names=list(names))))


def build_hold(shared: SharedMessages, key: tuple[str, str], now: datetime) -> dict[str, object]:
    """Return the columns of a new message that later pieces may join."""
    until = now + HOLD
    return {
        "pieces_of": key[0],
        "group_key": key[1],
        "held_until": until,
        "claimed_until": until,
        "is_extended": key in shared.known,
    }


_NAMES = Prepared(
    lambda: Message.select(Message.pieces_of).where(in_bound(Message.pieces_of, "names")).distinct()
)


def list_with_messages(names: Collection[str]) -> set[str]:
    """Return the names of receipts in pieces that have shared messages already."""
    return {name for (name,) in _NAMES.rows(names=list(names))} if names else set()


_EXTEND = Prepared(
    lambda: Message.update(held_until=bind("until"), claimed_until=bind("until")).where(
        in_bound(Message.pieces_of, "names"), Message.is_extended, _is_open()
    )
)
_RELEASE = Prepared(
    lambda: Message.update(held_until=None, claimed_until=None).where(in_bound(Message.id, "rows"))
)


def extend(names: Collection[str]) -> None:
    """Hold the second messages of these receipts longer, because more pieces follow."""
    if names:
        _EXTEND.run(names=list(names), until=store().now() + HOLD)


def release(names: Iterable[str]) -> frozenset[int]:
    """Let workers send the messages of these receipts: the last piece is done. Return their channels."""
    found = _OPEN.rows(names=list(names))
    if found:
        _RELEASE.run(rows=[row for row, *_ in found])
    return frozenset(channel for _, channel, *_ in found)
