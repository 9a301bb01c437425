"""Render a message from current rows just before it is sent.

A notification is cancelled with a reason if its incident has changed, or if its person was removed: invariant
8 (design, section 2).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple, cast

import peewee

from models.contacts.contact_codes import find_valid_code, is_own_address, is_same_address
from models.contacts.toll_limits import find_toll_obstacle
from models.domain.channels import USER_EMAIL_CHANNEL
from models.domain.enums import (
    SLA_KINDS,
    AlertType,
    ContactType,
    IncidentStatus,
    MessageKind,
    NotificationKind,
    NotificationStatus,
    SwapState,
    Urgency,
)
from models.domain.message_limits import UNVERIFIED_LIMIT
from models.domain.reasons import Reason, make_reason, write_clause
from models.domain.values import replace
from models.links import signed_links
from models.links.reply_codes import make_reply_code
from models.links.signed_links import Bundle, IncidentLink, Invitation, SwapLink
from models.sign_in import links
from models.store.prepared import Prepared, bind, in_bound
from models.tables.accounts import Account, User, get_display_name
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident
from models.tables.notifications import Message, Notification
from models.tables.schedules import Schedule, ShiftSwap
from models.tables.services import Service
from models.tables.teams import Team, TeamMember
from models.tables.users import ContactMethod
from models.write.delivery_reports import REPORTED_FAILED
from pipeline.messages.account import (
    SWAP_RESULTS,
    InvitationDetails,
    SwapDetails,
    build_bounced_content,
    build_browser_content,
    build_code_content,
    build_invitation_content,
    build_sign_in_content,
    build_swap_content,
    build_swap_result_content,
    build_test_content,
)
from pipeline.messages.changed import build_changed_content
from pipeline.messages.content import MessageContent, Recipient
from pipeline.messages.incidents import (
    MAX_LISTED,
    IncidentSummary,
    build_bundle_content,
    build_incidents_content,
)
from pipeline.messages.stakeholder_text import build_stakeholder_content
from schedules.escalation.person_notifications import get_cancel_reason
from schedules.timers.sla import describe_state
from workers.delivery import stakeholder_mails
from workers.delivery.attempts import DeliveryOutcome
from workers.delivery.bundles import find_limit, is_over_daily_limit
from workers.delivery.message_details import load_details
from workers.delivery.transport.channel import OutgoingMessage


@dataclass(frozen=True, slots=True)
class RenderedMessage:
    """A message with its current text. `message` is None if no notification is left to send.

    `included` are the rows of the notifications in the message, `cancelled` the reasons why others are
    cancelled. `obstacle`: why the message is not sent to its address.
    """

    message: OutgoingMessage | None
    included: tuple[int, ...] = ()
    cancelled: Mapping[int, Reason] = field(default_factory=dict)
    obstacle: tuple[DeliveryOutcome, Reason] | None = None


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
    # The address for which a test message was requested; None for other messages.
    requested_address: str | None
    user: int
    first_name: str
    last_name: str
    email: str
    time_zone: str
    removed_at: datetime | None
    verified_email: str | None
    contact: str | None
    verified_value: str | None
    contact_row: int | None
    # Why the message is not sent yet, or a provider's report that it was not delivered.
    outcome: Reason | None
    account: int
    # The unique_id of the swap of shifts that a mail is about.
    group_key: str | None

    @property
    def is_own_address(self) -> bool:
        """Whether the message goes to the user's own e-mail address."""
        return is_own_address(self.channel, self.address, self.email)

    @property
    def is_verified(self) -> bool:
        if self.contact is not None and self.verified_value == self.contact:
            return True
        if self.is_own_address:
            return is_same_address(self.verified_email, self.email)
        return self.contact is None

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
            Message.message_id, Message.channel, Message.kind, Message.requested_by,
            Message.requested_address, Message.user,
            User.first_name, User.last_name, User.email, User.time_zone, User.removed_at,
            User.verified_email, ContactMethod.value, ContactMethod.verified_value, ContactMethod.id,
            Message.outcome, Message.account, Message.group_key,
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
    unique_id: str
    number: int
    title: str
    summary: str
    status: int
    urgency: int
    since: datetime
    resolved_at: datetime | None
    service: str | None


def _select_notifications(state: NotificationStatus) -> peewee.ModelSelect:
    """Return the notifications of a message in this state, with the current states of their incidents."""
    return (
        Notification.select(
            Notification.id, Notification.kind, Notification.reason, Notification.user, Incident.id,
            Incident.unique_id, Incident.incident_number,
            Incident.title, Incident.summary, Incident.status, Incident.urgency, Incident.creation_date,
            Incident.resolved_date, Service.name,
        )
        .join(Incident)
        .join(Service, peewee.JOIN.LEFT_OUTER)
        .where(Notification.message == bind("message"), Notification.state == state)
        .order_by(Incident.incident_number, Notification.id)
    )  # fmt: skip


_PENDING = Prepared(lambda: _select_notifications(NotificationStatus.PENDING))
_SENT = Prepared(lambda: _select_notifications(NotificationStatus.SENT))

# Levels and trace_ids of the alerts that opened these incidents. An incident that a person created has
# neither. The incidents are values, and the receipt is searched for each alert: with joins, PostgreSQL reads
# the alerts of all incidents, or all receipts.
_OPENERS = Prepared(
    lambda: Event.select(
        Event.incident,
        Event.alert_type,
        Receipt.select(Receipt.trace_id).where(Receipt.id == Event.receipt),
    ).where(in_bound(Event.incident, "incidents"), Event.incident_created)
)


def render_message(message_row: int, public_url: str, now: datetime) -> RenderedMessage:
    """Render a message with its pending notifications. Needs a connection, but no transaction."""
    found = _RECIPIENT.first(message=message_row)
    if found is None:
        return RenderedMessage(None)
    recipient = _Recipient(*found)
    if recipient.requested_by is not None:
        rendered = _render_without_notifications(message_row, recipient, public_url, now)
        return replace(rendered, obstacle=rendered.obstacle or _find_obstacle(recipient, message_row, now))
    pending = [_PendingNotification(*row) for row in _PENDING.rows(message=message_row)]
    cancelled = {
        notification.notification: reason
        for notification in pending
        if (reason := _get_cancel_reason(notification, recipient))
    }
    valid = [notification for notification in pending if notification.notification not in cancelled]
    if not valid:
        return RenderedMessage(None, cancelled=cancelled)
    obstacle = _find_obstacle(recipient, message_row, now) or _find_limit(recipient, valid, message_row, now)
    if obstacle is not None:
        # The message is not sent: its text is not needed.
        empty = OutgoingMessage(recipient.message_id, recipient.address, MessageContent("", ()), now)
        rows = tuple(notification.notification for notification in valid)
        return RenderedMessage(empty, rows, cancelled, obstacle)
    incidents = _summarize_incidents(valid, public_url, now)
    if recipient.kind == MessageKind.BUNDLE:
        token = signed_links.get_signer().sign_bundle(Bundle(message_row, recipient.user), now)
        content = build_bundle_content(incidents, recipient.reader, f"{public_url}/b/{token}")
    else:
        content = build_incidents_content(incidents, recipient.reader)
    reply_code = make_reply_code(recipient.message_id) if recipient.channel == ContactType.SMS else ""
    message = OutgoingMessage(recipient.message_id, recipient.address, content, now, reply_code)
    included = tuple(notification.notification for notification in valid)
    return RenderedMessage(message, included, cancelled)


def _find_limit(
    recipient: _Recipient, valid: Iterable[_PendingNotification], message_row: int, now: datetime
) -> tuple[DeliveryOutcome, Reason] | None:
    """Return why the notifications of a message go into a bundle: the contact got enough messages.

    Messages that are not urgent use half of the limit, so that they never delay an urgent one.
    """
    if recipient.kind in (MessageKind.BUNDLE, MessageKind.DAILY):
        return None
    contact = None if recipient.is_own_address else recipient.contact_row
    is_urgent = any(each.urgency == Urgency.HIGH and each.kind != NotificationKind.RECOVERY for each in valid)
    exceeded = find_limit(recipient.user, recipient.channel, contact, message_row, now, is_urgent=is_urgent)
    if exceeded is None:
        return None
    minutes = round(exceeded.window.total_seconds() / 60)
    return DeliveryOutcome.BUNDLED, make_reason("message_limit", limit=exceeded.most, minutes=minutes)


def render_change(message_row: int, public_url: str, now: datetime) -> OutgoingMessage | None:
    """Render a message that was sent, with the current status of its incidents.

    None if its person may not get it any more: then it stays as it is. Needs a connection, but no
    transaction.
    """
    found = _RECIPIENT.first(message=message_row)
    recipient = _Recipient(*found) if found is not None else None
    if recipient is None or recipient.removed_at is not None or not recipient.is_verified:
        return None
    sent = [_PendingNotification(*row) for row in _SENT.rows(message=message_row)]
    if not sent or not recipient.address:
        return None
    incidents = _summarize_incidents(sent, public_url, now)
    content = build_changed_content(incidents, recipient.reader)
    return OutgoingMessage(recipient.message_id, recipient.address, content, now)


def _find_obstacle(
    recipient: _Recipient, message_row: int, now: datetime
) -> tuple[DeliveryOutcome, Reason] | None:
    """Return why a message is not sent to its address: it is not verified, or another one was meant.

    The user's own address gets a limited number of messages. Another contact gets only its code, and test
    messages that the administrator of the host sends. A test message goes to the address for which it was
    requested, or to none. A message that the provider did not deliver is not sent again.
    """
    if recipient.outcome is not None and recipient.outcome.code == REPORTED_FAILED:
        return DeliveryOutcome.REPORTED_FAILED, recipient.outcome
    requested = recipient.requested_address
    if requested is not None and requested != recipient.address:
        return DeliveryOutcome.CANCELLED, make_reason("contact_changed")
    is_requested = recipient.requested_by is not None
    too_expensive = find_toll_obstacle(
        recipient.account, recipient.channel, recipient.address, now, is_requested=is_requested
    )
    if too_expensive is not None and recipient.address:
        return DeliveryOutcome.TOO_EXPENSIVE, too_expensive
    if recipient.is_verified or recipient.kind in (MessageKind.CODE, MessageKind.DAILY):
        return None
    if not recipient.is_own_address:
        if recipient.requested_by is not None:
            return None
        return DeliveryOutcome.UNVERIFIED, make_reason("contact_not_verified")
    if not is_over_daily_limit(recipient.user, message_row, now):
        return None
    return DeliveryOutcome.OVER_LIMIT, make_reason("daily_limit", limit=UNVERIFIED_LIMIT.most)


def _render_without_notifications(
    message_row: int, recipient: _Recipient, public_url: str, now: datetime
) -> RenderedMessage:
    """Render a message without notifications: an invitation, a code, a sign-in link and others."""
    requested_by = recipient.requested_by or ""
    if recipient.kind == MessageKind.STAKEHOLDER:
        return _render_stakeholder_mail(message_row, recipient, now)
    if recipient.removed_at is not None:
        return RenderedMessage(None)
    if recipient.kind == MessageKind.INVITATION:
        return _render_invitation(recipient, requested_by, public_url, now)
    if recipient.kind == MessageKind.CODE:
        code = find_valid_code(message_row, now)
        if code is None:
            return RenderedMessage(None)
        return _render(recipient, build_code_content(code, requested_by, recipient.reader), now)
    if recipient.kind == MessageKind.SIGN_IN:
        return _render_sign_in(recipient, requested_by, public_url, now)
    if recipient.kind == MessageKind.BOUNCED:
        link = f"{public_url}/mine/"
        return _render(recipient, build_bounced_content(requested_by, link, recipient.reader), now)
    if recipient.kind == MessageKind.SWAP or recipient.kind in SWAP_RESULTS:
        return _render_swap(recipient, MessageKind(recipient.kind), requested_by, public_url, now)
    if recipient.kind == MessageKind.BROWSER:
        return _render(recipient, build_browser_content(requested_by, recipient.reader, now), now)
    return _render(recipient, build_test_content(requested_by, recipient.reader, now), now)


def _render_stakeholder_mail(message_row: int, recipient: _Recipient, now: datetime) -> RenderedMessage:
    """Render a mail to a stakeholder, if this member or address may still get it."""
    mail = stakeholder_mails.load(message_row)
    if mail is None:
        return RenderedMessage(None)
    to = stakeholder_mails.find_address(mail)
    if isinstance(to, Reason):
        empty = OutgoingMessage(recipient.message_id, "", MessageContent("", ()), now)
        return RenderedMessage(empty, obstacle=(DeliveryOutcome.CANCELLED, to))
    reader = Recipient(mail.name, mail.user.time_zone if mail.user else mail.time_zone)
    content = build_stakeholder_content(stakeholder_mails.summarize(mail), reader)
    return RenderedMessage(OutgoingMessage(recipient.message_id, to, content, now))


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


def _render_swap(
    recipient: _Recipient, kind: MessageKind, by: str, public_url: str, now: datetime
) -> RenderedMessage:
    """Render a mail about a swap of shifts. The message is None if nobody waits for an answer any more."""
    row = ShiftSwap.select(ShiftSwap, Schedule).join(Schedule)
    found = row.where(ShiftSwap.unique_id == recipient.group_key).first()
    link = f"{public_url}/on-call/{found.schedule.unique_id}/" if found is not None else f"{public_url}/mine/"
    details = _describe_swap(found, recipient.user) if found is not None else None
    if kind is not MessageKind.SWAP:
        return _render(recipient, build_swap_result_content(kind, by, details, link, recipient.reader), now)
    if (
        details is None
        or found.state != SwapState.ASKED
        or min(found.asked_start, found.returned_start) <= now
    ):
        return RenderedMessage(None)
    signer, ends_at = signed_links.get_signer(), min(found.asked_start, found.returned_start)
    link = f"{public_url}/swap/{signer.sign_swap(SwapLink(found.id, recipient.user), ends_at)}"
    return _render(recipient, build_swap_content(by, details, link, recipient.reader), now)


def _describe_swap(swap: ShiftSwap, reader: int) -> SwapDetails:
    asked, returned = (swap.asked_start, swap.asked_end), (swap.returned_start, swap.returned_end)
    given, taken = (asked, returned) if swap.asker_id == reader else (returned, asked)
    return SwapDetails(swap.schedule.name, given, taken)


def _render_sign_in(recipient: _Recipient, unique_id: str, public_url: str, now: datetime) -> RenderedMessage:
    """Render a sign-in link. The message is None if the link has expired, or was replaced."""
    link = links.find(unique_id)
    if link is None or link.ends_at <= now:
        return RenderedMessage(None)
    url = f"{public_url}/sign-in/link/{signed_links.get_signer().sign_sign_in(link.unique_id)}"
    minutes = round(links.MAIL_LIFE.total_seconds() / 60)
    content = build_sign_in_content(link.user.account.name, url, minutes, recipient.reader)
    return _render(recipient, content, now)


def _render(recipient: _Recipient, content: MessageContent, now: datetime) -> RenderedMessage:
    return RenderedMessage(OutgoingMessage(recipient.message_id, recipient.address, content, now))


def _get_cancel_reason(notification: _PendingNotification, recipient: _Recipient) -> Reason | None:
    if recipient.removed_at is not None:
        return make_reason("person_removed")
    return get_cancel_reason(NotificationKind(notification.kind), IncidentStatus(notification.status))


def _summarize_incidents(
    pending: Iterable[_PendingNotification], public_url: str, now: datetime
) -> list[IncidentSummary]:
    """Return a summary of each incident once, although two rules of a person may use the same contact."""
    first_by_incident = {notification.incident: notification for notification in reversed(list(pending))}
    details = None
    if len(first_by_incident) == 1:
        (only,) = first_by_incident.values()
        details = load_details(only.incident, only.user, now)
    ordered = sorted(first_by_incident.values(), key=lambda notification: notification.number)
    listed = [notification.incident for notification in ordered[:MAX_LISTED]]
    openers = {incident: rest for incident, *rest in _OPENERS.rows(incidents=listed)}
    signer = signed_links.get_signer()
    # Most incidents of a mail have the same reason.
    write = cache(write_clause)

    def summarize(notification: _PendingNotification, *, is_listed: bool) -> IncidentSummary:
        link = IncidentLink(notification.incident, notification.user, notification.notification)
        token = signer.sign(link, now) if is_listed else ""
        level, trace_id = openers.get(notification.incident, (None, ""))
        return IncidentSummary(
            number=notification.number,
            title=notification.title,
            service=notification.service,
            urgency=Urgency(notification.urgency),
            level=AlertType(level) if level is not None else None,
            since=notification.since,
            reason=write(notification.reason) if is_listed else "",
            link=f"{public_url}/i/{token}" if is_listed else "",
            summary=notification.summary,
            status=IncidentStatus(notification.status),
            token=token,
            trace_id=trace_id,
            unique_id=notification.unique_id,
            sla=describe_state(notification.reason) if notification.kind in SLA_KINDS else "",
            resolved_at=notification.resolved_at,
            is_recovery=notification.kind == NotificationKind.RECOVERY,
            notification=notification.notification,
            details=details,
        )

    # To sign a link and to write a reason cost the most. The incidents that are only counted have neither.
    return [
        summarize(notification, is_listed=index < MAX_LISTED) for index, notification in enumerate(ordered)
    ]
