"""What a simulation is given to know beyond facts, and the names of whom and what it speaks of.

Read only: to be called inside one transaction of `store().reading()`.
"""

from collections.abc import Collection

from models.domain.effects import NotificationState
from models.domain.enums import NotificationKind
from models.domain.enums import NotificationStatus as NotificationStatus
from models.store.prepared import in_list
from models.tables.accounts import User
from models.tables.incidents import Incident
from models.tables.notifications import Message, Notification
from models.tables.users import ContactMethod


def load_pending_notifications(incidents: Collection[int]) -> list[NotificationState]:
    """What is still to be told of these incidents (row numbers), each with the moment of its message."""
    query = (
        Notification.select(Notification, Message, Incident.unique_id)
        .join(Message)
        .switch(Notification)
        .join(Incident)
        .where(in_list(Notification.incident, incidents), Notification.state == NotificationStatus.PENDING)
        .order_by(Notification.id)
    )
    return [
        NotificationState(
            key=row.key,
            incident=row.incident.unique_id,
            user=row.user_id,
            contact=row.contact_id,
            channel=row.message.channel,
            rule=row.rule_id,
            kind=NotificationKind(row.kind),
            reason=row.reason,
            not_before=row.message.next_attempt_at,
            group_key=row.message.message_id,
        )
        for row in query
    ]


def load_users(rows: Collection[int]) -> dict[int, User]:
    """Persons by row number."""
    return {user.id: user for user in User.select().where(in_list(User.id, rows))}


def load_contact_names(rows: Collection[int]) -> dict[int, str]:
    """What contacts are called, by row number; never their values."""
    query = ContactMethod.select(ContactMethod.id, ContactMethod.name)
    return dict(query.where(in_list(ContactMethod.id, rows)).tuples())
