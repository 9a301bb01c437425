"""The incidents of a bundle: of one message about several of them."""

import peewee

from models.domain.enums import MessageKind
from models.tables.accounts import Account, CustomRole, User
from models.tables.incidents import Incident
from models.tables.notifications import Message, Notification


def find_recipient(message: int, user: int) -> User | None:
    """Return the recipient (row number) of a bundle that exists; None also for a removed person."""
    found = (
        Message.select(Message, User, CustomRole)
        .join(User)
        .join(CustomRole, peewee.JOIN.LEFT_OUTER)
        .where(Message.id == message, Message.user == user, Message.kind == MessageKind.BUNDLE)
        .first()
    )
    return found.user if found is not None and found.user.removed_at is None else None


def list_notifications(message: int, user: User, page: int, size: int) -> tuple[list[Notification], int]:
    """Return a page of the notifications of a bundle with their incidents, and the number of all."""
    listed = Notification.select().where(Notification.message == message, Notification.user == user)
    rows = listed.select(Notification, Incident, Account).join(Incident).join(Account)
    ordered = rows.order_by(Incident.incident_number, Notification.id)
    return list(ordered.paginate(page, size)), listed.count()
