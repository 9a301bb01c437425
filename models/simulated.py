"""What a simulation is given to know beyond facts, and the names of whom and what it speaks of.

Read only: to be called inside one transaction of `store().reading()`.
"""

from collections.abc import Collection

from models.accounts import User
from models.effects import NoticeState
from models.enums import NoticeKind
from models.enums import NoticeState as NoticeStatus
from models.incidents import Incident
from models.notices import Message, Notice
from models.prepared import any_of
from models.users import ContactMethod


def owed_notices(incidents: Collection[int]) -> list[NoticeState]:
    """What is still to be told of these incidents (row numbers), each with the moment of its message."""
    query = (
        Notice.select(Notice, Message, Incident.unique_id)
        .join(Message)
        .switch(Notice)
        .join(Incident)
        .where(any_of(Notice.incident, incidents), Notice.state == NoticeStatus.PENDING)
        .order_by(Notice.id)
    )
    return [
        NoticeState(
            key=row.key,
            incident=row.incident.unique_id,
            user=row.user_id,
            contact=row.contact_id,
            channel=row.message.channel,
            rule=row.rule_id,
            kind=NoticeKind(row.kind),
            reason=row.reason,
            not_before=row.message.next_at,
            bundle=row.message.message_id,
        )
        for row in query
    ]


def users_of(rows: Collection[int]) -> dict[int, User]:
    """Persons by row number."""
    return {user.id: user for user in User.select().where(any_of(User.id, rows))}


def contact_names(rows: Collection[int]) -> dict[int, str]:
    """What contacts are called, by row number; never their values."""
    query = ContactMethod.select(ContactMethod.id, ContactMethod.name)
    return dict(query.where(any_of(ContactMethod.id, rows)).tuples())
