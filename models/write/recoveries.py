"""Notify the people who were notified of an incident that it is resolved, each once, by e-mail."""

from collections.abc import Collection, Iterator, Mapping

import peewee

from models.domain.channels import USER_EMAIL_CHANNEL
from models.domain.effects import CreateNotification, NotificationState, NotifyRecovery
from models.domain.enums import NotificationKind, NotificationStatus
from models.domain.reasons import make_reason
from models.store.prepared import Prepared, in_bound
from models.tables.accounts import User
from models.tables.notifications import Message, Notification
from models.tables.users import ContactMethod

_NOTIFIED = Prepared(
    lambda: (
        Notification.select(Notification.incident, User.id, User.username, ContactMethod.id, Message.channel)
        .join(User)
        .switch(Notification)
        .join(Message)
        .join(ContactMethod, peewee.JOIN.LEFT_OUTER)
        .where(
            in_bound(Notification.incident, "incidents"),
            Notification.state == NotificationStatus.SENT,
            Notification.kind != NotificationKind.RECOVERY,
            User.removed_at.is_null(),
            # Rows of the previous version have no value, which means yes.
            User.recovery_mails.is_null() | User.recovery_mails,
        )
        .order_by(Notification.id)
    )
)


def write_recoveries(
    effects: Collection[NotifyRecovery], incident_rows: Mapping[str, int]
) -> Iterator[CreateNotification]:
    """Yield one notification for each person who was notified of a resolved incident.

    It goes to the e-mail contact that was notified last or, without one, to the user's own e-mail address.
    The key contains the escalation run: only a reopened incident has a second recovery.
    """
    by_row = {incident_rows[effect.incident]: effect for effect in effects}
    last: dict[tuple[int, int], tuple[str, int | None]] = {}
    for incident, user, username, contact, channel in _NOTIFIED.rows(incidents=list(by_row)):
        is_mail = channel == USER_EMAIL_CHANNEL
        known = last.get((incident, user), (username, None))
        last[incident, user] = (username, contact) if is_mail else known
    for (incident, user), (username, contact) in last.items():
        effect = by_row[incident]
        prefix = f"{effect.incident}:{NotificationKind.RECOVERY}:{effect.escalation_run}:{username}"
        yield CreateNotification(
            NotificationState(
                key=f"{prefix}:{contact or 'account'}:-",
                incident=effect.incident,
                user=user,
                contact=contact,
                channel=USER_EMAIL_CHANNEL,
                rule=None,
                kind=NotificationKind.RECOVERY,
                reason=make_reason("was_notified"),
                not_before=effect.at,
                group_key=NotificationKind.RECOVERY.value,
            )
        )
