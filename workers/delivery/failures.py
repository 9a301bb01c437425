"""Load what is known about an attempt that did not send a message: facts for schedules/timers/retries.py.

The attempts of all workers are in the database, so all workers see which addresses a relay accepts.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

import peewee

from models.domain.enums import AttemptOutcome, IncidentStatus, MessageStatus, NotificationStatus
from models.tables.accounts import User
from models.tables.incidents import Incident
from models.tables.notifications import Attempt, Message, Notification
from models.tables.users import ContactMethod
from schedules.timers.retries import GIVE_UP_AFTER, FailedAttempt, get_evidence_times

# A literal and not a parameter: otherwise SQLite does not use the partial index of sent messages.
_SENT = Message.state == peewee.SQL(str(int(MessageStatus.SENT)))


class _Refused(NamedTuple):
    channel: int
    kind: str | None
    requested_by: str | None
    address: str


def load_failed_attempt(
    message: int,
    at: datetime,
    attempts: int,
    first_attempt_at: datetime,
    *,
    is_refusal: bool,
    retry_after: timedelta | None = None,
) -> FailedAttempt:
    """Load the facts after an attempt at `at`. `attempts` counts it too."""
    is_test = others_accepted = False
    if is_refusal:
        refused = _load_refused(message)
        is_test = refused.requested_by is not None and refused.kind is None
        others_accepted = attempts > 1 and _were_others_accepted(message, refused, at)
    is_late = at - first_attempt_at >= GIVE_UP_AFTER
    return FailedAttempt(
        at=at,
        attempts=attempts,
        first_attempt_at=first_attempt_at,
        is_refusal=is_refusal,
        others_accepted=others_accepted,
        is_awaited=is_late and _is_awaited(message),
        is_test=is_test,
        retry_after=retry_after,
    )


def _address() -> peewee.Function:
    """Return the address of a message, in the form in which addresses are compared."""
    return peewee.fn.LOWER(peewee.fn.COALESCE(ContactMethod.value, User.email))


def _select_with_address(*columns: peewee.Node) -> "peewee.ModelSelect[Message]":
    query = Message.select(*columns).join(User, on=(Message.user == User.id)).switch(Message)
    return query.join(ContactMethod, peewee.JOIN.LEFT_OUTER)


def _load_refused(message: int) -> _Refused:
    columns = (Message.channel, Message.kind, Message.requested_by, _address())
    return _Refused(*_select_with_address(*columns).where(Message.id == message).tuples().get())


def _were_others_accepted(message: int, refused: _Refused, at: datetime) -> bool:
    refusals = Attempt.select(Attempt.at).where(
        Attempt.message == message, Attempt.outcome == AttemptOutcome.REFUSED.value
    )
    first_refused_at = refusals.order_by(Attempt.at).scalar()
    times = get_evidence_times(first_refused_at, at) if first_refused_at is not None else None
    if times is None:
        return False
    accepted = _select_with_address(Message.id).where(
        _SENT,
        Message.channel == refused.channel,
        Message.done_at.between(*times),
        _address() != refused.address,
    )
    return bool(accepted.exists())


def _is_awaited(message: int) -> bool:
    """Return whether an incident of the message is triggered."""
    query = (
        Notification.select(Notification.id)
        .join(Incident)
        .where(
            Notification.message == message,
            Notification.state == NotificationStatus.PENDING,
            Incident.status == IncidentStatus.TRIGGERED,
        )
    )
    return bool(query.exists())
