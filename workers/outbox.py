"""Messages that are due: claim one, and write down how its sending ended. Short transactions only."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from models import bulk
from models.base import store
from models.enums import AttemptOutcome, MessageState, NoticeState
from models.notices import Attempt, Message, Notice
from models.prepared import Prepared, among, given
from schedules.retries import next_try
from workers.fallback import tell_account

# Longer than a letter can take (channels/email.py), so that nobody sends what is being sent. A
# message whose worker was killed is sent again after this time.
CLAIM = timedelta(seconds=20)


class Ending(Enum):
    """How it went with a message that was claimed."""

    SENT = "sent"
    REFUSED = "refused"  # by this contact, for good
    NOT_NOW = "not now"  # the relay answers, and may take it later
    TROUBLE = "trouble"  # the relay takes nothing at all
    UNSENDABLE = "unsendable"  # a setting is missing
    VOID = "void"  # nothing is left to say


# What is recorded as an attempt; the others never came to a relay.
ATTEMPTS = {
    Ending.SENT: AttemptOutcome.SENT,
    Ending.REFUSED: AttemptOutcome.REFUSED,
    Ending.NOT_NOW: AttemptOutcome.RETRY,
    Ending.TROUBLE: AttemptOutcome.RETRY,
}


@dataclass(frozen=True, slots=True)
class Claimed:
    """A message that is ours to send until the claim runs out."""

    row: int
    tries: int = 0
    first_tried_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Try:
    """How it went, and why in words. `told` are the notices in the letter, `void` those told no more."""

    message: Claimed
    at: datetime
    ending: Ending
    detail: str
    milliseconds: int = 0
    told: tuple[int, ...] = ()
    void: Mapping[int, str] = field(default_factory=dict)


# How many notices came to which end.
Ended = Mapping[NoticeState, int]


def set_back(shown: datetime, now: datetime) -> None:
    """The clock had shown a moment that is to come again: what was due by then is due now, and claims run out
    in their time. Inside a write transaction.
    """
    pending = Message.state == MessageState.PENDING
    claimed = Message.update(claimed_until=now + CLAIM)
    claimed.where(pending, Message.claimed_until > now + CLAIM).execute()
    was_due = (Message.next_at > now) & (Message.next_at <= shown)
    Message.update(next_at=now).where(pending, was_due).execute()


def is_due(channel: int, now: datetime) -> bool:
    """Whether there is anything to claim: a look that takes no lock."""
    return _FIRST_DUE.first(channel=channel, now=now) is not None


def claim(channel: int, now: datetime, in_hand: Collection[int] = ()) -> Claimed | None:
    """The message that has been due for longest, or None; none of those `in_hand`, whatever became of their
    claims. Inside a write transaction."""
    found = _CLAIMABLE.first(channel=channel, now=now, in_hand=in_hand)
    if found is None:
        return None
    row, tries, first_tried_at = found
    _CLAIM.run(until=now + CLAIM, message=row)
    return Claimed(row, tries, first_tried_at)


def _due() -> Any:
    due = Message.select(Message.id, Message.tries, Message.first_tried_at).where(
        Message.state == MessageState.PENDING,
        Message.channel == given("channel"),
        Message.next_at <= given("now"),
        Message.claimed_until.is_null() | (Message.claimed_until <= given("now")),
    )
    return due.limit(1)


_FIRST_DUE = Prepared(_due)
_CLAIMABLE = Prepared(
    lambda: store().for_update(
        _due().where(~among(Message.id, "in_hand")).order_by(Message.next_at), skip_locked=True
    )
)
_CLAIM = Prepared(lambda: Message.update(claimed_until=given("until")).where(Message.id == given("message")))


# In the order in which a lane takes notices back, or each would wait for the other.
_OF_MESSAGE = Prepared(
    lambda: store().for_update(
        Notice.select(Notice.id).where(Notice.message == given("message")).order_by(Notice.id)
    )
)


def settle(done: Try) -> Ended:
    """Write down a try, and what it means for the message and its notices, which is returned. Inside a write
    transaction.
    """
    if done.ending in ATTEMPTS:
        attempt = {
            "message": done.message.row,
            "at": done.at,
            "outcome": ATTEMPTS[done.ending].value,
            "detail": done.detail,
            "milliseconds": done.milliseconds,
        }
        bulk.insert(Attempt, [attempt])
    if len(done.told) + len(done.void) != 1:
        _OF_MESSAGE.rows(message=done.message.row)
    void = sum(
        _end_notices(Notice.id == notice, NoticeState.VOID, why, done.at) for notice, why in done.void.items()
    )
    return {NoticeState.VOID: void, **_MEANING[done.ending](done)}


def _sent(done: Try) -> Ended:
    _end(done, MessageState.SENT, done.detail)
    # Also those that were taken back while the letter was on its way: it tells of them.
    sent = {"state": NoticeState.SENT, "outcome": done.detail, "done_at": done.at}
    bulk.update(Notice, [{"id": notice, **sent} for notice in done.told])
    return {NoticeState.SENT: len(done.told)}


def _retry(done: Try) -> Ended:
    tries = done.message.tries + 1
    again = next_try(tries, done.message.first_tried_at or done.at, done.at)
    if again is None:
        return _failed(done, f"given up after {tries} tries: {done.detail}")
    _update(done, next_at=again, outcome=f"not sent yet: {done.detail}")
    return {}


def _refused(done: Try) -> Ended:
    told_instead = tell_account(done.message.row, done.at)
    return _failed(
        done, f"{done.detail}; the account's address is told instead" if told_instead else done.detail
    )


def _unsendable(done: Try) -> Ended:
    return _failed(done, done.detail)


def _failed(done: Try, why: str) -> Ended:
    _end(done, MessageState.FAILED, why)
    failed = _end_notices(Notice.message == done.message.row, NoticeState.FAILED, why, done.at)
    return {NoticeState.FAILED: failed}


def _void(done: Try) -> Ended:
    _end(done, MessageState.VOID, done.detail)
    return {}


_MEANING = {
    Ending.SENT: _sent,
    Ending.REFUSED: _refused,
    Ending.NOT_NOW: _retry,
    Ending.TROUBLE: _retry,
    Ending.UNSENDABLE: _unsendable,
    Ending.VOID: _void,
}


def _end(done: Try, state: MessageState, outcome: str) -> None:
    _update(done, state=state, outcome=outcome, done_at=done.at)


def _update(done: Try, **columns: Any) -> None:
    """Only a message that nobody ended meanwhile: a claim may have run out."""
    if done.ending in ATTEMPTS:
        columns["tries"] = done.message.tries + 1
        columns["first_tried_at"] = done.message.first_tried_at or done.at
    query = Message.update(claimed_until=None, **columns)
    query.where(Message.id == done.message.row, Message.state == MessageState.PENDING).execute()


def _end_notices(which: Any, state: NoticeState, outcome: str, at: datetime) -> int:
    query = Notice.update(state=state, outcome=outcome, done_at=at)
    ended: int = query.where(which, Notice.state == NoticeState.PENDING).execute()
    return ended
