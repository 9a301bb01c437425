"""Load what a simulation needs besides facts: pending notifications and names.

Call these functions inside one `store().read_transaction()`.
"""

from collections.abc import Collection

from models.domain.effects import NotificationState
from models.domain.enums import NotificationKind, NotificationStatus
from models.store.prepared import in_list
from models.tables.accounts import User
from models.tables.incidents import Incident
from models.tables.notifications import Message, Notification
from models.tables.users import ContactMethod


def load_pending_notifications(incidents: Collection[int]) -> list[NotificationState]:
    """Load the pending notifications of these incidents (row numbers).

    `not_before` is the time of the next attempt of their message.
    """
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
    """Load users by row number."""
    return {user.id: user for user in User.select().where(in_list(User.id, rows))}


def load_contact_names(rows: Collection[int]) -> dict[int, str]:
    """Load the names of contacts by row number, without their addresses."""
    query = ContactMethod.select(ContactMethod.id, ContactMethod.name)
    return dict(query.where(in_list(ContactMethod.id, rows)).tuples())
