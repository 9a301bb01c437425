"""Sends what is owed: claim a message, read it again, send it, write down how it went.

A worker that is killed between sending and writing leaves a claim that runs out: the message is sent
once more, with the same Message-ID.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from threading import get_ident

import structlog

from models.base import STORE_ERRORS, connection, store
from models.enums import ContactType
from models.notices import Message
from tocsin import metrics
from tocsin.settings import Settings
from workers.channels.base import Channel, Line, NotNow, Refused, RelayTrouble
from workers.channels.email import Email
from workers.channels.relay import Relay
from workers.letters import Contents, contents
from workers.outbox import ATTEMPTS, Claimed, Ended, Ending, Try, claim, is_due, settle

log = structlog.get_logger()

# Every channel there is, by contact type; models.enums.DELIVERABLE names the same ones.
CHANNELS: Mapping[ContactType, Callable[[Settings], Channel]] = {ContactType.EMAIL: Email}


@dataclass(slots=True)
class Post:
    """A channel as this process uses it."""

    channel: Channel
    public_url: str
    relay: Relay = field(default_factory=Relay)


_posts: dict[int, Post] = {}

# The message that each thread of this process is sending. A clock that is set ahead ends all claims.
_in_hand: dict[int, int] = {}


def configure(settings: Settings) -> None:
    """Send by these settings from now on; once, when a process starts."""
    for kind, make in CHANNELS.items():
        _posts[kind] = Post(make(settings), settings.public_url)


def drain(channel: int, now: datetime | None = None) -> int:
    """Send every message of a channel that is due; returns how many were worked on.

    Comes back at once when enough threads are at it, or when the relay is down and it is not the
    time to try it again. `now` stands still for tests; otherwise it is the store's clock.
    """
    post = _posts[channel]
    worked_on = 0
    while post.relay.enter():
        try:
            with connection():
                worked_on += _send_due(post, channel, now)
        finally:
            again = post.relay.leave()
        if not again:
            break
    return worked_on


def send_now(message: Message) -> Try:
    """Send a message that the caller has claimed, whatever the slots; it is written down, and returned."""
    post = _posts[message.channel]
    line = post.channel.line()
    try:
        done = _deliver(post, line, Claimed(message.id), None)
    finally:
        line.close()
    _write(message.channel, done)
    return done


def _send_due(post: Post, channel: int, now: datetime | None) -> int:
    """One message after another over one line, until none is due or the relay fails."""
    line = post.channel.line()
    worked_on = 0
    done: Try | None = None
    try:
        while (taken := _next(channel, done, now)) is not None:
            done = _deliver(post, line, taken, now)
            worked_on += 1
            if done.ending is Ending.TROUBLE:
                _write(channel, done)
                break
    finally:
        _in_hand.pop(get_ident(), None)
        line.close()
    return worked_on


def _next(channel: int, done: Try | None, now: datetime | None) -> Claimed | None:
    """Write down how the last one went and claim the next, in one short transaction."""
    if done is None and not is_due(channel, now or store().now()):
        return None
    with store().writing():
        ended = settle(done) if done is not None else {}
        claimed = claim(channel, now or store().now(), list(_in_hand.values()))
        if claimed is not None:
            _in_hand[get_ident()] = claimed.row
    if done is not None:
        _count(channel, done, ended)
    return claimed


def _write(channel: int, done: Try) -> None:
    with store().writing():
        ended = settle(done)
    _count(channel, done, ended)


def _count(channel: int, done: Try, ended: Ended) -> None:
    name = ContactType(channel).name.lower()
    if done.ending in ATTEMPTS:
        metrics.count_attempt(name, ATTEMPTS[done.ending].value)
    for state, count in ended.items():
        metrics.count_notices(name, state.name.lower(), count)


def _deliver(post: Post, line: Line, taken: Claimed, now: datetime | None) -> Try:
    """Try once. Only the store's errors are raised: the claim then runs out, and it is tried again."""
    at = now or store().now()
    began = time.monotonic()
    said = Contents(None)
    try:
        said = contents(taken.row, post.public_url, at)
        if said.letter is not None and not post.channel.lacks() and line.open():
            # Connecting can take seconds, in which the incident may have moved on.
            said = contents(taken.row, post.public_url, at)
        ending, detail = _said(post, line, said)
    except STORE_ERRORS:
        raise
    except Exception as error:
        ending, detail = _failure(post, error)
    milliseconds = round((time.monotonic() - began) * 1000)
    log.info("delivery", message=taken.row, outcome=ending.value, detail=detail, milliseconds=milliseconds)
    return Try(taken, at, ending, detail, milliseconds, said.told, said.void)


def _said(post: Post, line: Line, said: Contents) -> tuple[Ending, str]:
    if said.letter is None:
        return Ending.VOID, "nothing is left to say"
    if lacking := post.channel.lacks():
        return Ending.UNSENDABLE, f"not sent: {lacking}"
    detail = line.send(said.letter)
    post.relay.worked()
    return Ending.SENT, detail


def _failure(post: Post, error: Exception) -> tuple[Ending, str]:
    match error:
        case Refused():
            post.relay.worked()
            return Ending.REFUSED, str(error)
        case NotNow():
            post.relay.worked()
            return Ending.NOT_NOW, str(error)
        case RelayTrouble():
            if post.relay.failed():
                log.warning("the relay counts as down; one at a time tries it", detail=str(error))
            return Ending.TROUBLE, str(error)
    log.exception("a message could not be made")
    return Ending.NOT_NOW, f"our own failure: {type(error).__name__}"
