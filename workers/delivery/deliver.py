"""Send outgoing messages: claim a message, render it from current rows, send it, record the attempt.

If a worker is killed between sending and recording, its claim expires. Then the message is sent once more,
with the same Message-ID.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from threading import get_ident

import dramatiq
import structlog

from models.domain.channels import DELIVERY_CHANNELS, STAKEHOLDER_CHANNEL, get_channel_name
from models.domain.reasons import Reason, make_reason
from models.store.base import STORE_ERRORS, store
from models.tables.notifications import Message
from runtime import metrics
from runtime.settings import Settings
from workers.broker import broker
from workers.delivery.attempts import DeliveryOutcome
from workers.delivery.outbox import (
    RECORDED_OUTCOMES,
    Claimed,
    DeliveryAttempt,
    NotificationCounts,
    claim,
    is_due,
    record_attempt,
)
from workers.delivery.render import RenderedMessage, render_message
from workers.delivery.transport.channel import (
    Channel,
    Refused,
    RelayConnection,
    RelayError,
    TemporaryError,
    UnusableAddress,
)
from workers.delivery.transport.relay_gate import RelayGate

log = structlog.get_logger()


@dataclass(slots=True)
class ChannelRuntime:
    """A channel of this process, with the gate of its relay."""

    name: str
    channel: Channel
    public_url: str
    gate: RelayGate = field(default_factory=RelayGate)


_runtimes: dict[int, ChannelRuntime] = {}

# The message that each thread of this process sends now. A clock that is set forward expires all claims, so
# claims alone are not enough.
_in_flight: dict[int, int] = {}


def configure(settings: Settings) -> None:
    """Create the channels with these settings; once, when a process starts."""
    for number, spec in DELIVERY_CHANNELS.items():
        channel = create_channel(spec.name, settings)
        gate = RelayGate(max_threads=1) if number == STAKEHOLDER_CHANNEL else RelayGate()
        _runtimes[number] = ChannelRuntime(spec.name, channel, settings.public_url, gate)


def create_channel(name: str, settings: Settings) -> Channel:
    """Call `create_channel` in the file of this name in workers/delivery/channels/."""
    create: Callable[[Settings], Channel] = import_module(f"workers.delivery.channels.{name}").create_channel
    return create(settings)


def declare_actor(channel: int) -> "dramatiq.Actor[[], None]":
    """Declare the actor that sends all due messages of a channel."""
    name = f"deliver.{get_channel_name(channel)}"

    def deliver() -> None:
        send_due(channel)

    declare = dramatiq.actor(broker=broker, queue_name=name, actor_name=name)
    return declare(deliver)


# Dramatiq's own command listens to the queues of the actors that it finds at its start.
ACTORS = {channel: declare_actor(channel) for channel in DELIVERY_CHANNELS}


def enqueue(channels: Iterable[int]) -> None:
    """Enqueue these channels: each has a message that is due.

    Skip channels that this program does not have.
    """
    for channel in channels:
        if channel in ACTORS:
            ACTORS[channel].send()


def send_due(channel: int, now: datetime | None = None) -> int:
    """Send all due messages of a channel. Return how many messages were processed.

    Return immediately if enough threads use the relay, or if the relay is down and the pause before the next
    attempt is not over. `now` is a fixed time for tests; otherwise the clock of the database is used.
    """
    runtime = _runtimes[channel]
    handled = 0
    while runtime.gate.enter():
        try:
            handled += _send_batch(runtime, channel, now)
        finally:
            look_again = runtime.gate.leave()
        if not look_again:
            break
    return handled


def send_claimed(message: Message) -> DeliveryAttempt:
    """Send a message that the caller claimed, without the relay's gate. Record and return the attempt."""
    runtime = _runtimes[message.channel]
    conn = runtime.channel.create_connection()
    try:
        attempt = _deliver(runtime, conn, Claimed(message.id), None)
    finally:
        conn.close()
    _record(message.channel, attempt)
    return attempt


def _send_batch(runtime: ChannelRuntime, channel: int, now: datetime | None) -> int:
    """Send messages over one connection until none is due or the relay fails."""
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
    """Record the last attempt and claim the next message, in one short transaction."""
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
    name = _runtimes[channel].name
    if attempt.outcome in RECORDED_OUTCOMES:
        metrics.count_attempt(name, RECORDED_OUTCOMES[attempt.outcome].value)
    for state, count in counts.items():
        metrics.count_notifications(name, state.name.lower(), count)


def _deliver(
    runtime: ChannelRuntime, conn: RelayConnection, claimed: Claimed, now: datetime | None
) -> DeliveryAttempt:
    """Make one delivery attempt.

    Raise only errors of the database: then the claim expires, and a worker retries.
    """
    at = now or store().now()
    began = time.monotonic()
    rendered = RenderedMessage(None)
    try:
        rendered = render_message(claimed.row, runtime.public_url, at)
        can_be_sent = rendered.message is not None and rendered.obstacle is None
        if can_be_sent and not runtime.channel.find_missing_setting() and conn.open():
            # Connecting can take seconds, and the incident may have changed meanwhile.
            rendered = render_message(claimed.row, runtime.public_url, at)
        outcome, detail = _send(runtime, conn, rendered)
    except STORE_ERRORS:
        raise
    except Exception as error:
        outcome, detail = _classify_error(runtime, claimed, error)
    milliseconds = round((time.monotonic() - began) * 1000)
    log.info(
        "delivery attempted",
        channel=runtime.name,
        message=claimed.row,
        outcome=outcome.value,
        detail=str(detail),
        milliseconds=milliseconds,
    )
    return DeliveryAttempt(claimed, at, outcome, detail, milliseconds, rendered.included, rendered.cancelled)


def _send(
    runtime: ChannelRuntime, conn: RelayConnection, rendered: RenderedMessage
) -> tuple[DeliveryOutcome, Reason]:
    if rendered.message is None:
        return DeliveryOutcome.CANCELLED, make_reason("nothing_to_send")
    if missing_setting := runtime.channel.find_missing_setting():
        return DeliveryOutcome.NOT_CONFIGURED, make_reason("not_configured", problem=missing_setting)
    if rendered.obstacle is not None:
        return rendered.obstacle
    if not rendered.message.to:
        return DeliveryOutcome.UNUSABLE, make_reason("contact_deleted")
    detail = conn.send(rendered.message)
    runtime.gate.record_success()
    return DeliveryOutcome.SENT, detail


def _classify_error(
    runtime: ChannelRuntime, claimed: Claimed, error: Exception
) -> tuple[DeliveryOutcome, Reason]:
    match error:
        case Refused():
            runtime.gate.record_success()
            return DeliveryOutcome.REFUSED, error.reason
        case UnusableAddress():
            return DeliveryOutcome.UNUSABLE, error.reason
        case TemporaryError():
            runtime.gate.record_success()
            return DeliveryOutcome.TEMPORARY, error.reason
        case RelayError():
            if runtime.gate.record_failure():
                log.warning(
                    "relay cannot be used, one thread tries it again",
                    channel=runtime.name,
                    detail=str(error),
                )
            return DeliveryOutcome.RELAY_DOWN, error.reason
    log.exception("message could not be rendered or sent", channel=runtime.name, message=claimed.row)
    return DeliveryOutcome.TEMPORARY, make_reason("internal_error", error=type(error).__name__)
