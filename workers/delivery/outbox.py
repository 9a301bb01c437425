"""Claim due messages and record the outcomes of delivery attempts, in short transactions."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

import peewee

from models.domain.enums import AttemptOutcome, MessageStatus, NotificationStatus
from models.domain.reasons import Reason, make_reason
from models.store import bulk
from models.store.base import store
from models.store.prepared import Prepared, bind, in_bound
from models.tables.notifications import Attempt, Message, Notification
from schedules.timers.retries import get_next_attempt
from workers.delivery.fallback import notify_user_email

# Longer than sending one message can take (DEADLINE_S in workers/delivery/transport/channel.py), so that no
# other worker sends the same message. A message whose worker was killed is sent again after this time.
CLAIM = timedelta(seconds=20)


class DeliveryOutcome(Enum):
    """The outcome of an attempt to deliver a claimed message."""

    SENT = "sent"
    REFUSED = "refused"  # permanently, for this contact
    TEMPORARY = "temporary failure"  # the relay answers and may accept the message later
    RELAY_DOWN = "relay down"  # the relay accepts no message at all
    NOT_CONFIGURED = "not configured"  # a setting is missing or not valid
    CANCELLED = "cancelled"  # no notification is left to send


# Outcomes that are recorded as attempts; with the others, no relay was used.
RECORDED_OUTCOMES = {
    DeliveryOutcome.SENT: AttemptOutcome.SENT,
    DeliveryOutcome.REFUSED: AttemptOutcome.REFUSED,
    DeliveryOutcome.TEMPORARY: AttemptOutcome.RETRY,
    DeliveryOutcome.RELAY_DOWN: AttemptOutcome.RETRY,
}


@dataclass(frozen=True, slots=True)
class Claimed:
    """A message that this worker may send until the claim expires."""

    row: int
    attempts: int = 0
    first_attempt_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """A delivery attempt with its outcome; `detail` describes it.

    `included` are the notifications in the message, `cancelled` the reasons by cancelled notification.
    """

    message: Claimed
    at: datetime
    outcome: DeliveryOutcome
    detail: Reason
    milliseconds: int = 0
    included: tuple[int, ...] = ()
    cancelled: Mapping[int, Reason] = field(default_factory=dict)


# Number of notifications by their new status.
NotificationCounts = Mapping[NotificationStatus, int]


def handle_clock_set_back(clock_was: datetime, now: datetime) -> None:
    """Correct due times and claims after the clock was set back from `clock_was` to `now`.

    Messages that were due before are due now, and claims expire at their usual time. Needs a write
    transaction.
    """
    pending = Message.state == MessageStatus.PENDING
    claimed = Message.update(claimed_until=now + CLAIM)
    claimed.where(pending, Message.claimed_until > now + CLAIM).execute()
    was_due = (Message.next_attempt_at > now) & (Message.next_attempt_at <= clock_was)
    Message.update(next_attempt_at=now).where(pending, was_due).execute()


def is_due(channel: int, now: datetime) -> bool:
    """Return whether a message can be claimed, without taking a lock."""
    return _FIRST_DUE.first(channel=channel, now=now) is not None


def claim(channel: int, now: datetime, in_flight: Collection[int] = ()) -> Claimed | None:
    """Claim the message that has been due for the longest time, or return None. Needs a write transaction.

    Never claim a message in `in_flight`, even if its claim has expired.
    """
    found = _CLAIMABLE.first(channel=channel, now=now, in_flight=in_flight)
    if found is None:
        return None
    row, attempts, first_attempt_at = found
    _CLAIM.run(until=now + CLAIM, message=row)
    return Claimed(row, attempts, first_attempt_at)


def _select_due() -> peewee.ModelSelect:
    due = Message.select(Message.id, Message.attempts, Message.first_attempt_at).where(
        Message.state == MessageStatus.PENDING,
        Message.channel == bind("channel"),
        Message.next_attempt_at <= bind("now"),
        Message.claimed_until.is_null() | (Message.claimed_until <= bind("now")),
    )
    return due.limit(1)


_FIRST_DUE = Prepared(_select_due)
_CLAIMABLE = Prepared(
    lambda: store().for_update(
        _select_due().where(~in_bound(Message.id, "in_flight")).order_by(Message.next_attempt_at),
        skip_locked=True,
    )
)
_CLAIM = Prepared(lambda: Message.update(claimed_until=bind("until")).where(Message.id == bind("message")))


# In the same order as models/write/notifications.py; otherwise the two transactions could deadlock.
_LOCK_NOTIFICATIONS = Prepared(
    lambda: store().for_update(
        Notification.select(Notification.id)
        .where(Notification.message == bind("message"))
        .order_by(Notification.id)
    )
)


def record_attempt(attempt: DeliveryAttempt) -> NotificationCounts:
    """Record an attempt and the new status of the message and its notifications. Needs a write transaction.

    Return how many notifications got which status.
    """
    if attempt.outcome in RECORDED_OUTCOMES:
        columns = {
            "message": attempt.message.row,
            "at": attempt.at,
            "outcome": RECORDED_OUTCOMES[attempt.outcome].value,
            "detail": attempt.detail,
            "milliseconds": attempt.milliseconds,
        }
        bulk.insert(Attempt, [columns])
    # One row needs no order.
    if len(attempt.included) + len(attempt.cancelled) != 1:
        _LOCK_NOTIFICATIONS.rows(message=attempt.message.row)
    cancelled = sum(
        _finish_notifications(
            Notification.id == notification, NotificationStatus.CANCELLED, reason, attempt.at
        )
        for notification, reason in attempt.cancelled.items()
    )
    return {NotificationStatus.CANCELLED: cancelled, **_RECORDERS[attempt.outcome](attempt)}


def _record_sent(attempt: DeliveryAttempt) -> NotificationCounts:
    _finish_message(attempt, MessageStatus.SENT, attempt.detail)
    # Include notifications that were cancelled while the message was in flight: the message contains them.
    sent = {"state": NotificationStatus.SENT, "outcome": attempt.detail, "done_at": attempt.at}
    bulk.update(Notification, [{"id": notification, **sent} for notification in attempt.included])
    return {NotificationStatus.SENT: len(attempt.included)}


def _record_retry(attempt: DeliveryAttempt) -> NotificationCounts:
    attempts = attempt.message.attempts + 1
    next_at = get_next_attempt(attempts, attempt.message.first_attempt_at or attempt.at, attempt.at)
    if next_at is None:
        return _record_failed(attempt, make_reason("given_up", attempts=attempts).add(attempt.detail))
    _update_message(attempt, next_attempt_at=next_at, outcome=make_reason("not_sent_yet").add(attempt.detail))
    return {}


def _record_failed(attempt: DeliveryAttempt, why: Reason | None = None) -> NotificationCounts:
    """Give up the message. `why` None: the detail of the attempt is the reason."""
    why = why or attempt.detail
    refused = attempt.outcome is DeliveryOutcome.REFUSED
    if notify_user_email(attempt.message.row, attempt.at, refused=refused):
        why = why.add(make_reason("user_email_instead"))
    _finish_message(attempt, MessageStatus.FAILED, why)
    count = _finish_notifications(
        Notification.message == attempt.message.row, NotificationStatus.FAILED, why, attempt.at
    )
    return {NotificationStatus.FAILED: count}


def _record_cancelled(attempt: DeliveryAttempt) -> NotificationCounts:
    _finish_message(attempt, MessageStatus.CANCELLED, attempt.detail)
    return {}


_RECORDERS = {
    DeliveryOutcome.SENT: _record_sent,
    DeliveryOutcome.REFUSED: _record_failed,
    DeliveryOutcome.TEMPORARY: _record_retry,
    DeliveryOutcome.RELAY_DOWN: _record_retry,
    DeliveryOutcome.NOT_CONFIGURED: _record_failed,
    DeliveryOutcome.CANCELLED: _record_cancelled,
}


def _finish_message(attempt: DeliveryAttempt, state: MessageStatus, outcome: Reason) -> None:
    _update_message(attempt, state=state, outcome=outcome, done_at=attempt.at)


def _update_message(attempt: DeliveryAttempt, **columns: object) -> None:
    """Update the message only if it is still pending.

    If the claim expired, another worker may have finished it.
    """
    if attempt.outcome in RECORDED_OUTCOMES:
        columns["attempts"] = attempt.message.attempts + 1
        columns["first_attempt_at"] = attempt.message.first_attempt_at or attempt.at
    query = Message.update(claimed_until=None, **columns)
    query.where(Message.id == attempt.message.row, Message.state == MessageStatus.PENDING).execute()


def _finish_notifications(
    condition: peewee.Expression, state: NotificationStatus, outcome: Reason, at: datetime
) -> int:
    query = Notification.update(state=state, outcome=outcome, done_at=at)
    count: int = query.where(condition, Notification.state == NotificationStatus.PENDING).execute()
    return count
