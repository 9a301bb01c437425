"""Write notifications, and group them into outgoing messages."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeGuard

from models.domain.channels import get_channel_name
from models.domain.effects import CancelNotifications, NotificationState
from models.domain.enums import SLA_KINDS, NotificationStatus
from models.domain.identity import hash_message_id
from models.domain.reasons import Reason
from models.store import bulk
from models.store.prepared import Prepared, bind, in_bound, in_list
from models.store.store import store
from models.tables.incidents import Incident
from models.tables.notifications import Message, Notification, get_reason_key
from models.write.shared_messages import NOT_HELD, build_hold, find_shared
from models.write.timers import reset_fired
from runtime import metrics


@dataclass(slots=True)
class NewNotification:
    """A notification that is not stored yet.

    - `pieces_of`: the name of the receipt in pieces that it belongs to.
    - `cancelled_by`: its cancellation in the same change set.
    - `message`: the row of its outgoing message; None until it is written.
    """

    notification: NotificationState
    pieces_of: str | None = None
    cancelled_by: CancelNotifications | None = None
    message: int | None = None


def write_notifications(pending: Mapping[str, NewNotification], incident_rows: Mapping[str, int]) -> None:
    """Write notifications with a new key, or whose stored row was cancelled before it was sent.

    Each notification is in exactly one message. One message has the notifications of one transaction, or of
    the pieces of one receipt, for the same contact, reason and step. A message with only cancelled
    notifications is also written: the delivery records that it is cancelled.
    """
    rows = _find_writable(pending)
    if not rows:
        return
    written = [pending[key] for key in rows]
    _find_messages(written, rows, incident_rows)
    records = {item.notification.key: _build_record(item, incident_rows) for item in written}
    bulk.insert(Notification, [record for key, record in records.items() if rows[key] is None])
    bulk.update(Notification, [{"id": rows[key], **record} for key, record in records.items() if rows[key]])
    created = (item.notification.channel for item in written if item.cancelled_by is None)
    metrics.count_created(map(get_channel_name, created))


def _find_messages(
    written: list[NewNotification], rows: Mapping[str, int | None], incident_rows: Mapping[str, int]
) -> None:
    """Set the message of each notification: one of an earlier piece that is held, or a new one."""
    now = store().now()
    groups = _group_by_message(written, now)
    shared = find_shared({key[0] for key in groups if _is_shared(key)})
    new: dict[str, _NewMessage] = {}
    for key, group in groups.items():
        joined = shared.open_rows.get(key) if _is_shared(key) else None
        if joined is None:
            hold = build_hold(shared, key, now) if _is_shared(key) else {}
            new[hash_message_id([_get_message_key(item, rows) for item in group])] = _NewMessage(group, hold)
        for item in group:
            item.message = joined
    if not new:
        return
    messages = _insert_messages(
        new,
        _get_account(written[0], incident_rows),
        min(item.notification.not_before for item in written),
    )
    for name, message in new.items():
        for item in message.notifications:
            item.message = messages[name]


def cancel_pending(effects: Iterable[CancelNotifications], incident_rows: Mapping[str, int]) -> None:
    """Cancel the pending notifications of these incidents, each by the first effect that matches its kind.

    The one-time timer of a cancelled SLA notification is reset, so that it can be created again.
    """
    by_row: dict[int, list[CancelNotifications]] = {}
    for effect in effects:
        by_row.setdefault(incident_rows[effect.incident], []).append(effect)
    records = []
    cancelled = {}
    for row, incident, kind, key in _PENDING.rows(incidents=list(by_row)):
        cancel = next((item for item in by_row[incident] if kind in item.kinds), None)
        if cancel is not None:
            changes = {"state": NotificationStatus.CANCELLED, "outcome": cancel.outcome, "done_at": cancel.at}
            records.append({"id": row, **changes})
            if kind in SLA_KINDS:
                cancelled[incident, get_reason_key(key)] = cancel.outcome
    bulk.update(Notification, records)
    reset_fired(cancelled)


# Locked in the same order as by a delivery; otherwise the two can deadlock.
_PENDING = Prepared(
    lambda: store().for_update(
        Notification.select(Notification.id, Notification.incident, Notification.kind, Notification.key)
        .where(in_bound(Notification.incident, "incidents"), Notification.state == NotificationStatus.PENDING)
        .order_by(Notification.id)
    )
)


def cancel_by_key(incident: int, keys: str, at: datetime, outcome: Reason) -> None:
    """Cancel the pending notifications of an incident (row number) whose key starts with `keys`."""
    has_prefix = Notification.key.startswith(keys)
    pending = Notification.select(Notification.id).where(
        Notification.incident == incident, Notification.state == NotificationStatus.PENDING, has_prefix
    )
    # Locked in the same order as by a delivery; otherwise the two can deadlock.
    rows = [row.id for row in store().for_update(pending.order_by(Notification.id))]
    query = Notification.update(state=NotificationStatus.CANCELLED, outcome=outcome, done_at=at)
    query.where(in_list(Notification.id, rows)).execute()


# What the notifications of a message have in common: the name of a receipt in pieces and a hash, or a tuple.
_GroupKey = tuple[str, str] | tuple[object, ...]


def _is_shared(key: _GroupKey) -> TypeGuard[tuple[str, str]]:
    return isinstance(key[0], str)


@dataclass(frozen=True, slots=True)
class _NewMessage:
    """A message that is not stored yet; `hold` has the columns of a message that later pieces may join."""

    notifications: list[NewNotification]
    hold: Mapping[str, object]


def _group_by_message(
    pending: list[NewNotification], now: datetime
) -> dict[_GroupKey, list[NewNotification]]:
    """Return the notifications of each message.

    A notification that is created again after it was cancelled gets a new message, because a worker may be
    sending the old message now.
    """
    groups: dict[_GroupKey, list[NewNotification]] = {}
    for item in pending:
        groups.setdefault(_get_group_key(item, now), []).append(item)
    return groups


def _get_group_key(item: NewNotification, now: datetime) -> _GroupKey:
    notification = item.notification
    if item.pieces_of is None:
        return notification.message_group(now)
    # All alerts of a receipt have the same time. So their key does not depend on the time of processing.
    to = (notification.user, notification.contact, notification.channel)
    shared = (*map(str, to), notification.group_key, notification.not_before.isoformat())
    return item.pieces_of, hash_message_id(["\n".join(shared)])


def _get_message_key(item: NewNotification, rows: Mapping[str, int | None]) -> str:
    key = item.notification.key
    return key if rows[key] is None else f"{key}:{item.notification.not_before.isoformat()}"


_KNOWN_KEYS = Prepared(
    lambda: Notification.select(Notification.key, Notification.id, Notification.state).where(
        in_bound(Notification.key, "keys")
    )
)
_ACCOUNT = Prepared(lambda: Incident.select(Incident.account).where(Incident.id == bind("incident")))
_MESSAGE_ROWS = Prepared(
    lambda: Message.select(Message.message_id, Message.id).where(in_bound(Message.message_id, "message_ids"))
)


def _find_writable(pending: Mapping[str, NewNotification]) -> dict[str, int | None]:
    """Return the keys of notifications to write, with the row of a cancelled one; None: it is new.

    Sent and pending notifications are not created again (invariant 8, design, section 2).
    """
    existing = {key: (row, state) for key, row, state in _KNOWN_KEYS.rows(keys=list(pending))}
    stored = {key: existing.get(key, (None, NotificationStatus.CANCELLED)) for key in pending}
    return {key: row for key, (row, state) in stored.items() if state == NotificationStatus.CANCELLED}


def _get_account(item: NewNotification, incident_rows: Mapping[str, int]) -> int:
    stored = _ACCOUNT.first(incident=incident_rows[item.notification.incident])
    assert stored is not None
    account: int = stored[0]
    return account


def _insert_messages(new: Mapping[str, _NewMessage], account: int, now: datetime) -> dict[str, int]:
    """Insert messages by message_id, and return their row numbers."""
    records = []
    for name, message in new.items():
        first = message.notifications[0].notification
        records.append(
            {
                "message_id": name,
                "account": account,
                "user": first.user,
                "contact": first.contact,
                "channel": first.channel,
                "created_at": now,
                # A message is never early: its last due notification decides.
                "next_attempt_at": max(item.notification.not_before for item in message.notifications),
                **NOT_HELD,
                **message.hold,
            }
        )
    bulk.insert(Message, records)
    return dict(_MESSAGE_ROWS.rows(message_ids=list(new)))


def _build_record(item: NewNotification, incident_rows: Mapping[str, int]) -> dict[str, object]:
    notification, cancelled = item.notification, item.cancelled_by
    return {
        "key": notification.key,
        "incident": incident_rows[notification.incident],
        "user": notification.user,
        "contact": notification.contact,
        "rule": notification.rule,
        "kind": notification.kind.value,
        "reason": notification.reason,
        "not_before": notification.not_before,
        "state": NotificationStatus.CANCELLED if cancelled else NotificationStatus.PENDING,
        "outcome": cancelled.outcome if cancelled else None,
        "done_at": cancelled.at if cancelled else None,
        "message": item.message,
    }
