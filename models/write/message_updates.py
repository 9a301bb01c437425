"""Mark the sent messages that must be changed, because the status of their incidents changed.

The messages are marked in the transaction of the change. workers/delivery/changes.py sends the changes.
"""

from collections.abc import Collection, Container, Iterable, Mapping

from models.domain.channels import CHANGING_CHANNELS
from models.domain.effects import RecordLog
from models.domain.enums import MessageStatus, NotificationKind
from models.store import bulk
from models.store.prepared import Prepared, in_bound
from models.tables.notifications import Message, MessageUpdate, Notification

# The entries of an incident's log after which its messages say something else.
CHANGES = frozenset(("acknowledged", "resolved", "triggered"))

# The channels that are configured. Without one, a change of an incident needs no statement here.
_channels = CHANGING_CHANNELS


def configure(channels: Collection[int]) -> None:
    """Mark only messages of these channels, out of CHANGING_CHANNELS; once, when a process starts."""
    global _channels
    _channels = CHANGING_CHANNELS & frozenset(channels)


def mark_messages(
    logs: Iterable[RecordLog], incident_rows: Mapping[str, int], new: Container[int | None] = ()
) -> set[int]:
    """Mark the messages about incidents whose status changed. Return the channels that have changes to send.

    Messages that are not sent yet are marked too, because a worker may be sending the old state now; those
    of this transaction (`new`) are not.
    """
    changes = [log for log in logs if log.what in CHANGES] if _channels else []
    if not changes:
        return set()
    incidents = {incident_rows[log.incident] for log in changes}
    rows = _MESSAGES.rows(incidents=sorted(incidents), channels=sorted(_channels))
    found = {row: channel for row, channel in rows if row not in new}
    if not found:
        return set()
    due_at = max(log.at for log in changes)
    records = [
        {"message_row": row, "channel": channel, "version": 1, "due_at": due_at, "attempts": 0}
        for row, channel in sorted(found.items())
    ]
    replaced = ["due_at", "attempts"]
    bulk.insert(MessageUpdate, records, conflict=["message_row"], replacing=replaced, adding=["version"])
    return set(found.values())


_MESSAGES = Prepared(
    lambda: (
        Message.select(Message.id, Message.channel)
        .join(Notification)
        .where(
            in_bound(Notification.incident, "incidents"),
            in_bound(Message.channel, "channels"),
            Message.state.in_((int(MessageStatus.PENDING), int(MessageStatus.SENT))),
            # It says that the incident was resolved at that time, which stays true.
            Notification.kind != NotificationKind.RECOVERY,
        )
    )
)
