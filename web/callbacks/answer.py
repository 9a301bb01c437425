"""Acknowledge or resolve an incident for the person whose contact answered a message.

The caller has proven that the answer came from the address of the contact. The person's right to the
incident is read at that moment.
"""

from dataclasses import dataclass
from datetime import datetime

import peewee

from models.contacts.contact_codes import is_verified
from models.domain.channels import CONTACT_TYPES
from models.domain.effects import Author
from models.domain.enums import AuthorKind, IncidentStatus
from models.domain.reasons import Reason, make_reason
from models.tables.accounts import Account, CustomRole, User, get_display_name
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import Notification
from models.tables.users import ContactMethod
from pipeline.messages.content import ACTIONS
from pipeline.messages.times import format_clock
from web.incidents.change_status import change_status
from web.pages.link_rights import may_use


@dataclass(frozen=True, slots=True)
class Answer:
    """What Tocsin answers the person: one sentence. `incident` is set if the person may see it."""

    text: str
    is_done: bool = False
    incident: Incident | None = None


NOT_FOUND = Answer("This message is too old, or you have no right to its incident any more.")


def find_contacts(contact_type: int, address: str) -> list[ContactMethod]:
    """Return the verified contacts of this type with this address, of people who are not removed."""
    query = ContactMethod.select(ContactMethod, User).join(User)
    found = query.where(
        ContactMethod.contact_type == contact_type,
        ContactMethod.verified_value == address,
        User.removed_at.is_null(),
    )
    return [contact for contact in found if is_verified(contact, contact.user)]


def answer(contact: ContactMethod, notification: int, action: str, now: datetime) -> Answer:
    """Do an action of ACTIONS on the incident of a notification (row number) to the person of a contact."""
    query = (
        Notification.select(Notification, Incident, User, Account, CustomRole)
        .join(Incident)
        .join(Account)
        .switch(Notification)
        .join(User)
        .join(CustomRole, peewee.JOIN.LEFT_OUTER)
        .where(Notification.id == notification, Notification.user == contact.user_id)
    )
    found = query.where(User.removed_at.is_null()).first()
    if found is None or action not in ACTIONS or not is_verified(contact, found.user):
        return NOT_FOUND
    user, incident = found.user, found.incident
    if not may_use(user, incident, "incident_read", now):
        return NOT_FOUND
    if not may_use(user, incident, "incident_write", now):
        return Answer("You may read this incident, but not change it.", incident=incident)
    name, channel = get_display_name(user), CONTACT_TYPES[contact.contact_type]
    author = Author(AuthorKind.LINK, f"{name} in {channel}", user=user.id)
    is_done = change_status(incident.id, author, action, _explain(action, name, channel), now)
    current = Incident.get_by_id(incident.id)
    words = f"#{current.incident_number} {current.title}"
    if is_done:
        return Answer(f"{_PAST[action]}: {words}", is_done=True, incident=current)
    return Answer(describe_state(current, user), incident=current)


_PAST = {"acknowledge": "Acknowledged", "resolve": "Resolved"}


def _explain(action: str, by: str, channel: str) -> Reason:
    if action == "acknowledge":
        return make_reason("acknowledged_by_message", by=by, channel=channel)
    return make_reason("resolved_by_message", by=by, channel=channel)


def _find_acknowledger(incident: Incident) -> User | None:
    """Return the person who acknowledged last: the assignee may be another one."""
    logs = IncidentLog.select(IncidentLog.user).where(
        IncidentLog.incident == incident, IncidentLog.what == "acknowledged"
    )
    last = logs.order_by(IncidentLog.id.desc()).tuples().first()
    return User.get_or_none(User.id == last[0]) if last is not None else None


def describe_state(incident: Incident, reader: User) -> str:
    """Say who was faster, for example "You are too late, Alice has it since 04:11"."""
    number = f"#{incident.incident_number}"
    if incident.status == IncidentStatus.RESOLVED:
        at = incident.resolved_date
        since = f" since {format_clock(at, reader.time_zone)}" if at else ""
        return f"You are too late, {number} is resolved{since}."
    holder = _find_acknowledger(incident) or User.get_or_none(User.id == incident.assigned_to_id)
    at = incident.acknowledged_date
    since = f" since {format_clock(at, reader.time_zone)}" if at else ""
    if holder == reader:
        return f"You already have {number}{since}."
    who = get_display_name(holder) if holder is not None else "somebody"
    return f"You are too late, {who} has {number}{since}."
