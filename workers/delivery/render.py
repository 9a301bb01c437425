"""Render a message from current rows just before it is sent.

A notification is cancelled with a reason if its incident has changed, or if its person was removed: invariant
8 (design, section 2).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, cast

import peewee

from models.domain.channels import USER_EMAIL_CHANNEL
from models.domain.enums import (
    AlertType,
    IncidentStatus,
    MessageKind,
    NotificationKind,
    NotificationStatus,
    Urgency,
)
from models.domain.reasons import Reason, make_reason
from models.lifecycle import signed_links
from models.lifecycle.signed_links import IncidentLink, Invitation
from models.store.prepared import Prepared, bind
from models.tables.accounts import Account, User, get_display_name
from models.tables.events import Event
from models.tables.incidents import Incident
from models.tables.notifications import Message, Notification
from models.tables.services import Service
from models.tables.teams import Team, TeamMember
from models.tables.users import ContactMethod
from pipeline.messages import (
    IncidentSummary,
    InvitationDetails,
    MessageContent,
    Recipient,
    build_incidents_content,
    build_invitation_content,
    build_test_content,
)
from schedules.escalation.notifications import get_cancel_reason
from workers.delivery.transport.channel import OutgoingMessage


@dataclass(frozen=True, slots=True)
class RenderedMessage:
    """A message with its current text. `message` is None if no notification is left to send.

    `included` are the rows of the notifications in the message, `cancelled` the reasons why others are
    cancelled.
    """

    message: OutgoingMessage | None
    included: tuple[int, ...] = ()
    cancelled: Mapping[int, Reason] = field(default_factory=dict)


class _Recipient(NamedTuple):
    """A message and its recipient. Without a contact, the person's own e-mail address receives it.

    A deleted contact counts as none. A channel other than e-mail then has no address, and refuses the
    message.
    """

    message_id: str
    channel: int
    kind: str | None
    # The name of the person who requested an invitation or a test message; None for other messages.
    requested_by: str | None
    user: int
    first_name: str
    last_name: str
    email: str
    time_zone: str
    removed_at: datetime | None
    contact: str | None

    @property
    def address(self) -> str:
        if self.contact is not None:
            return self.contact
        return self.email if self.channel == USER_EMAIL_CHANNEL else ""

    @property
    def reader(self) -> Recipient:
        return Recipient(get_display_name(cast(Any, self)), self.time_zone)


_RECIPIENT = Prepared(
    lambda: (
        Message.select(
            Message.message_id, Message.channel, Message.kind, Message.requested_by, Message.user,
            User.first_name, User.last_name, User.email, User.time_zone, User.removed_at, ContactMethod.value,
        )
        .join(User)
        .switch(Message)
        .join(ContactMethod, peewee.JOIN.LEFT_OUTER)
        .where(Message.id == bind("message"))
    )
)  # fmt: skip


class _PendingNotification(NamedTuple):
    """A pending notification with the current state of its incident."""

    notification: int
    kind: str
    reason: Reason
    user: int
    incident: int
    number: int
    title: str
    summary: str
    status: int
    urgency: int
    since: datetime
    service: str | None


_PENDING = Prepared(
    lambda: (
        Notification.select(
            Notification.id, Notification.kind, Notification.reason, Notification.user, Incident.id,
            Incident.incident_number,
            Incident.title, Incident.summary, Incident.status, Incident.urgency, Incident.creation_date,
            Service.name,
        )
        .join(Incident)
        .join(Service, peewee.JOIN.LEFT_OUTER)
        .where(Notification.message == bind("message"), Notification.state == NotificationStatus.PENDING)
        .order_by(Incident.incident_number, Notification.id)
    )
)  # fmt: skip

# Levels of the alerts that opened a message's incidents. An incident that a person created has no level.
_LEVELS = Prepared(
    lambda: (
        Event.select(Event.incident, Event.alert_type)
        .join(Notification, on=(Notification.incident == Event.incident))
        .where(Notification.message == bind("message"), Event.incident_created)
    )
)


def render_message(message_row: int, public_url: str, now: datetime) -> RenderedMessage:
    """Render a message with its pending notifications. Needs a connection, but no transaction."""
    found = _RECIPIENT.first(message=message_row)
    if found is None:
        return RenderedMessage(None)
    recipient = _Recipient(*found)
    if recipient.requested_by is not None:
        return _render_without_notifications(recipient, recipient.requested_by, public_url, now)
    pending = [_PendingNotification(*row) for row in _PENDING.rows(message=message_row)]
    cancelled = {
        notification.notification: reason
        for notification in pending
        if (reason := _get_cancel_reason(notification, recipient))
    }
    valid = [notification for notification in pending if notification.notification not in cancelled]
    if not valid:
        return RenderedMessage(None, cancelled=cancelled)
    incidents = _summarize_incidents(valid, message_row, public_url, now)
    content = build_incidents_content(incidents, recipient.reader)
    message = OutgoingMessage(recipient.message_id, recipient.address, content, now)
    return RenderedMessage(message, tuple(notification.notification for notification in valid), cancelled)


def _render_without_notifications(
    recipient: _Recipient, requested_by: str, public_url: str, now: datetime
) -> RenderedMessage:
    """Render a message without notifications: an invitation or a test message."""
    if recipient.removed_at is not None:
        return RenderedMessage(None)
    if recipient.kind == MessageKind.INVITATION:
        return _render_invitation(recipient, requested_by, public_url, now)
    return _render(recipient, build_test_content(requested_by, recipient.reader, now), now)


def _render_invitation(
    recipient: _Recipient, inviter: str, public_url: str, now: datetime
) -> RenderedMessage:
    """Render an invitation. The message is None if the person has joined meanwhile."""
    user = User.select(User, Account).join(Account).where(User.id == recipient.user).get()
    if user.is_verified:
        return RenderedMessage(None)
    teams = Team.select(Team.name).join(TeamMember).where(TeamMember.user == user).order_by(TeamMember.id)
    link = f"{public_url}/join/{signed_links.get_signer().sign_invitation(Invitation.for_user(user), now)}"
    invited = InvitationDetails(user.account.name, [team.name for team in teams], inviter, link)
    return _render(recipient, build_invitation_content(invited, recipient.reader), now)


def _render(recipient: _Recipient, content: MessageContent, now: datetime) -> RenderedMessage:
    return RenderedMessage(OutgoingMessage(recipient.message_id, recipient.address, content, now))


def _get_cancel_reason(notification: _PendingNotification, recipient: _Recipient) -> Reason | None:
    if recipient.removed_at is not None:
        return make_reason("person_removed")
    return get_cancel_reason(NotificationKind(notification.kind), IncidentStatus(notification.status))


def _summarize_incidents(
    pending: Iterable[_PendingNotification], message_row: int, public_url: str, now: datetime
) -> list[IncidentSummary]:
    """Return a summary of each incident once, although two rules of a person may use the same contact."""
    first_by_incident = {notification.incident: notification for notification in reversed(list(pending))}
    levels, signer = dict(_LEVELS.rows(message=message_row)), signed_links.get_signer()

    def summarize(notification: _PendingNotification) -> IncidentSummary:
        link = IncidentLink(notification.incident, notification.user, notification.notification)
        token = signer.sign(link, now)
        level = levels.get(notification.incident)
        return IncidentSummary(
            number=notification.number,
            title=notification.title,
            service=notification.service,
            urgency=Urgency(notification.urgency),
            level=AlertType(level) if level is not None else None,
            since=notification.since,
            reason=str(notification.reason),
            link=f"{public_url}/i/{token}",
            summary=notification.summary,
            status=IncidentStatus(notification.status),
            token=token,
        )

    return [
        summarize(notification)
        for notification in sorted(first_by_incident.values(), key=lambda notification: notification.number)
    ]
