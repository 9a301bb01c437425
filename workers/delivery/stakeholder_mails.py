"""Read a mail to a stakeholder just before it is sent, and its address as it is then."""

import peewee

from models.contacts.contact_codes import is_same_address
from models.domain.enums import IncidentStatus
from models.domain.reasons import Reason, make_reason
from models.tables.accounts import User
from models.tables.incidents import Incident
from models.tables.services import Service
from models.tables.stakeholders import StakeholderAddress, StakeholderMail
from pipeline.messages.stakeholder_text import StakeholderText


def load(message_row: int) -> StakeholderMail | None:
    """Return the mail of a message, with its member or address and its incident; None: it was deleted."""
    query = (
        StakeholderMail.select(StakeholderMail, User, StakeholderAddress, Incident, Service)
        .join(User, peewee.JOIN.LEFT_OUTER)
        .switch(StakeholderMail)
        .join(StakeholderAddress, peewee.JOIN.LEFT_OUTER)
        .switch(StakeholderMail)
        .join(Incident)
        .join(Service, peewee.JOIN.LEFT_OUTER)
    )
    found: StakeholderMail | None = query.where(StakeholderMail.message == message_row).get_or_none()
    return found


def find_address(mail: StakeholderMail) -> str | Reason:
    """Return the address to which a mail goes, or why it goes nowhere any more."""
    user, address = mail.user, mail.address
    if user is not None and user.removed_at is None:
        email: str = user.email
        if is_same_address(user.verified_email, email):
            return email
        return make_reason("stakeholder_not_verified")
    if address is not None:
        allowed: str = address.email
        return allowed
    return make_reason("stakeholder_removed")


def summarize(mail: StakeholderMail) -> StakeholderText:
    """Return what the mail says, with the present state of its incident."""
    incident = mail.incident
    return StakeholderText(
        subject=mail.subject,
        body=mail.body,
        author=mail.author,
        number=incident.incident_number,
        title=incident.title,
        service=incident.service.name if incident.service else None,
        status=IncidentStatus(incident.status),
        since=incident.creation_date,
    )
