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

from models.domain.enums import ContactType
from models.store.base import STORE_ERRORS, connection, store
from models.tables.notifications import Message
from runtime import metrics
from runtime.settings import Settings
from workers.delivery.channels.base import Channel, Refused, RelayConnection, RelayError, TemporaryError
from workers.delivery.channels.email import Email
from workers.delivery.channels.relay import Relay
from workers.delivery.outbox import (
    RECORDED_OUTCOMES,
    Claimed,
    DeliveryAttempt,
    DeliveryOutcome,
    NotificationCounts,
    claim,
    is_due,
    record_attempt,
)
from workers.delivery.render import RenderedMessage, render_message

log = structlog.get_logger()

# Every channel there is, by contact type; models.enums.DELIVERABLE names the same ones.
CHANNELS: Mapping[ContactType, Callable[[Settings], Channel]] = {ContactType.EMAIL: Email}


@dataclass(slots=True)
class ChannelRuntime:
    """A channel as this process uses it."""

    channel: Channel
    public_url: str
    relay: Relay = field(default_factory=Relay)


_runtimes: dict[int, ChannelRuntime] = {}

# The message that each thread of this process is sending. A clock that is set ahead ends all claims.
_in_flight: dict[int, int] = {}


def configure(settings: Settings) -> None:
    """Send by these settings from now on; once, when a process starts."""
    for kind, create in CHANNELS.items():
        _runtimes[kind] = ChannelRuntime(create(settings), settings.public_url)


def send_due(channel: int, now: datetime | None = None) -> int:
    """Send every message of a channel that is due; returns how many were worked on.

    Comes back at once when enough threads are at it, or when the relay is down and it is not the
    time to try it again. `now` stands still for tests; otherwise it is the store's clock.
    """
    runtime = _runtimes[channel]
    handled = 0
    while runtime.relay.enter():
        try:
            with connection():
                handled += _send_batch(runtime, channel, now)
        finally:
            look_again = runtime.relay.leave()
        if not look_again:
            break
    return handled


def send_now(message: Message) -> DeliveryAttempt:
    """Send a message that the caller has claimed, whatever the slots; it is written down, and returned."""
    runtime = _runtimes[message.channel]
    conn = runtime.channel.create_connection()
    try:
        attempt = _deliver(runtime, conn, Claimed(message.id), None)
    finally:
        conn.close()
    _record(message.channel, attempt)
    return attempt


def _send_batch(runtime: ChannelRuntime, channel: int, now: datetime | None) -> int:
    """One message after another over one line, until none is due or the relay fails."""
    conn = runtime.channel.create_connection()
    handled = 0
    attempt: DeliveryAttempt | None = None
    try:
        while (claimed := _record_and_claim(channel, attempt, now)) is not None:
            attempt = _deliver(runtime, conn, claimed, now)
            handled += 1
            if attempt.outcome is DeliveryOutcome.RELAY_DOWN:
                _record(channel, attempt)
                break
    finally:
        _in_flight.pop(get_ident(), None)
        conn.close()
    return handled


def _record_and_claim(channel: int, attempt: DeliveryAttempt | None, now: datetime | None) -> Claimed | None:
    """Write down how the last one went and claim the next, in one short transaction."""
    if attempt is None and not is_due(channel, now or store().now()):
        return None
    with store().write_transaction():
        counts = record_attempt(attempt) if attempt is not None else {}
        claimed = claim(channel, now or store().now(), list(_in_flight.values()))
        if claimed is not None:
            _in_flight[get_ident()] = claimed.row
    if attempt is not None:
        _count(channel, attempt, counts)
    return claimed


def _record(channel: int, attempt: DeliveryAttempt) -> None:
    with store().write_transaction():
        counts = record_attempt(attempt)
    _count(channel, attempt, counts)


def _count(channel: int, attempt: DeliveryAttempt, counts: NotificationCounts) -> None:
    name = ContactType(channel).name.lower()
    if attempt.outcome in RECORDED_OUTCOMES:
        metrics.count_attempt(name, RECORDED_OUTCOMES[attempt.outcome].value)
    for state, count in counts.items():
        metrics.count_notifications(name, state.name.lower(), count)


def _deliver(
    runtime: ChannelRuntime, conn: RelayConnection, claimed: Claimed, now: datetime | None
) -> DeliveryAttempt:
    """Try once. Only the store's errors are raised: the claim then runs out, and it is tried again."""
    at = now or store().now()
    began = time.monotonic()
    rendered = RenderedMessage(None)
    try:
        rendered = render_message(claimed.row, runtime.public_url, at)
        if rendered.message is not None and not runtime.channel.find_missing_setting() and conn.open():
            # Connecting can take seconds, in which the incident may have moved on.
            rendered = render_message(claimed.row, runtime.public_url, at)
        outcome, detail = _send(runtime, conn, rendered)
    except STORE_ERRORS:
        raise
    except Exception as error:
        outcome, detail = _classify_error(runtime, error)
    milliseconds = round((time.monotonic() - began) * 1000)
    log.info("delivery", message=claimed.row, outcome=outcome.value, detail=detail, milliseconds=milliseconds)
    return DeliveryAttempt(claimed, at, outcome, detail, milliseconds, rendered.included, rendered.cancelled)


def _send(
    runtime: ChannelRuntime, conn: RelayConnection, rendered: RenderedMessage
) -> tuple[DeliveryOutcome, str]:
    if rendered.message is None:
        return DeliveryOutcome.CANCELLED, "nothing is left to say"
    if missing_setting := runtime.channel.find_missing_setting():
        return DeliveryOutcome.NOT_CONFIGURED, f"not sent: {missing_setting}"
    detail = conn.send(rendered.message)
    runtime.relay.record_success()
    return DeliveryOutcome.SENT, detail


def _classify_error(runtime: ChannelRuntime, error: Exception) -> tuple[DeliveryOutcome, str]:
    match error:
        case Refused():
            runtime.relay.record_success()
            return DeliveryOutcome.REFUSED, str(error)
        case TemporaryError():
            runtime.relay.record_success()
            return DeliveryOutcome.TEMPORARY, str(error)
        case RelayError():
            if runtime.relay.record_failure():
                log.warning("the relay counts as down; one at a time tries it", detail=str(error))
            return DeliveryOutcome.RELAY_DOWN, str(error)
    log.exception("a message could not be made")
    return DeliveryOutcome.TEMPORARY, f"our own failure: {type(error).__name__}"
