"""Take the next step of an escalation policy early when nobody of the present step can be notified."""

from datetime import datetime

import structlog

from models.domain.effects import Author
from models.domain.enums import AuthorKind, MessageStatus, NotificationKind, NotificationStatus
from models.tables.notifications import Message, Notification, get_reason_key
from models.write.change_incident import Enqueue, change_incident
from pipeline.incidents.escalation_run import take_step_early
from schedules.escalation.person_notifications import build_key_prefix

log = structlog.get_logger()


def take_steps_early(message: int, now: datetime, enqueue: Enqueue) -> None:
    """Take the next step for the incidents of a message that could not be sent, and enqueue its messages.

    Without transaction: it locks incidents before notifications.
    """
    failed = Notification.select(Notification.incident, Notification.key).where(
        Notification.message == message,
        Notification.kind == NotificationKind.ESCALATION,
        Notification.state.in_([NotificationStatus.FAILED, NotificationStatus.PENDING]),
    )
    for incident, key in sorted(set(failed.tuples())):
        run, step = get_reason_key(key).split(":")
        if not _is_anybody_notified(incident, key):
            _take_step(incident, int(run), int(step), now, enqueue)


def _is_anybody_notified(incident: int, key: str) -> bool:
    """Return whether a notification of the same step was sent, or may be sent soon."""
    prefix = build_key_prefix(key.split(":")[0], NotificationKind.ESCALATION, get_reason_key(key))
    is_hopeful = Message.failed_over_at.is_null() & (Message.state == MessageStatus.PENDING)
    may_be_sent = (Notification.state == NotificationStatus.PENDING) & is_hopeful
    found = (
        Notification.select(Notification.id)
        .join(Message)
        .where(
            Notification.incident == incident,
            Notification.key.startswith(prefix),
            (Notification.state == NotificationStatus.SENT) | may_be_sent,
        )
    )
    return bool(found.exists())


def _take_step(incident: int, run: int, step: int, now: datetime, enqueue: Enqueue) -> None:
    author = Author(AuthorKind.TIMER, "delivery")
    taken = change_incident(
        incident, author, lambda context: take_step_early(context, run, step) or None, now, enqueue
    )
    if taken is not None:
        log.info("escalation step taken early", incident=taken.unique_id, step=step)
