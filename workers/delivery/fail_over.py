"""Notify a person through the next contact when a message of high urgency cannot be sent.

The next contact is that of the next notification rule of the person which is not used for this reason yet. A
notification that is due later becomes due now; nobody gets a second one for the same contact. If no contact
is left, the user's own e-mail address is notified (workers/delivery/fallback.py).
"""

from collections.abc import Collection, Iterable
from datetime import datetime

from models.domain.channels import CHANNELS, USER_EMAIL_CHANNEL
from models.domain.enums import (
    IncidentStatus,
    MessageKind,
    MessageStatus,
    NotificationKind,
    NotificationStatus,
    Urgency,
)
from models.domain.identity import hash_message_id
from models.domain.reasons import Reason, make_reason
from models.store.store import store
from models.tables.incidents import Incident
from models.tables.notifications import Message, Notification
from models.tables.users import ContactMethod, NotificationRule
from schedules.timers.retries import FAIL_OVER_AFTER, FAIL_OVER_ATTEMPTS
from workers.delivery.fallback import (
    Cause,
    get_base_key,
    load_message,
    lock_alternate,
    notify_user_email,
    take_turns,
)

# The messages of one pass over late messages.
PASS_LIMIT = 100
# The newest notifications of a bundle that go to the next contact. A storm puts thousands into a bundle,
# which would lock the database for seconds. The bundle itself is still sent, with all of them.
BUNDLED_LIMIT = 100


def lock_related(message: int) -> None:
    """Lock the pending notifications of all incidents of a message for its person.

    In the order of models/write/notifications.py; otherwise the two can deadlock.
    """
    of_message = Notification.select(Notification.incident).where(Notification.message == message)
    user = Message.select(Message.user).where(Message.id == message)
    related = Notification.select(Notification.id).where(
        Notification.incident.in_(of_message), Notification.user == user
    )
    list(store().for_update(related.order_by(Notification.id)))


def notify_next_contact(message_row: int, now: datetime) -> bool:
    """Notify the next contact of the person for the urgent notifications of a message, once.

    Return whether there is one, now or at an earlier call. Needs lock_related().
    """
    message = load_message(message_row)
    if message.failed_over_at is not None:
        return bool(message.failed_over)
    if message.requested_by is not None:
        return False
    is_limited = _is_limited(message, now)
    urgent = _load_urgent(message_row, BUNDLED_LIMIT if is_limited else None)
    if not urgent:
        return False
    name = message.contact.name if message.contact is not None else make_reason("deleted_contact")
    if message.contact is None and message.channel == USER_EMAIL_CHANNEL:
        name = make_reason("own_address")
    why = make_reason("next_contact", contact=name)
    if is_limited:
        why = make_reason("next_contact_limit", contact=name)
    found = _notify_next(message, urgent, why, now)
    done = Message.update(failed_over_at=now, failed_over=found)
    done.where(Message.id == message_row).execute()
    return found


def _is_limited(message: Message, now: datetime) -> bool:
    """Return whether a message is a bundle that waits until its contact may get a message again."""
    return message.kind == MessageKind.BUNDLE and not message.attempts and message.next_attempt_at > now


def list_urgent(message: int) -> list[int]:
    """Return the notifications of a message that notify_next_contact() gives to the next contact."""
    return [notification.id for notification in _load_urgent(message)]


def _load_urgent(message: int, newest: int | None = None) -> list[Notification]:
    """Return the pending notifications of a message about open incidents of high urgency.

    All of them, or only this number of the newest.
    """
    query = Notification.select().join(Incident)
    urgent = query.where(
        Notification.message == message,
        Notification.state == NotificationStatus.PENDING,
        Notification.kind != NotificationKind.RECOVERY,
        Incident.urgency == Urgency.HIGH,
        Incident.status != IncidentStatus.RESOLVED,
    )
    return list(urgent.order_by(Notification.id.desc()).limit(newest))[::-1]


def _notify_next(message: Message, urgent: Collection[Notification], why: Reason, now: datetime) -> bool:
    """Notify the first contact that is left, in the order of the delays of the rules."""
    by_base_key: dict[str, dict[int | None, Notification]] = {get_base_key(one.key): {} for one in urgent}
    siblings = Notification.select().where(
        Notification.user == message.user_id,
        Notification.incident.in_({one.incident_id for one in urgent}),
    )
    for one in siblings.order_by(Notification.id):
        if get_base_key(one.key) in by_base_key:
            by_base_key[get_base_key(one.key)][one.contact_id] = one
    later = {
        row.id
        for row in Message.select(Message.id).where(
            Message.id.in_({one.message_id for known in by_base_key.values() for one in known.values()}),
            Message.state == MessageStatus.PENDING,
            Message.attempts == 0,
            Message.next_attempt_at > now,
            Message.kind.is_null(),
        )
    }
    for contact in _list_contacts(message.user_id):
        known = [(one, by_base_key[get_base_key(one.key)].get(contact.id)) for one in urgent]
        pending = [each for _, each in known if each is not None and _is_later(each, later)]
        missing = [one for one, each in known if each is None]
        if pending:
            _make_due(pending, why, now)
        if missing:
            _create(message, missing, contact, why, now)
        if pending or missing:
            return True
    return False


def _is_later(notification: Notification, later: Collection[int]) -> bool:
    return notification.state == NotificationStatus.PENDING and notification.message_id in later


def _list_contacts(user: int) -> list[ContactMethod]:
    """Return the verified contacts of the person for high urgency, each once, in the order of the delays."""
    rules = (
        NotificationRule.select(NotificationRule, ContactMethod)
        .join(ContactMethod)
        .where(
            NotificationRule.user == user,
            NotificationRule.urgency == Urgency.HIGH,
            ContactMethod.value == ContactMethod.verified_value,
            ContactMethod.contact_type.in_(list(CHANNELS)),
        )
        .order_by(NotificationRule.start_delay, NotificationRule.id)
    )
    return list({rule.contact_id: rule.contact for rule in rules}.values())


def _make_due(notifications: Iterable[Notification], why: Reason, now: datetime) -> None:
    """Make notifications due now that were due later, with their messages."""
    messages = set()
    for one in notifications:
        changes = {"not_before": now, "reason": one.reason.add(why)}
        Notification.update(changes).where(Notification.id == one.id).execute()
        messages.add(one.message_id)
    Message.update(next_attempt_at=now).where(
        Message.id.in_(messages), Message.state == MessageStatus.PENDING
    ).execute()


def _create(
    failed: Message, missing: Iterable[Notification], contact: ContactMethod, why: Reason, now: datetime
) -> None:
    keys = {f"{get_base_key(one.key)}:{contact.id}:-": one for one in missing}
    message = Message.create(
        message_id=hash_message_id(list(keys)),
        account=failed.account_id,
        user=failed.user_id,
        contact=contact,
        channel=contact.contact_type,
        created_at=now,
        next_attempt_at=now,
    )
    for key, one in keys.items():
        Notification.create(
            key=key,
            incident=one.incident_id,
            user=one.user_id,
            contact=contact,
            kind=one.kind,
            reason=one.reason.add(why),
            not_before=now,
            message=message,
        )


def fail_over_late(now: datetime, down: Collection[int] = ()) -> list[int]:
    """Notify the next contact for messages that could not be sent in time. Return their rows.

    `down`: channels that accept nothing now, so that their messages are not even tried. The messages are
    still tried. E-mail is not included: relays are often slow, and tried for an hour.
    """
    handled = []
    for row in _find_late(now, down):
        with store().write_transaction():
            if _fail_over(row, now):
                handled.append(row)
    return handled


def _find_late(now: datetime, down: Collection[int]) -> list[int]:
    before = now - FAIL_OVER_AFTER
    is_ordinary, is_bundle = Message.kind.is_null(), Message.kind == MessageKind.BUNDLE
    # The outcome of a message that was not tried says that the host of its address accepts nothing now. That
    # of a bundle says why it is one.
    is_paused = (Message.attempts == 0) & Message.outcome.is_null(False) & is_ordinary
    # As _is_limited(). When its time has come, a bundle is late like other messages, but from that time on.
    is_limited = is_bundle & (Message.attempts == 0) & (Message.next_attempt_at > now)
    is_late_bundle = is_bundle & (Message.next_attempt_at <= before)
    is_down = Message.channel.in_(list(down)) & (is_ordinary | is_late_bundle)
    is_held = is_down | is_paused | is_limited
    late = (
        Message.select(Message.id)
        .join(Notification, on=(Notification.message == Message.id))
        .join(Incident)
        .where(
            Message.state == MessageStatus.PENDING,
            Message.channel.in_([channel for channel in CHANNELS if channel != USER_EMAIL_CHANNEL]),
            Message.failed_over_at.is_null(),
            is_ordinary | is_bundle,
            Message.claimed_until.is_null() | (Message.claimed_until <= now),
            (Message.attempts >= FAIL_OVER_ATTEMPTS)
            | (Message.first_attempt_at <= before)
            | (is_held & (Notification.not_before <= before)),
            Notification.state == NotificationStatus.PENDING,
            Incident.urgency == Urgency.HIGH,
            Incident.status == IncidentStatus.TRIGGERED,
        )
        .distinct()
        .order_by(Message.id)
        .limit(PASS_LIMIT)
    )
    return [row for (row,) in late.tuples()]


def _fail_over(row: int, now: datetime) -> bool:
    """Notify the next contact of a late message, else the user's own e-mail address, in turn with it.

    A bundle that waits for the limit of its contact is only late for the next contact: a mail in place of it
    would wake nobody.
    """
    locked = store().for_update(Message.select().where(Message.id == row), skip_locked=True).first()
    if locked is None or locked.state != MessageStatus.PENDING or locked.failed_over_at is not None:
        return False
    alternate = lock_alternate(row, locked.instead_of_id)
    lock_related(row)
    if not notify_next_contact(row, now) and alternate is None and not _is_limited(locked, now):
        alternate = notify_user_email(row, now, Cause.FAILED)
        if alternate is not None:
            held = take_turns(alternate, now, FAIL_OVER_AFTER) + FAIL_OVER_AFTER
            Message.update(next_attempt_at=held).where(Message.id == row).execute()
    # Also without another contact: this is done once.
    done = Message.update(failed_over_at=now).where(Message.id == row, Message.failed_over_at.is_null())
    done.execute()
    return True
