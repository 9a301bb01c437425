"""What a message says in the moment of sending: read from rows again, whatever was true when it was owed.

A notice whose incident has moved on, or whose person has left, is told no more, and says why (law 8).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import peewee

from models import links
from models.accounts import User
from models.enums import OPEN, AlertType, IncidentStatus, NoticeKind, NoticeState, Urgency
from models.events import Event
from models.incidents import Incident
from models.links import Link
from models.loading import display_name
from models.notices import Message, Notice
from models.services import Service
from models.users import ContactMethod
from pipeline.wording import Reader, Told, trial_wording, wording
from workers.channels.base import Letter


@dataclass(frozen=True, slots=True)
class Contents:
    """A message as it would be sent now. `letter` is None when nothing is left to say.

    `told` are the rows of the notices that the letter speaks of, `void` the reasons why others are
    told no more.
    """

    letter: Letter | None
    told: tuple[int, ...] = ()
    void: Mapping[int, str] = field(default_factory=dict)


# Only what is needed: building the whole rows costs more than sending.
_MESSAGE = (
    Message.id, Message.message_id, Message.reason, Message.user, Message.contact, User.id, User.first_name,
    User.last_name, User.email, User.time_zone, User.removed_at, ContactMethod.id, ContactMethod.value,
)  # fmt: skip
_NOTICE = (
    Notice.id, Notice.incident, Notice.user, Notice.reason, Incident.id, Incident.service,
    Incident.incident_number, Incident.title, Incident.summary, Incident.status, Incident.urgency,
    Incident.creation_date, Service.id, Service.name,
)  # fmt: skip


def contents(message_row: int, public_url: str, now: datetime) -> Contents:
    """Read a message with its notices; needs a connection, no transaction."""
    message = _message(message_row)
    if message.reason is not None:
        return _trial(message, now)
    notices = _pending(message)
    void = {notice.id: why for notice in notices if (why := _why_void(notice, message.user))}
    living = [notice for notice in notices if notice.id not in void]
    if not living:
        return Contents(None, void=void)
    words = wording(_told(living, public_url, now), _reader(message.user))
    letter = Letter(message.message_id, _address(message), words.subject, words.text, now)
    return Contents(letter, tuple(notice.id for notice in living), void)


def _message(row: int) -> Message:
    query = Message.select(*_MESSAGE).join(User).switch(Message)
    found: Message = query.join(ContactMethod, peewee.JOIN.LEFT_OUTER).where(Message.id == row).get()
    return found


def _trial(message: Message, now: datetime) -> Contents:
    if message.user.removed_at is not None:
        return Contents(None)
    words = trial_wording(message.reason or "", _reader(message.user), now)
    return Contents(Letter(message.message_id, _address(message), words.subject, words.text, now))


def _pending(message: Message) -> list[Notice]:
    query = (
        Notice.select(*_NOTICE)
        .join(Incident)
        .join(Service, peewee.JOIN.LEFT_OUTER)
        .where(Notice.message == message.id, Notice.state == NoticeState.PENDING)
    )
    return list(query.order_by(Incident.incident_number, Notice.id))


def _why_void(notice: Notice, user: User) -> str | None:
    if user.removed_at is not None:
        return "the person is no member any more"
    status = IncidentStatus(notice.incident.status)
    # Somebody may be given an incident that another has acknowledged.
    living = OPEN if notice.kind == NoticeKind.ASSIGNMENT else {IncidentStatus.TRIGGERED}
    return None if status in living else f"incident is {status.name.lower()}"


def _address(message: Message) -> str:
    """Without a contact (it may have been deleted since): the address of the account."""
    address: str = message.contact.value if message.contact is not None else message.user.email
    return address


def _reader(user: User) -> Reader:
    return Reader(display_name(user), user.time_zone)


def _told(notices: Iterable[Notice], public_url: str, now: datetime) -> list[Told]:
    """Each incident once, though two rules of a person may lead to the same contact."""
    firsts = {notice.incident_id: notice for notice in reversed(list(notices))}
    levels, signer = _levels(list(firsts)), links.signer()
    return [
        Told(
            number=notice.incident.incident_number,
            title=notice.incident.title,
            service=notice.incident.service.name if notice.incident.service else None,
            urgency=Urgency(notice.incident.urgency),
            level=levels.get(notice.incident_id),
            since=notice.incident.creation_date,
            reason=notice.reason,
            link=_link(signer, notice, public_url, now),
            summary=notice.incident.summary,
        )
        for notice in sorted(firsts.values(), key=lambda one: one.incident.incident_number)
    ]


def _link(signer: links.Signer, notice: Notice, public_url: str, now: datetime) -> str:
    return f"{public_url}/i/{signer.sign(Link(notice.incident_id, notice.user_id, notice.id), now)}"


def _levels(incidents: list[int]) -> dict[int, AlertType]:
    """How bad the alerts that opened them were; an incident made by hand has none."""
    query = Event.select(Event.incident, Event.alert_type).where(
        Event.incident.in_(incidents), Event.incident_created
    )
    return {incident: AlertType(level) for incident, level in query.tuples()}
