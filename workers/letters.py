"""What a message says in the moment of sending: read from rows again, whatever was true when it was owed.

A notice whose incident has moved on, or whose person has left, is told no more, and says why (law 8).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, cast

import peewee

from models import links
from models.accounts import Account, User, display_name
from models.enums import AlertType, IncidentStatus, MessageKind, NoticeKind, NoticeState, Urgency
from models.events import Event
from models.incidents import Incident
from models.links import Invitation, Link
from models.notices import Message, Notice
from models.prepared import Prepared, given
from models.services import Service
from models.teams import Team, TeamMember
from models.users import ContactMethod
from pipeline.wording import Invited, Reader, Told, Words, invitation_wording, trial_wording, wording
from schedules.notices import why_void
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


class _Addressee(NamedTuple):
    """A message and whom it is for, by the account's address if the contact is gone."""

    message_id: str
    kind: str | None
    # Who asked for a message that carries no notice.
    asked: str | None
    user: int
    first_name: str
    last_name: str
    email: str
    time_zone: str
    removed_at: datetime | None
    contact: str | None

    @property
    def address(self) -> str:
        return self.contact if self.contact is not None else self.email

    @property
    def reader(self) -> Reader:
        return Reader(display_name(cast(Any, self)), self.time_zone)


_ADDRESSEE = Prepared(
    lambda: (
        Message.select(
            Message.message_id, Message.kind, Message.reason, Message.user, User.first_name, User.last_name,
            User.email, User.time_zone, User.removed_at, ContactMethod.value,
        )
        .join(User)
        .switch(Message)
        .join(ContactMethod, peewee.JOIN.LEFT_OUTER)
        .where(Message.id == given("message"))
    )
)  # fmt: skip


class _Owed(NamedTuple):
    """A pending notice with its incident as it is now."""

    notice: int
    kind: str
    reason: str
    user: int
    incident: int
    number: int
    title: str
    summary: str
    status: int
    urgency: int
    since: datetime
    service: str | None


_OWED = Prepared(
    lambda: (
        Notice.select(
            Notice.id, Notice.kind, Notice.reason, Notice.user, Incident.id, Incident.incident_number,
            Incident.title, Incident.summary, Incident.status, Incident.urgency, Incident.creation_date,
            Service.name,
        )
        .join(Incident)
        .join(Service, peewee.JOIN.LEFT_OUTER)
        .where(Notice.message == given("message"), Notice.state == NoticeState.PENDING)
        .order_by(Incident.incident_number, Notice.id)
    )
)  # fmt: skip

# How bad the alerts were that opened a message's incidents; one made by hand has none.
_LEVELS = Prepared(
    lambda: (
        Event.select(Event.incident, Event.alert_type)
        .join(Notice, on=(Notice.incident == Event.incident))
        .where(Notice.message == given("message"), Event.incident_created)
    )
)


def contents(message_row: int, public_url: str, now: datetime) -> Contents:
    """Read a message with its notices; needs a connection, no transaction."""
    found = _ADDRESSEE.first(message=message_row)
    if found is None:
        return Contents(None)
    whom = _Addressee(*found)
    if whom.asked is not None:
        return _noticeless(whom, whom.asked, public_url, now)
    owed = [_Owed(*row) for row in _OWED.rows(message=message_row)]
    void = {one.notice: why for one in owed if (why := _why_void(one, whom))}
    living = [one for one in owed if one.notice not in void]
    if not living:
        return Contents(None, void=void)
    words = wording(_told(living, message_row, public_url, now), whom.reader)
    letter = Letter(whom.message_id, whom.address, words.subject, words.text, now)
    return Contents(letter, tuple(one.notice for one in living), void)


def _noticeless(whom: _Addressee, asked: str, public_url: str, now: datetime) -> Contents:
    """A message that carries no notice: an invitation, or a trial of a contact."""
    if whom.removed_at is not None:
        return Contents(None)
    if whom.kind == MessageKind.INVITATION:
        return _invitation(whom, asked, public_url, now)
    return _letter(whom, trial_wording(asked, whom.reader, now), now)


def _invitation(whom: _Addressee, inviter: str, public_url: str, now: datetime) -> Contents:
    """Nothing to say to who has joined meanwhile."""
    user = User.select(User, Account).join(Account).where(User.id == whom.user).get()
    if user.is_verified:
        return Contents(None)
    teams = Team.select(Team.name).join(TeamMember).where(TeamMember.user == user).order_by(TeamMember.id)
    link = f"{public_url}/join/{links.signer().sign_invitation(Invitation.to(user), now)}"
    invited = Invited(user.account.name, [team.name for team in teams], inviter, link)
    return _letter(whom, invitation_wording(invited, whom.reader), now)


def _letter(whom: _Addressee, words: Words, now: datetime) -> Contents:
    return Contents(Letter(whom.message_id, whom.address, words.subject, words.text, now))


def _why_void(one: _Owed, whom: _Addressee) -> str | None:
    if whom.removed_at is not None:
        return "the person is no member any more"
    return why_void(NoticeKind(one.kind), IncidentStatus(one.status))


def _told(owed: Iterable[_Owed], message_row: int, public_url: str, now: datetime) -> list[Told]:
    """Each incident once, though two rules of a person may lead to the same contact."""
    firsts = {one.incident: one for one in reversed(list(owed))}
    levels, signer = dict(_LEVELS.rows(message=message_row)), links.signer()
    return [
        Told(
            number=one.number,
            title=one.title,
            service=one.service,
            urgency=Urgency(one.urgency),
            level=AlertType(levels[one.incident]) if one.incident in levels else None,
            since=one.since,
            reason=one.reason,
            link=_link(signer, one, public_url, now),
            summary=one.summary,
        )
        for one in sorted(firsts.values(), key=lambda one: one.number)
    ]


def _link(signer: links.Signer, one: _Owed, public_url: str, now: datetime) -> str:
    return f"{public_url}/i/{signer.sign(Link(one.incident, one.user, one.notice), now)}"
