"""What a simulation is given to know beyond facts, and the names of whom and what it speaks of.

Read only: to be called inside one transaction of `store().reading()`.
"""

from collections.abc import Collection

from models.accounts import User
from models.effects import DONE_ONCE, NoticeState
from models.enums import ONCE, NoticeKind
from models.enums import NoticeState as NoticeStatus
from models.incidents import Incident
from models.notices import Message, Notice
from models.prepared import any_of
from models.timers import Timer
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


def done_once(incidents: Collection[int]) -> set[tuple[str, str]]:
    """What is done once and was done of these incidents: each one's unique_id, and the key of the timer."""
    query = Timer.select(Timer.key, Timer.outcome, Incident.unique_id).join(Incident)
    ended = query.where(any_of(Timer.incident, incidents), Timer.done_at.is_null(False), Timer.kind.in_(ONCE))
    return {(name, key) for key, outcome, name in ended.tuples() if (outcome or "").startswith(DONE_ONCE)}


def waiting_timers(incidents: Collection[int]) -> list[tuple[str, str]]:
    """The timers for which these incidents wait, by each one's unique_id and the timer's key: in the order in
    which those that are due together are taken (workers/timers.py)."""
    query = Timer.select(Incident.unique_id, Timer.key).join(Incident)
    waiting = query.where(any_of(Timer.incident, incidents), Timer.done_at.is_null())
    return list(waiting.order_by(Timer.id).tuples())
