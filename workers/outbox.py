"""Messages that are due: claim one, and write down how its sending ended. Short transactions only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

import peewee

from models.base import store
from models.enums import AttemptOutcome, MessageState, NoticeState
from models.notices import Attempt, Message, Notice
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


def is_due(channel: int, now: datetime) -> bool:
    """Whether there is anything to claim: a look that takes no lock."""
    found: bool = _due(channel, now).exists()
    return found


def claim(channel: int, now: datetime) -> Claimed | None:
    """The message that has been due for longest, or None. Inside a write transaction."""
    query = _due(channel, now).order_by(Message.next_at).limit(1)
    row = store().for_update(query, skip_locked=True).first()
    if row is None:
        return None
    Message.update(claimed_until=now + CLAIM).where(Message.id == row.id).execute()
    return Claimed(row.id, row.tries, row.first_tried_at)


def _due(channel: int, now: datetime) -> Any:
    return Message.select(Message.id, Message.tries, Message.first_tried_at).where(
        # Spelled out, not a parameter: SQLite uses the index of pending messages only then.
        peewee.SQL("state = 0"),
        Message.channel == channel,
        Message.next_at <= now,
        Message.claimed_until.is_null() | (Message.claimed_until <= now),
    )


def settle(done: Try) -> None:
    """Write down a try, and what it means for the message and its notices. Inside a write transaction."""
    if done.ending in ATTEMPTS:
        Attempt.create(
            message=done.message.row,
            at=done.at,
            outcome=ATTEMPTS[done.ending].value,
            detail=done.detail,
            milliseconds=done.milliseconds,
        )
    for notice, why in done.void.items():
        _end_notices(Notice.id == notice, NoticeState.VOID, why, done.at)
    _MEANING[done.ending](done)


def _sent(done: Try) -> None:
    _end(done, MessageState.SENT, done.detail)
    # Also those that were taken back while the letter was on its way: it tells of them.
    query = Notice.update(state=NoticeState.SENT, outcome=done.detail, done_at=done.at)
    query.where(Notice.id.in_(done.told)).execute()


def _retry(done: Try) -> None:
    tries = done.message.tries + 1
    again = next_try(tries, done.message.first_tried_at or done.at, done.at)
    if again is None:
        _failed(done, f"given up after {tries} tries: {done.detail}")
    else:
        _update(done, next_at=again, outcome=f"not sent yet: {done.detail}")


def _refused(done: Try) -> None:
    told_instead = tell_account(done.message.row, done.at)
    _failed(done, f"{done.detail}; the account's address is told instead" if told_instead else done.detail)


def _unsendable(done: Try) -> None:
    _failed(done, done.detail)


def _failed(done: Try, why: str) -> None:
    _end(done, MessageState.FAILED, why)
    _end_notices(Notice.message == done.message.row, NoticeState.FAILED, why, done.at)


def _void(done: Try) -> None:
    _end(done, MessageState.VOID, done.detail)


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


def _end_notices(which: Any, state: NoticeState, outcome: str, at: datetime) -> None:
    query = Notice.update(state=state, outcome=outcome, done_at=at)
    query.where(which, Notice.state == NoticeState.PENDING).execute()
