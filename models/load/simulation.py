"""Load what a simulation needs besides facts: pending notifications and names.

Call these functions inside one `store().read_transaction()`, except `load_open_incident`.
"""

from collections.abc import Collection
from datetime import datetime

from models.domain.effects import IncidentState, NotificationState
from models.domain.enums import NotificationKind, NotificationStatus
from models.domain.facts import OnCallConfig, OpenIncidentFacts
from models.load import timers
from models.load.lane import load_services
from models.store.prepared import Prepared, bind, in_list
from models.tables.accounts import User, name_person
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


# At most this many pending notifications of an incident are loaded, the earliest ones.
MAX_PENDING = 100

_DUE_LATER = Prepared(
    lambda: (
        Notification.select(
            Notification.key, Notification.user, Notification.contact, Message.channel, Notification.rule,
            Notification.kind, Notification.reason, Message.next_attempt_at, Message.message_id,
            User.first_name, User.last_name, User.email,
        )
        .join(Message)
        .switch(Notification)
        .join(User)
        .where(
            Notification.incident == bind("incident"),
            Notification.state == NotificationStatus.PENDING,
            Message.next_attempt_at > bind("now"),
        )
        .order_by(Message.next_attempt_at, Notification.id)
        .limit(MAX_PENDING)
    )
)  # fmt: skip


def load_open_incident(incident: IncidentState, config: OnCallConfig, now: datetime) -> OpenIncidentFacts:
    """Load what decides whom a stored incident notifies next. Needs a connection, but no transaction."""
    row, unique_id = incident.row or 0, incident.unique_id
    pending, names = [], {}
    for key, user, contact, channel, rule, kind, reason, at, message, *name in _DUE_LATER.rows(
        incident=row, now=now
    ):
        kind_of = NotificationKind(kind)
        pending.append(
            NotificationState(key, unique_id, user, contact, channel, rule, kind_of, reason, at, message)
        )
        names[user] = name_person(*name)
    return OpenIncidentFacts(
        incident,
        load_services([incident]).get(incident.service or 0),
        config,
        tuple(pending),
        tuple(names.items()),
        tuple(timers.list_pending_keys({row: unique_id})),
        frozenset(timers.find_all_fired({row: unique_id})) if incident.sla else frozenset(),
    )


def load_users(rows: Collection[int]) -> dict[int, User]:
    """Load users by row number."""
    return {user.id: user for user in User.select().where(in_list(User.id, rows))}


def load_contact_names(rows: Collection[int]) -> dict[int, str]:
    """Load the names of contacts by row number, without their addresses."""
    query = ContactMethod.select(ContactMethod.id, ContactMethod.name)
    return dict(query.where(in_list(ContactMethod.id, rows)).tuples())
