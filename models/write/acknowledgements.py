"""Count acknowledgements for the metrics."""

from collections.abc import Collection

import peewee

from models.domain.channels import get_channel_name
from models.domain.enums import NotificationStatus
from models.store.prepared import Prepared, in_bound
from models.tables.notifications import Message, Notification
from runtime import metrics

_SENT = Prepared(
    lambda: (
        Notification.select(
            Notification.incident, Notification.user, Message.channel, peewee.fn.COUNT(Notification.id)
        )
        .join(Message)
        .where(
            in_bound(Notification.incident, "incidents"),
            in_bound(Notification.user, "users"),
            Notification.state == NotificationStatus.SENT,
        )
        .group_by(Notification.incident, Notification.user, Message.channel)
    )
)


def count_acknowledged(people: Collection[tuple[int, int]]) -> None:
    """Count the sent notifications of people who acknowledge, given as row numbers of incident and person."""
    if not people:
        return
    incidents, users = ({pair[place] for pair in people} for place in (0, 1))
    for incident, user, channel, count in _SENT.rows(incidents=sorted(incidents), users=sorted(users)):
        if (incident, user) in people:
            metrics.count_acknowledged(get_channel_name(channel), count)
