"""Notify the people who were notified of an incident that it is resolved, each contact once.

A phone call is not worth it: who got only calls gets an e-mail.
"""

from collections.abc import Collection, Iterator, Mapping

import peewee

from models.domain.channels import USER_EMAIL_CHANNEL, WITHOUT_RECOVERY
from models.domain.effects import CreateNotification, NotificationState, NotifyRecovery
from models.domain.enums import NotificationKind, NotificationStatus
from models.domain.reasons import Reason, make_reason
from models.store.prepared import Prepared, in_bound
from models.tables.accounts import User
from models.tables.incidents import IncidentLog
from models.tables.notifications import Message, Notification
from models.tables.users import ContactMethod

_ACKNOWLEDGED = Prepared(
    lambda: IncidentLog.select(IncidentLog.incident, IncidentLog.user).where(
        in_bound(IncidentLog.incident, "incidents"),
        IncidentLog.what == "acknowledged",
        IncidentLog.user.is_null(False),
    )
)
_NOTIFIED = Prepared(
    lambda: (
        Notification.select(
            Notification.incident, User.id, User.username, User.email,
            ContactMethod.id, ContactMethod.value, Message.channel,
        )
        .join(User)
        .switch(Notification)
        .join(Message)
        .join(ContactMethod, peewee.JOIN.LEFT_OUTER)
        .where(
            in_bound(Notification.incident, "incidents"),
            Notification.state == NotificationStatus.SENT,
            Notification.kind != NotificationKind.RECOVERY,
            User.removed_at.is_null(),
            User.recovery_mails,
        )
        .order_by(Notification.id)
    )
)  # fmt: skip


def write_recoveries(
    effects: Collection[NotifyRecovery], incident_rows: Mapping[str, int]
) -> Iterator[CreateNotification]:
    """Yield notifications for each person who was notified of a resolved incident.

    They go to all contacts that were notified, each address once, except phone calls; without one, to the
    user's own e-mail address. The key contains the escalation run: only a reopened incident has a second
    recovery.
    """
    by_row = {incident_rows[effect.incident]: effect for effect in effects}
    notified: dict[tuple[int, int, str], dict[tuple[int, str], int | None]] = {}
    for incident, user, username, email, contact, value, channel in _NOTIFIED.rows(incidents=list(by_row)):
        contacts = notified.setdefault((incident, user, username), {})
        is_own = contact is None and channel == USER_EMAIL_CHANNEL
        # A deleted contact has no address any more.
        if channel not in WITHOUT_RECOVERY and (contact is not None or is_own):
            # Only e-mail addresses are the same in another case.
            address = value or email
            contacts[channel, address.lower() if channel == USER_EMAIL_CHANNEL else address] = contact
    acknowledged = set(_ACKNOWLEDGED.rows(incidents=list(by_row))) if notified else set()
    for (incident, user, username), contacts in notified.items():
        effect = by_row[incident]
        has_acknowledged = (incident, user) in acknowledged
        why = make_reason("you_acknowledged") if has_acknowledged else make_reason("was_notified")
        to = {(channel, contact) for (channel, _), contact in contacts.items()}
        for channel, contact in sorted(to or {(int(USER_EMAIL_CHANNEL), None)}, key=str):
            yield _build(effect, user, username, channel, contact, why)


def _build(
    effect: NotifyRecovery, user: int, username: str, channel: int, contact: int | None, why: Reason
) -> CreateNotification:
    prefix = f"{effect.incident}:{NotificationKind.RECOVERY}:{effect.escalation_run}:{username}"
    return CreateNotification(
        NotificationState(
            key=f"{prefix}:{contact or 'account'}:-",
            incident=effect.incident,
            user=user,
            contact=contact,
            channel=channel,
            rule=None,
            kind=NotificationKind.RECOVERY,
            reason=why,
            not_before=effect.at,
            group_key=NotificationKind.RECOVERY.value,
        )
    )
