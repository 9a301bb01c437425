"""Write notifications, and group them into outgoing messages."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from models.domain.effects import CancelNotifications, NotificationState
from models.domain.enums import SLA_KINDS, NotificationStatus
from models.domain.identity import hash_message_id
from models.domain.reasons import Reason
from models.store import bulk
from models.store.base import store
from models.store.prepared import Prepared, bind, in_bound, in_list
from models.tables.incidents import Incident
from models.tables.notifications import Message, Notification, get_reason_key
from models.write.timers import reset_fired


@dataclass(slots=True)
class NewNotification:
    """A notification that is not stored yet.

    - `cancelled_by`: its cancellation in the same change set.
    - `message`: the row of its outgoing message; None until it is written.
    """

    notification: NotificationState
    cancelled_by: CancelNotifications | None = None
    message: int | None = None


def write_notifications(pending: Mapping[str, NewNotification], incident_rows: Mapping[str, int]) -> None:
    """Write notifications with a new key, or whose stored row was cancelled before it was sent.

    Each notification is in exactly one message. One message has the notifications of one transaction for the
    same contact, reason and step. A message with only cancelled notifications is also written: the delivery
    records that it is cancelled.
    """
    rows = _find_writable(pending)
    if not rows:
        return
    written = [pending[key] for key in rows]
    groups = _group_by_message(written, rows)
    now = min(item.notification.not_before for item in written)
    messages = _insert_messages(groups, _get_account(written[0], incident_rows), now)
    for name, group in groups.items():
        for item in group:
            item.message = messages[name]
    records = {
        item.notification.key: _build_record(item, incident_rows)
        for group in groups.values()
        for item in group
    }
    bulk.insert(Notification, [record for key, record in records.items() if rows[key] is None])
    bulk.update(Notification, [{"id": rows[key], **record} for key, record in records.items() if rows[key]])


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


def _group_by_message(
    pending: list[NewNotification], rows: Mapping[str, int | None]
) -> dict[str, list[NewNotification]]:
    """Return the notifications by message_id.

    A notification that is created again after it was cancelled gets a new message, because a worker may be
    sending the old message now.
    """
    now = store().now()
    groups: dict[tuple[object, ...], list[NewNotification]] = {}
    for item in pending:
        groups.setdefault(item.notification.message_group(now), []).append(item)
    return {
        hash_message_id([_get_message_key(item, rows) for item in group]): group for group in groups.values()
    }


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


def _insert_messages(
    groups: Mapping[str, list[NewNotification]], account: int, now: datetime
) -> dict[str, int]:
    """Insert the messages and return their row numbers by message_id."""
    records = []
    for name, group in groups.items():
        first = group[0].notification
        records.append(
            {
                "message_id": name,
                "account": account,
                "user": first.user,
                "contact": first.contact,
                "channel": first.channel,
                "created_at": now,
                # A message is never early: its last due notification decides.
                "next_attempt_at": max(item.notification.not_before for item in group),
            }
        )
    bulk.insert(Message, records)
    return dict(_MESSAGE_ROWS.rows(message_ids=list(groups)))


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
