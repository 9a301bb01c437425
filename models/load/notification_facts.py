"""Load the notifications of an incident as facts."""

from models.domain.enums import RULE_BASED, NotificationKind, NotificationStatus
from models.domain.facts import NotificationFacts
from models.load.oncall_config import load_people
from models.tables.accounts import User
from models.tables.notifications import Notification, get_reason_key


def load_notifications(incident_row: int) -> list[NotificationFacts]:
    """Load the sent and pending notifications of the kinds in RULE_BASED, oldest first.

    Notifications of removed users are left out.
    """
    active = (NotificationStatus.PENDING, NotificationStatus.SENT)
    query = (
        Notification.select(Notification, User)
        .join(User)
        .where(
            Notification.incident == incident_row,
            Notification.kind.in_(RULE_BASED),
            Notification.state.in_(active),
        )
        .order_by(Notification.id)
    )
    rows = list(query)
    persons = load_people({row.user.username for row in rows})
    return [
        NotificationFacts(
            NotificationKind(row.kind),
            get_reason_key(row.key),
            persons[row.user.username],
            row.contact_id,
            row.reason,
            row.not_before,
            row.state == NotificationStatus.SENT,
        )
        for row in rows
        if row.user.username in persons
    ]
