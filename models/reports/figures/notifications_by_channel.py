"""Count the notifications of a person by channel: created, sent, delivered, acknowledged."""

from datetime import datetime

import peewee

from models.domain.channels import get_channel_name
from models.domain.enums import AttemptOutcome, NotificationStatus, ProviderState
from models.reports.drill_report import is_drill
from models.tables.accounts import User
from models.tables.incidents import IncidentLog
from models.tables.notifications import Attempt, Message, Notification

# The figures of a channel, in the order of the steps of a notification.
FIGURES = ("created", "attempted", "accepted", "delivered", "acknowledged", "failed", "cancelled")


def count_by_channel(user: User, start: datetime, end: datetime) -> list[dict[str, object]]:
    """Return the figures of each channel for notifications that were due from `start` to before `end`.

    Drills are left out.
    """
    state = Notification.state
    done = state.in_((NotificationStatus.SENT, NotificationStatus.FAILED))
    conditions = {
        "attempted": (Message.attempts > 0) & (state != NotificationStatus.CANCELLED),
        "accepted": done & _has_attempt(Attempt.outcome == AttemptOutcome.SENT.value),
        "delivered": done & _has_attempt(Attempt.provider_state == ProviderState.DELIVERED.value),
        "acknowledged": (state == NotificationStatus.SENT) & _is_acknowledged(),
        "failed": state == NotificationStatus.FAILED,
        "cancelled": state == NotificationStatus.CANCELLED,
    }
    counts = [peewee.fn.COUNT(peewee.Case(None, [(met, 1)])) for met in conditions.values()]
    query = (
        Notification.select(Message.channel, peewee.fn.COUNT(Notification.id), *counts)
        .join(Message)
        .where(
            Notification.user == user,
            Notification.not_before >= start,
            Notification.not_before < end,
            ~is_drill(Notification.incident),
        )
        .group_by(Message.channel)
        .order_by(Message.channel)
    )
    return [
        {"channel": get_channel_name(channel), **dict(zip(FIGURES, values, strict=True))}
        for channel, *values in query.tuples()
    ]


def _has_attempt(condition: peewee.Expression) -> peewee.Function:
    return peewee.fn.EXISTS(
        Attempt.select(peewee.SQL("1")).where(Attempt.message == Notification.message, condition)
    )


def _is_acknowledged() -> peewee.Function:
    return peewee.fn.EXISTS(
        IncidentLog.select(peewee.SQL("1")).where(
            IncidentLog.incident == Notification.incident,
            IncidentLog.user == Notification.user,
            IncidentLog.what == "acknowledged",
        )
    )
