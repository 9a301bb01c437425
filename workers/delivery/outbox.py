"""Claim due messages and record the outcomes of delivery attempts, in short transactions."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import peewee

from models.domain.enums import AttemptOutcome, MessageStatus, NotificationStatus
from models.domain.reasons import Reason, make_reason
from models.domain.values import replace
from models.store import bulk
from models.store.prepared import Prepared, bind, in_bound, in_list
from models.store.store import store
from models.tables.notifications import Attempt, Message, MessageUpdate, Notification
from models.write.delivery_reports import apply_early_report, lock_reports
from schedules.timers.retries import (
    HOLD,
    FailedAttempt,
    get_delay,
    get_next_attempt,
    is_permanent,
    needs_other_address,
)
from workers.delivery.attempts import DeliveryOutcome
from workers.delivery.bundles import list_bundled_with, move_to_bundle, move_to_daily
from workers.delivery.fail_over import list_urgent, lock_related, notify_next_contact
from workers.delivery.failures import load_failed_attempt
from workers.delivery.fallback import (
    Alternate,
    Cause,
    lock_alternate,
    lock_notifications,
    notify_user_email,
    take_turns,
)

# Longer than sending one message can take (DEADLINE_S in workers/delivery/transport/channel.py), so that no
# other worker sends the same message. A message whose worker was killed is sent again after this time, or
# earlier if the worker is known to be dead (workers/delivery/dead_workers.py).
CLAIM = timedelta(seconds=20)
# The delay of a message that no longer takes turns with another one.
RELEASE = timedelta(seconds=5)
# When an invitation that is over the limit of its address is tried again.
OVER_LIMIT_DELAY = timedelta(hours=1)


# Outcomes that are recorded as attempts; with the others, no relay was used.
RECORDED_OUTCOMES = {
    DeliveryOutcome.SENT: AttemptOutcome.SENT,
    DeliveryOutcome.REFUSED: AttemptOutcome.REFUSED,
    DeliveryOutcome.UNUSABLE: AttemptOutcome.REFUSED,
    DeliveryOutcome.TEMPORARY: AttemptOutcome.RETRY,
    DeliveryOutcome.RELAY_DOWN: AttemptOutcome.RETRY,
}


@dataclass(frozen=True, slots=True)
class Claimed:
    """A message that this worker may send until the claim expires, as it was when this was read."""

    row: int
    attempts: int = 0
    first_attempt_at: datetime | None = None
    instead_of: int | None = None
    state: MessageStatus = MessageStatus.PENDING
    account: int = 0
    failed_over_at: datetime | None = None
    earlier_claim_until: datetime | None = None
    held_until: datetime | None = None

    @property
    def may_be_sent_already(self) -> bool:
        """Whether an earlier claim ended without a record: nobody knows whether its worker sent the message.

        A message that waited for more pieces was claimed too, but nobody sent it.
        """
        earlier = self.earlier_claim_until
        return earlier is not None and earlier != self.held_until

    @property
    def may_have_alternate(self) -> bool:
        """Whether another message may be tried in turn with this one.

        Not before its first attempt or before its channel counts as down. Certain only for a locked row.
        """
        is_attempted = self.attempts > 0 or self.state != MessageStatus.PENDING
        return is_attempted or self.instead_of is not None or self.failed_over_at is not None


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """A delivery attempt with its outcome; `detail` describes it.

    `included` are the notifications in the message, `cancelled` the reasons by cancelled notification.
    `provider` and `provider_id`: who took the message, and its id there; both may be empty.
    `retry_after`: the provider asks not to be tried earlier.
    """

    message: Claimed
    at: datetime
    outcome: DeliveryOutcome
    detail: Reason
    milliseconds: int = 0
    included: tuple[int, ...] = ()
    cancelled: Mapping[int, Reason] = field(default_factory=dict)
    provider: str = ""
    provider_id: str = ""
    retry_after: timedelta | None = None


# Number of notifications by their new status.
NotificationCounts = Mapping[NotificationStatus, int]


def handle_clock_set_back(clock_was: datetime, now: datetime) -> None:
    """Correct due times and claims after the clock was set back from `clock_was` to `now`.

    Messages that were due before are due now, and claims expire at their usual time. Needs a write
    transaction.
    """
    pending = Message.state == MessageStatus.PENDING
    claimed = Message.update(claimed_until=now + CLAIM)
    claimed.where(pending, Message.claimed_until > now + CLAIM).execute()
    was_due = (Message.next_attempt_at > now) & (Message.next_attempt_at <= clock_was)
    Message.update(next_attempt_at=now).where(pending, was_due).execute()
    MessageUpdate.update(due_at=now).where(
        MessageUpdate.due_at > now, MessageUpdate.due_at <= clock_was
    ).execute()


_DUE_CHANNELS = (
    Prepared(
        lambda: (
            Message.select(Message.channel)
            .where(
                Message.state == MessageStatus.PENDING,
                Message.next_attempt_at <= bind("now"),
            )
            .distinct()
        )
    ),
    Prepared(
        lambda: (
            MessageUpdate.select(MessageUpdate.channel).where(MessageUpdate.due_at <= bind("now")).distinct()
        )
    ),
)


def list_due_channels(now: datetime) -> list[int]:
    """Return the channels that have a due message, or a due change of a sent one, claimed or not."""
    return sorted({channel for query in _DUE_CHANNELS for (channel,) in query.rows(now=now)})


def list_due_accounts(channel: int, now: datetime) -> list[int]:
    """Return the accounts that have a message that can be claimed, without taking a lock."""
    return [account for (account,) in _DUE_ACCOUNTS.rows(channel=channel, now=now)]


def claim(
    channel: int, account: int, now: datetime, in_flight: Collection[int] = (), by: int | None = None
) -> Claimed | None:
    """Claim the message of an account that has been due for the longest time, or return None.

    Never claim a message in `in_flight`, even if its claim has expired. `by`: the number that this process
    holds (models/processes/claim_holders.py). Needs a write transaction.
    """
    found = _CLAIMABLE.first(channel=channel, account=account, now=now, in_flight=in_flight)
    if found is None:
        return None
    claimed = Claimed(*found)
    _CLAIM.run(until=now + CLAIM, by=by, message=claimed.row)
    return claimed


# In the order of the fields of Claimed.
_CLAIMED_COLUMNS = (
    Message.id,
    Message.attempts,
    Message.first_attempt_at,
    Message.instead_of,
    Message.state,
    Message.account,
    Message.failed_over_at,
    Message.claimed_until,
    Message.held_until,
)


def _select_pending(*columns: peewee.Node) -> peewee.ModelSelect:
    is_pending = (Message.state == MessageStatus.PENDING) & (Message.channel == bind("channel"))
    return Message.select(*columns).where(is_pending)


def _select_due(account: peewee.ColumnBase, *columns: peewee.Node) -> peewee.ModelSelect:
    due = _select_pending(*columns).where(
        Message.account == account,
        Message.next_attempt_at <= bind("now"),
        Message.claimed_until.is_null() | (Message.claimed_until <= bind("now")),
    )
    return due.order_by(Message.next_attempt_at).limit(1)


def _select_due_accounts() -> peewee.Select:
    """Go from each account with pending messages to the next one by the index: most have many messages."""
    next_account = _select_pending(Message.account).order_by(Message.account).limit(1)
    start = peewee.Select((), [next_account.alias("account")])
    first = start.cte("turn", recursive=True, columns=("account",))
    following = next_account.where(Message.account > first.c.account)
    turn = first.union_all(peewee.Select((first,), [following]).where(first.c.account.is_null(False)))
    due = turn.c.account.is_null(False) & peewee.fn.EXISTS(_select_due(turn.c.account, Message.id))
    # It selects from no table, which would know its store.
    return turn.select_from(turn.c.account).where(due).bind(store().database)


_DUE_ACCOUNTS = Prepared(_select_due_accounts)
_CLAIMABLE = Prepared(
    lambda: store().for_update(
        _select_due(bind("account"), *_CLAIMED_COLUMNS).where(~in_bound(Message.id, "in_flight")),
        skip_locked=True,
    )
)
_CLAIM = Prepared(
    lambda: Message.update(claimed_until=bind("until"), claimed_by=bind("by")).where(
        Message.id == bind("message")
    )
)


# Outcomes after which another contact may be notified.
_FAILURES = {
    DeliveryOutcome.REFUSED,
    DeliveryOutcome.UNUSABLE,
    DeliveryOutcome.TEMPORARY,
    DeliveryOutcome.RELAY_DOWN,
    DeliveryOutcome.NOT_CONFIGURED,
    DeliveryOutcome.UNVERIFIED,
    DeliveryOutcome.REPORTED_FAILED,
    DeliveryOutcome.TOO_EXPENSIVE,
}


def record_attempt(attempt: DeliveryAttempt) -> NotificationCounts:
    """Record an attempt and the new status of the message and its notifications. Needs a write transaction.

    Return how many notifications got which status.
    """
    if attempt.provider_id:
        lock_reports(attempt.provider, attempt.provider_id)
    claimed = replace(
        _lock(attempt.message),
        earlier_claim_until=attempt.message.earlier_claim_until,
        held_until=attempt.message.held_until,
    )
    attempt = replace(attempt, message=claimed)
    alternate = lock_alternate(claimed.row, claimed.instead_of) if claimed.may_have_alternate else None
    if attempt.outcome in RECORDED_OUTCOMES:
        columns = {
            "message": claimed.row,
            "at": attempt.at,
            "outcome": RECORDED_OUTCOMES[attempt.outcome].value,
            "detail": attempt.detail,
            "milliseconds": attempt.milliseconds,
            "provider": attempt.provider or None,
            "provider_id": attempt.provider_id or None,
        }
        bulk.insert(Attempt, [columns])
    # All notifications by one statement, in the order in which others lock them; one row needs no order.
    pair = [claimed.row] if alternate is None else [claimed.row, alternate.row]
    if attempt.outcome in _FAILURES:
        # They include those of the alternate, which are about the same incidents.
        lock_related(claimed.row)
    elif attempt.outcome is DeliveryOutcome.BUNDLED:
        lock_notifications([*pair, *list_bundled_with(claimed.row, attempt.at)])
    elif alternate is not None or len(attempt.included) + len(attempt.cancelled) != 1:
        lock_notifications(pair)
    cancelled = sum(
        _finish_notifications(
            Notification.id == notification, NotificationStatus.CANCELLED, reason, attempt.at
        )
        for notification, reason in attempt.cancelled.items()
    )
    pending_alternate = alternate if alternate is not None and alternate.is_pending else None
    counts = Counter({NotificationStatus.CANCELLED: cancelled})
    counts.update(_RECORDERS[attempt.outcome](attempt, pending_alternate))
    if attempt.provider_id:
        apply_early_report(attempt.provider, attempt.provider_id)
    return counts


def _lock(claimed: Claimed) -> Claimed:
    """Lock a message and return it as it is now.

    If its claim expired, another worker may have recorded an attempt meanwhile, also the first one.
    """
    # A message is always locked before the one that was created for it, as in lock_alternate().
    rows = [row for row in (claimed.instead_of, claimed.row) if row is not None]
    locked = {row[0]: Claimed(*row) for row in _LOCKED.rows(rows=rows)}
    return locked.get(claimed.row, claimed)


_LOCKED = Prepared(
    lambda: store().for_update(
        Message.select(*_CLAIMED_COLUMNS).where(in_bound(Message.id, "rows")).order_by(Message.id)
    )
)


# Each recorder gets the attempt and, if it is pending, the alternate of the message.


def _record_sent(attempt: DeliveryAttempt, alternate: Alternate | None) -> NotificationCounts:
    _finish_message(attempt, MessageStatus.SENT, attempt.detail)
    # Include notifications that were cancelled while the message was in flight: the message contains them.
    sent = {"state": NotificationStatus.SENT, "outcome": attempt.detail, "done_at": attempt.at}
    Notification.update(sent).where(in_list(Notification.id, attempt.included)).execute()
    finished = _finish_alternate(attempt, alternate) if alternate is not None else {}
    return {NotificationStatus.SENT: len(attempt.included), **finished}


def _finish_alternate(attempt: DeliveryAttempt, alternate: Alternate) -> NotificationCounts:
    """Finish the alternate of a message that was sent, so that the person gets only one of them."""
    if attempt.message.instead_of == alternate.row:
        cause = alternate.outcome.more[:1] if alternate.outcome is not None else ()
        why = (*cause, make_reason("user_email_instead"))
        message, notification = MessageStatus.FAILED, NotificationStatus.FAILED
        outcome = why[0].add(*why[1:])
    else:
        message, notification = MessageStatus.CANCELLED, NotificationStatus.CANCELLED
        outcome = make_reason("contact_accepted")
    pending = (Message.id == alternate.row) & (Message.state == MessageStatus.PENDING)
    Message.update(state=message, outcome=outcome, done_at=attempt.at).where(pending).execute()
    of_alternate = Notification.message == alternate.row
    return {notification: _finish_notifications(of_alternate, notification, outcome, attempt.at)}


def _record_unsent(attempt: DeliveryAttempt, alternate: Alternate | None) -> NotificationCounts:
    """Retry the message, in turn with its alternate, or give it up."""
    claimed, is_refusal = attempt.message, attempt.outcome is DeliveryOutcome.REFUSED
    failed = load_failed_attempt(
        claimed.row,
        attempt.at,
        claimed.attempts + 1,
        claimed.first_attempt_at or attempt.at,
        is_refusal=is_refusal,
        retry_after=attempt.retry_after,
    )
    next_at = get_next_attempt(failed)
    if next_at is None:
        return _record_failed(attempt, alternate, _explain_end(attempt, failed))
    if alternate is None and claimed.instead_of is None and needs_other_address(failed):
        cause = Cause.REFUSED if is_refusal else Cause.FAILED
        if not notify_next_contact(claimed.row, attempt.at):
            alternate = notify_user_email(claimed.row, attempt.at, cause)
    outcome = make_reason("not_sent_yet").add(attempt.detail)
    if is_refusal:
        outcome = outcome.add(make_reason("refusal_not_proven"))
    if alternate is not None:
        next_at = take_turns(alternate, attempt.at, get_delay(failed)) + HOLD
        outcome = outcome.add(make_reason("addresses_in_turn"))
    _update_message(attempt, next_attempt_at=next_at, outcome=outcome)
    return {}


def _explain_end(attempt: DeliveryAttempt, failed: FailedAttempt) -> Reason:
    if not is_permanent(failed):
        return make_reason("given_up", attempts=failed.attempts).add(attempt.detail)
    return attempt.detail.add(make_reason("refusal_permanent") if failed.others_accepted else None)


def _record_failed(
    attempt: DeliveryAttempt, alternate: Alternate | None, why: Reason | None = None
) -> NotificationCounts:
    """Give up the message. `why` None: the detail of the attempt is the reason."""
    why = why or attempt.detail
    if alternate is not None:
        take_turns(alternate, attempt.at, RELEASE)
    elif attempt.message.instead_of is None and notify_next_contact(attempt.message.row, attempt.at):
        why = why.add(make_reason("next_contact_instead"))
        # Only the urgent ones have the next contact.
        cause = _CAUSES.get(attempt.outcome, Cause.FAILED)
        notify_user_email(attempt.message.row, attempt.at, cause, without=list_urgent(attempt.message.row))
    elif attempt.message.instead_of is None:
        relay_set = attempt.outcome is not DeliveryOutcome.NOT_CONFIGURED
        cause = _CAUSES.get(attempt.outcome, Cause.FAILED)
        alternate = notify_user_email(attempt.message.row, attempt.at, cause, relay_set=relay_set)
    if alternate is not None and attempt.message.instead_of is None:
        why = why.add(make_reason("user_email_instead"))
    _finish_message(attempt, MessageStatus.FAILED, why)
    count = _finish_notifications(
        Notification.message == attempt.message.row, NotificationStatus.FAILED, why, attempt.at
    )
    return {NotificationStatus.FAILED: count}


# Why the user's own e-mail address is notified, by the outcome for the contact.
_CAUSES = {
    DeliveryOutcome.REFUSED: Cause.REFUSED,
    DeliveryOutcome.UNUSABLE: Cause.REFUSED,
    DeliveryOutcome.UNVERIFIED: Cause.UNVERIFIED,
}


def _record_over_limit(attempt: DeliveryAttempt, alternate: Alternate | None) -> NotificationCounts:
    """Move the notifications into the message of the day. An invitation is tried again later."""
    if attempt.included:
        move_to_daily(attempt.message.row, attempt.included, attempt.at, attempt.detail)
        why = attempt.detail.add(make_reason("moved_to_daily"))
        if alternate is not None:
            take_turns(alternate, attempt.at, RELEASE)
        _finish_message(attempt, MessageStatus.CANCELLED, why)
    else:
        why = make_reason("not_sent_yet").add(attempt.detail)
        _update_message(attempt, next_attempt_at=attempt.at + OVER_LIMIT_DELAY, outcome=why)
    return {}


def _record_bundled(attempt: DeliveryAttempt, alternate: Alternate | None) -> NotificationCounts:
    """Move the notifications into the bundle of the contact, with those of its other due messages."""
    others = list_bundled_with(attempt.message.row, attempt.at)
    move_to_bundle(attempt.message.row, attempt.included, others, attempt.at, attempt.detail)
    if alternate is not None:
        take_turns(alternate, attempt.at, RELEASE)
    _finish_message(attempt, MessageStatus.CANCELLED, attempt.detail.add(make_reason("moved_to_bundle")))
    return {}


def _record_cancelled(attempt: DeliveryAttempt, alternate: Alternate | None) -> NotificationCounts:
    if alternate is not None:
        take_turns(alternate, attempt.at, RELEASE)
    _finish_message(attempt, MessageStatus.CANCELLED, attempt.detail)
    return {}


def _record_host_paused(attempt: DeliveryAttempt, alternate: Alternate | None) -> NotificationCounts:
    """Try the message again when its host may be tried, and the other due messages of its contact too."""
    _delay_contact(attempt, {"outcome": make_reason("not_sent_yet").add(attempt.detail)})
    return {}


def _record_host_busy(attempt: DeliveryAttempt, alternate: Alternate | None) -> NotificationCounts:
    """Do the same without an outcome, which would say that the host cannot be used."""
    _delay_contact(attempt, {})
    return {}


def _delay_contact(attempt: DeliveryAttempt, columns: Mapping[str, object]) -> None:
    """Set these columns in all due messages of the contact, and delay the messages."""
    changes = {**columns, "next_attempt_at": attempt.at + (attempt.retry_after or RELEASE)}
    _update_message(attempt, **changes)
    contact = Message.select(Message.contact).where(Message.id == attempt.message.row)
    others = Message.select(Message.id).where(
        Message.contact == contact,
        Message.state == MessageStatus.PENDING,
        Message.next_attempt_at < changes["next_attempt_at"],
        Message.claimed_until.is_null(),
    )
    rows = [row.id for row in store().for_update(others.order_by(Message.id), skip_locked=True)]
    Message.update(changes).where(in_list(Message.id, rows)).execute()


_RECORDERS = {
    DeliveryOutcome.SENT: _record_sent,
    DeliveryOutcome.REFUSED: _record_unsent,
    DeliveryOutcome.UNUSABLE: _record_failed,
    DeliveryOutcome.TEMPORARY: _record_unsent,
    DeliveryOutcome.RELAY_DOWN: _record_unsent,
    DeliveryOutcome.HOST_PAUSED: _record_host_paused,
    DeliveryOutcome.HOST_BUSY: _record_host_busy,
    DeliveryOutcome.NOT_CONFIGURED: _record_failed,
    DeliveryOutcome.UNVERIFIED: _record_failed,
    DeliveryOutcome.REPORTED_FAILED: _record_failed,
    DeliveryOutcome.TOO_EXPENSIVE: _record_failed,
    DeliveryOutcome.OVER_LIMIT: _record_over_limit,
    DeliveryOutcome.BUNDLED: _record_bundled,
    DeliveryOutcome.CANCELLED: _record_cancelled,
}


def _finish_message(attempt: DeliveryAttempt, state: MessageStatus, outcome: Reason) -> None:
    _update_message(attempt, state=state, outcome=outcome, done_at=attempt.at)


def _update_message(attempt: DeliveryAttempt, **columns: object) -> None:
    """Update the message only if it is still pending.

    If the claim expired, another worker may have finished it.
    """
    if attempt.outcome in RECORDED_OUTCOMES:
        columns["attempts"] = attempt.message.attempts + 1
        columns["first_attempt_at"] = attempt.message.first_attempt_at or attempt.at
    # A message that is tried again stays one that may have been sent.
    columns["claimed_until"] = attempt.at if attempt.message.may_be_sent_already else None
    query = Message.update(columns)
    query.where(Message.id == attempt.message.row, Message.state == MessageStatus.PENDING).execute()


def _finish_notifications(
    condition: peewee.Expression, state: NotificationStatus, outcome: Reason, at: datetime
) -> int:
    query = Notification.update(state=state, outcome=outcome, done_at=at)
    count: int = query.where(condition, Notification.state == NotificationStatus.PENDING).execute()
    return count
