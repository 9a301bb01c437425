"""Record what a provider reports about a message after it accepted the message.

A report can be faster than the record of the delivery attempt. It is kept then, and applied with that record.
"""

from datetime import datetime, timedelta

from models.domain.channels import get_channel_name
from models.domain.enums import (
    KINDS_WHILE_OPEN,
    OPEN_KINDS,
    IncidentStatus,
    MessageStatus,
    NotificationStatus,
    ProviderState,
)
from models.domain.reasons import Reason, make_reason
from models.store import bulk
from models.store.ids import digest
from models.store.prepared import Prepared, bind, in_list
from models.store.store import store
from models.tables.callbacks import EarlyReport
from models.tables.incidents import Incident
from models.tables.notifications import Attempt, Message, Notification
from runtime import metrics
from runtime.late_logs import LateLogger

# The code of the outcome of a message that the provider accepted and did not deliver.
REPORTED_FAILED = "reported_failed"

# A report is stored only if its state is later in this order than the stored one: callbacks can overtake
# each other. A message that arrived after a report of failure did arrive.
_ORDER = (None, ProviderState.SENT, ProviderState.FAILED, ProviderState.DELIVERED)


# A report is kept for longer than a worker may need to record the attempt after the provider's answer.
EARLY_FOR = timedelta(minutes=10)
# The reports that are kept at most. Only a provider can send them.
MAX_EARLY = 10_000
# Old reports that one report deletes.
MAX_DELETED = 100

log = LateLogger()


def record_report(
    provider: str, provider_id: str, state: ProviderState, at: datetime, why: Reason | None = None
) -> bool:
    """Store a report about a message, by its id at the provider. Return whether it says something new.

    After a report of failure, notifications of triggered incidents are pending again: a worker does not send
    the message again, but treats it as one that failed for good. `why`: what the provider says about it.
    A report about an id that no attempt has is kept for some minutes.
    """
    if not provider_id:
        return False
    with store().write_transaction():
        store().lock_key(_make_key(provider, provider_id))
        attempt = _lock_attempt(provider, provider_id)
        if attempt is None:
            _keep(provider, provider_id, state, at, why)
            return False
        return _apply(attempt, provider, state, at, why)


def lock_reports(provider: str, provider_id: str) -> None:
    """Let reports about this message wait until the transaction that records its attempt has ended."""
    store().lock_key(_make_key(provider, provider_id))


def apply_early_report(provider: str, provider_id: str) -> None:
    """Apply the report about a message that arrived before the record of its attempt, if there is one.

    Needs the transaction that records the attempt, and lock_reports() before.
    """
    key = _make_key(provider, provider_id)
    found = _EARLY.first(key=key)
    attempt = _lock_attempt(provider, provider_id) if found is not None else None
    if found is not None and attempt is not None:
        state, at, why = found
        _apply(attempt, provider, ProviderState(state), at, why)
        EarlyReport.delete().where(EarlyReport.key == key).execute()


_EARLY = Prepared(
    lambda: EarlyReport.select(EarlyReport.state, EarlyReport.at, EarlyReport.reason).where(
        EarlyReport.key == bind("key")
    )
)


def _make_key(provider: str, provider_id: str) -> str:
    return digest(f"{provider}:{provider_id}")


def _keep(provider: str, provider_id: str, state: ProviderState, at: datetime, why: Reason | None) -> None:
    """Keep a report, unless a kept one about the same message is later."""
    old = EarlyReport.select(EarlyReport.id).where(EarlyReport.at < at - EARLY_FOR).limit(MAX_DELETED)
    rows = [row.id for row in store().for_update(old, skip_locked=True)]
    EarlyReport.delete().where(in_list(EarlyReport.id, rows)).execute()
    key = _make_key(provider, provider_id)
    kept = _EARLY.first(key=key)
    if kept is not None and not _is_later(state, kept[0]):
        return
    if kept is None and EarlyReport.select().count() >= MAX_EARLY:
        log.warning("a report about an unknown message is not kept", provider=provider, kept=MAX_EARLY)
        return
    row = {"key": key, "state": state.value, "reason": why, "at": at}
    bulk.insert(EarlyReport, [row], conflict=["key"], replacing=["state", "reason", "at"])


def _apply(attempt: Attempt, provider: str, state: ProviderState, at: datetime, why: Reason | None) -> bool:
    """Store a report with its attempt, whose message is locked. Return whether it says something new."""
    if not _is_later(state, attempt.provider_state):
        return False
    changes: dict[str, object] = {"provider_state": state.value, "reported_at": at}
    reason = make_reason("reported_failed", provider=provider).add(why)
    if state is ProviderState.FAILED:
        changes["detail"] = attempt.detail.add(reason)
    Attempt.update(changes).where(Attempt.id == attempt.id).execute()
    count = _count_notifications(attempt.message_id)
    if state is ProviderState.FAILED and _is_last(attempt):
        _fail(attempt.message_id, reason, at)
    metrics.count_reported(get_channel_name(attempt.message.channel), state.value, count)
    return True


def _lock_attempt(provider: str, provider_id: str) -> Attempt | None:
    """Lock the message of the attempt with this id, as a worker does that records an attempt."""
    of_provider = (Attempt.provider_id == provider_id) & (Attempt.provider == provider)
    found = Attempt.select(Attempt.message).where(of_provider).order_by(Attempt.id.desc())
    message = found.limit(1).scalar()
    if message is None:
        return None
    store().for_update(Message.select(Message.id).where(Message.id == message)).execute()
    locked: Attempt | None = (
        Attempt.select(Attempt, Message)
        .join(Message)
        .where(of_provider, Attempt.message == message)
        .order_by(Attempt.id.desc())
        .first()
    )
    return locked


def _is_later(state: ProviderState, stored: str | None) -> bool:
    return _ORDER.index(state) > _ORDER.index(ProviderState(stored) if stored else None)


def _is_last(attempt: Attempt) -> bool:
    """Return whether the message counts as sent because of this attempt."""
    later = Attempt.select().where(Attempt.message == attempt.message_id, Attempt.id > attempt.id)
    return attempt.message.state == MessageStatus.SENT and not later.exists()


def _count_notifications(message: int) -> int:
    sent = (Notification.message == message) & (Notification.state == NotificationStatus.SENT)
    return int(Notification.select().where(sent).count())


def _fail(message: int, reason: Reason, at: datetime) -> None:
    """Make the notifications pending whose incident still needs the person. The others have failed."""
    of_message = (Notification.message == message) & (Notification.state == NotificationStatus.SENT)
    # Locked in the same order as by a delivery; otherwise the two can deadlock.
    locked = Notification.select(Notification.id).where(of_message).order_by(Notification.id)
    rows = [row.id for row in store().for_update(locked)]
    found = Notification.select(Notification.id, Notification.kind, Incident.status).join(Incident)
    needed: list[int] = []
    others: list[int] = []
    for row, kind, status in found.where(in_list(Notification.id, rows)).tuples():
        is_open = status == IncidentStatus.TRIGGERED or (
            status == IncidentStatus.ACKNOWLEDGED and kind in KINDS_WHILE_OPEN
        )
        is_needed = is_open and kind in OPEN_KINDS
        (needed if is_needed else others).append(row)
    pending = {"state": NotificationStatus.PENDING, "outcome": None, "done_at": None}
    failed = {"state": NotificationStatus.FAILED, "outcome": reason, "done_at": at}
    for changes, notifications in ((pending, needed), (failed, others)):
        Notification.update(changes).where(in_list(Notification.id, notifications)).execute()
    # The worker that claims the message sees by this outcome that it must not send it.
    columns: dict[str, object] = {"outcome": reason, "state": MessageStatus.FAILED, "done_at": at}
    if needed:
        columns |= {"state": MessageStatus.PENDING, "done_at": None, "next_attempt_at": at}
    Message.update(columns).where(Message.id == message).execute()
