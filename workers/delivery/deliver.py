"""Send outgoing messages: claim a message, render it from current rows, send it, record the attempt.

If a worker is killed between sending and recording, its claim expires. Then the message is sent once more,
with the same Message-ID. In a chat, where that does not hide it, its title begins with "(again)".
"""

import time
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from functools import partial
from importlib import import_module
from typing import NamedTuple, cast

import dramatiq
import structlog

from models.contacts import toll_limits
from models.domain.channels import DELIVERY_CHANNELS, STAKEHOLDER_CHANNEL, get_channel_name
from models.domain.enums import ContactType, NotificationStatus
from models.domain.reasons import Reason, make_reason
from models.domain.values import replace
from models.links.return_paths import make_return_path
from models.store.store import STORE_ERRORS, store
from models.tables.notifications import Message
from runtime import metrics
from runtime.settings import Settings
from workers.broker import broker
from workers.delivery import bundles, changes, dead_workers, fail_over
from workers.delivery.attempts import DeliveryOutcome
from workers.delivery.channel_runtime import ChannelRuntime, Entered
from workers.delivery.early_steps import take_steps_early
from workers.delivery.free_connection import release_connection
from workers.delivery.outbox import (
    RECORDED_OUTCOMES,
    Claimed,
    DeliveryAttempt,
    NotificationCounts,
    claim,
    list_due_accounts,
    list_due_channels,
    record_attempt,
)
from workers.delivery.render import RenderedMessage, render_message
from workers.delivery.threads import DeliveryThreads
from workers.delivery.transport.channel import (
    ChangingConnection,
    Channel,
    ChannelOfHosts,
    HostError,
    Refused,
    RelayConnection,
    RelayError,
    SendError,
    UnusableAddress,
)
from workers.delivery.transport.host_gates import MAX_THREADS as THREADS_TO_HOSTS
from workers.delivery.transport.host_gates import EnteredHost, NotEntered
from workers.delivery.transport.relay_gate import MAX_THREADS, RelayGate, Suspect, report_down
from workers.delivery.transport.user_hosts import looking_up_for
from workers.delivery.turns import THREADS_PER_ACCOUNT, Turns

log = structlog.get_logger()


# If connecting takes longer, which can be seconds, the message is rendered again. Mostly it takes some
# milliseconds, less than the text of a mail about a hundred incidents.
RENDERED_FOR_S = 0.1

# Few, so that mails to stakeholders leave the relay to those to people on call; one for each of two accounts.
THREADS_TO_STAKEHOLDERS = 2

_runtimes: dict[int, ChannelRuntime] = {}

# Whose message the threads of this process send next, and what they send now. A clock that is set forward
# expires all claims, so claims alone are not enough.
_turns = Turns(list_due_accounts)


def configure(settings: Settings) -> None:
    """Create the channels with these settings; once, when a process starts."""
    bundles.configure(settings)
    toll_limits.configure(settings)
    for number, spec in DELIVERY_CHANNELS.items():
        channel = create_channel(spec.name, settings)
        gate = RelayGate(max_threads=_get_max_threads(number, channel))
        bounces = settings.mail_in_domain if number == ContactType.EMAIL and settings.smtp_bounces else ""
        _runtimes[number] = ChannelRuntime(
            spec.name, channel, settings.public_url, gate, bounces, spec.is_chat
        )


def _get_max_threads(number: int, channel: Channel) -> int:
    if number == STAKEHOLDER_CHANNEL:
        return THREADS_TO_STAKEHOLDERS
    return THREADS_TO_HOSTS if isinstance(channel, ChannelOfHosts) else MAX_THREADS


def create_channel(name: str, settings: Settings) -> Channel:
    """Call `create_channel` in the file of this name in workers/delivery/channels/."""
    create: Callable[[Settings], Channel] = import_module(f"workers.delivery.channels.{name}").create_channel
    return create(settings)


def declare_actor(channel: int) -> "dramatiq.Actor[[], None]":
    """Declare the actor that sends all due messages of a channel."""
    name = f"deliver.{get_channel_name(channel)}"

    def deliver() -> None:
        hand_over(channel)

    declare = dramatiq.actor(broker=broker, queue_name=name, actor_name=name)
    return declare(deliver)


# Dramatiq's own command listens to the queues of the actors that it finds at its start.
ACTORS = {channel: declare_actor(channel) for channel in DELIVERY_CHANNELS}


# What begins the work of a queue that has no messages to people: workers/outbound/sender.py.
WAKE_UPS: dict[int, Callable[[], None]] = {}

# The channels whose queues the worker of this process listens to.
_listened: set[int] = set()


def listen(queues: Collection[str]) -> None:
    """Send messages of the channels of these queues by threads of this process, as long as it has some."""
    _listened.clear()
    _listened.update(channel for channel, actor in ACTORS.items() if actor.queue_name in queues)


def enqueue(channels: Iterable[int]) -> None:
    """Begin to send the messages of these channels: each has one that is due.

    A thread of this process begins at once. If all of them are in use, or if the process does not send
    messages of the channel, enqueue it. Skip channels that this program does not have.
    """
    for channel in channels:
        if channel in ACTORS and not _begin_here(channel):
            ACTORS[channel].send()


def _begin_here(channel: int) -> bool:
    # By way of Redis, the message would be some milliseconds later, and in a storm some tens.
    if channel not in _listened:
        return False
    if channel in WAKE_UPS:
        WAKE_UPS[channel]()
        return True
    return threads.try_begin(channel, _runtimes[channel].gate.max_threads)


def hand_over(channel: int) -> None:
    """Let a thread of the channel send its due messages, so that a provider that hangs holds no other thread.

    Without the threads of a worker, for example in a command, send them before returning.
    """
    if not threads.request(channel, _runtimes[channel].gate.max_threads):
        send_due(channel)


def hand_over_due() -> None:
    """Let the threads of all channels that have due messages send them."""
    for channel in list_due_channels(store().now()):
        # A message of a channel that this program does not have stays.
        if channel in _runtimes:
            hand_over(channel)


def fail_over_late(now: datetime | None = None) -> None:
    """Notify other contacts, and other people, for messages of high urgency that are not sent in time."""
    at = now or store().now()
    down = [channel for channel, runtime in _runtimes.items() if runtime.is_down()]
    for message in fail_over.fail_over_late(at, down):
        take_steps_early(message, at, enqueue)


def send_due(channel: int, now: datetime | None = None) -> int:
    """Send all due messages of a channel. Return how many messages were processed.

    Return immediately if enough threads use the relay, or if the relay is down and the pause before the next
    attempt is not over. `now` is a fixed time for tests; otherwise the clock of the database is used.
    """
    runtime = _runtimes[channel]
    handled = 0
    while (entered := runtime.enter()) is not None:
        was_down = entered.gate.is_down()
        try:
            handled += _send_batch(runtime, entered, channel, now)
            if DELIVERY_CHANNELS[channel].can_change:
                handled += _send_changes(runtime, entered, channel, now)
        finally:
            look_again = entered.gate.leave()
        fails = entered.gate.is_down() and not was_down
        if not (look_again or (fails and runtime.has_other(entered.provider))):
            break
    return handled


# The threads of the channels of this process. They run while its worker runs.
threads = DeliveryThreads(lambda channel: send_due(channel))


def _send_changes(runtime: ChannelRuntime, entered: Entered, channel: int, now: datetime | None) -> int:
    """Send the due changes of sent messages. New messages go first. Return how many were processed."""
    if runtime.channel.find_missing_setting():
        return 0
    handled = 0
    conn = cast(ChangingConnection, entered.provider.create_connection())
    try:
        while changes.send_next(channel, runtime.name, conn, entered.gate, runtime.public_url, now):
            handled += 1 + _send_batch(runtime, entered, channel, now)
    finally:
        conn.close()
    return handled


def send_claimed(message: Message) -> DeliveryAttempt:
    """Send a message that the caller claimed, without the relay's gate. Record and return the attempt."""
    runtime = _runtimes[message.channel]
    conn = runtime.channel.create_connection()
    try:
        attempt = _deliver(runtime, runtime.gate, conn, Claimed(message.id, account=message.account_id), None)
    finally:
        conn.close()
    _record(message.channel, attempt)
    return attempt


def _send_batch(runtime: ChannelRuntime, entered: Entered, channel: int, now: datetime | None) -> int:
    """Send messages over one connection until none is due or the relay fails."""
    conn = entered.provider.create_connection()
    handled = 0
    attempt: DeliveryAttempt | None = None
    try:
        while (claimed := _record_and_claim(channel, attempt, now)) is not None:
            attempt = _deliver(runtime, entered.gate, conn, claimed, now)
            handled += 1
            if attempt.outcome is DeliveryOutcome.RELAY_DOWN and not runtime.is_of_hosts:
                _record(channel, attempt)
                break
    finally:
        _turns.end()
        conn.close()
        _look_again()
    return handled


def _look_again() -> None:
    """Let the channels send what waited for the end of another message of the same account."""
    for channel in _turns.take_refused():
        threads.request(channel, _runtimes[channel].gate.max_threads)


def _record_and_claim(channel: int, attempt: DeliveryAttempt | None, now: datetime | None) -> Claimed | None:
    """Record the last attempt and claim the next message, in one short transaction."""
    if attempt is None and not _turns.is_due(channel, now or store().now()):
        return None
    with store().write_transaction():
        counts = record_attempt(attempt) if attempt is not None else {}
        claimed = None if threads.is_stopping() else _claim_next(channel, now or store().now())
    if attempt is not None:
        _look_again()
        _finish(channel, attempt, counts)
    return claimed


def _claim_next(channel: int, now: datetime) -> Claimed | None:
    """Claim a message of the account whose turn it is; None: none is due, or no account may have a thread."""
    per_account = min(THREADS_PER_ACCOUNT, _runtimes[channel].gate.max_threads // 2) or 1
    without: set[int] = set()
    for read in (_turns.list_known, partial(_turns.read, now=now)):
        due = read(channel)
        while (account := _turns.begin(channel, per_account, due, without)) is not None:
            claimed = claim(channel, account, now, _turns.list_rows(), dead_workers.own.number)
            if claimed is not None:
                _turns.set_row(claimed.row)
                return claimed
            without.add(account)
    return None


def _record(channel: int, attempt: DeliveryAttempt) -> None:
    with store().write_transaction():
        counts = record_attempt(attempt)
    _finish(channel, attempt, counts)


def _finish(channel: int, attempt: DeliveryAttempt, counts: NotificationCounts) -> None:
    """Count the attempt. If its notifications failed, see whether the next step must be taken early."""
    _count(channel, attempt, counts)
    if counts.get(NotificationStatus.FAILED):
        take_steps_early(attempt.message.row, attempt.at, enqueue)


def _count(channel: int, attempt: DeliveryAttempt, counts: NotificationCounts) -> None:
    name = _runtimes[channel].name
    if attempt.outcome in RECORDED_OUTCOMES:
        metrics.count_attempt(name, RECORDED_OUTCOMES[attempt.outcome].value)
    for state, count in counts.items():
        metrics.count_notifications(name, state.name.lower(), count)


def _deliver(
    runtime: ChannelRuntime,
    gate: RelayGate,
    conn: RelayConnection,
    claimed: Claimed,
    now: datetime | None,
) -> DeliveryAttempt:
    """Make one delivery attempt. `gate` is that of the provider.

    Raise only errors of the database: then the claim expires, and a worker retries.
    """
    at = now or store().now()
    began = time.monotonic()
    rendered = RenderedMessage(None)
    host: EnteredHost | None = None
    try:
        rendered = _render(runtime, claimed, at)
        can_be_sent = rendered.message is not None and rendered.obstacle is None
        if can_be_sent and not runtime.channel.find_missing_setting():
            host = _enter_host(runtime, rendered, claimed.account)
            opening_at = time.monotonic()
            with release_connection():
                is_new = conn.open()
            if is_new and time.monotonic() - opening_at >= RENDERED_FOR_S:
                # The incident may have changed meanwhile.
                rendered = _render(runtime, claimed, at)
        with looking_up_for(claimed.account):
            result = _send(runtime, conn, rendered)
        if result.outcome is DeliveryOutcome.SENT:
            _record_answer(gate, host)
    except STORE_ERRORS:
        raise
    except SendError as error:
        outcome = _classify_error(error)
        _record_error(runtime, gate, host, error, _get_suspect(runtime, claimed, rendered))
        result = _Result(outcome, error.reason, error.provider, "", error.retry_after)
    except Exception as error:
        log.exception("message could not be rendered or sent", channel=runtime.name, message=claimed.row)
        why = make_reason("internal_error", error=type(error).__name__)
        result = _Result(DeliveryOutcome.TEMPORARY, why)
    finally:
        if host is not None:
            host.leave()
    milliseconds = round((time.monotonic() - began) * 1000)
    log.info(
        "delivery attempted",
        channel=runtime.name,
        message=claimed.row,
        outcome=result.outcome.value,
        detail=str(result.detail),
        milliseconds=milliseconds,
    )
    return DeliveryAttempt(
        claimed,
        at,
        result.outcome,
        result.detail,
        milliseconds,
        rendered.included,
        rendered.cancelled,
        result.provider,
        result.provider_id,
        result.retry_after,
    )


class _Result(NamedTuple):
    """What became of one attempt, in the words of DeliveryAttempt."""

    outcome: DeliveryOutcome
    detail: Reason
    provider: str = ""
    provider_id: str = ""
    retry_after: timedelta | None = None


class _HostPaused(SendError):
    """The host does not answer other messages."""


class _HostBusy(SendError):
    """Enough threads send to the host."""


def _enter_host(runtime: ChannelRuntime, rendered: RenderedMessage, account: int) -> EnteredHost | None:
    """Enter the gates of the host of a message; None if the channel has no hosts.

    Raise _HostPaused or _HostBusy if no thread may send to the host now.
    """
    entered = runtime.enter_host(rendered.message.to, account) if rendered.message is not None else None
    if not isinstance(entered, NotEntered):
        return entered
    retry_after = timedelta(seconds=entered.pause_s)
    if entered.is_down:
        raise _HostPaused(make_reason("host_paused"), retry_after=retry_after)
    raise _HostBusy(make_reason("host_busy"), retry_after=retry_after)


def _get_suspect(runtime: ChannelRuntime, claimed: Claimed, rendered: RenderedMessage) -> Suspect:
    """Return what can be the cause of a HostError instead of the relay."""
    to = rendered.message.to if rendered.message is not None else ""
    return Suspect(claimed.account, runtime.find_domain(to) or "")


def _render(runtime: ChannelRuntime, claimed: Claimed, at: datetime) -> RenderedMessage:
    """Render a message. One in a chat that may have been sent says so; a mail gets its return path."""
    rendered = render_message(claimed.row, runtime.public_url, at)
    message = rendered.message
    if message is None:
        return rendered
    if runtime.is_chat and claimed.may_be_sent_already:
        title = f"(again) {message.content.title}"
        return replace(rendered, message=replace(message, content=replace(message.content, title=title)))
    if not runtime.bounce_domain:
        return rendered
    return_path = make_return_path(message.message_id, runtime.bounce_domain)
    return replace(rendered, message=replace(message, return_path=return_path))


def _send(runtime: ChannelRuntime, conn: RelayConnection, rendered: RenderedMessage) -> _Result:
    if rendered.message is None:
        return _Result(DeliveryOutcome.CANCELLED, make_reason("nothing_to_send"))
    if missing_setting := runtime.channel.find_missing_setting():
        return _Result(DeliveryOutcome.NOT_CONFIGURED, make_reason("not_configured", problem=missing_setting))
    if rendered.obstacle is not None:
        return _Result(*rendered.obstacle)
    if not rendered.message.to:
        return _Result(DeliveryOutcome.UNUSABLE, make_reason("contact_deleted"))
    with release_connection():
        accepted = conn.send(rendered.message)
    return _Result(DeliveryOutcome.SENT, accepted.reason, accepted.provider, accepted.provider_id)


def _classify_error(error: SendError) -> DeliveryOutcome:
    match error:
        case _HostPaused():
            return DeliveryOutcome.HOST_PAUSED
        case _HostBusy():
            return DeliveryOutcome.HOST_BUSY
        case Refused():
            return DeliveryOutcome.REFUSED
        case UnusableAddress():
            return DeliveryOutcome.UNUSABLE
        case RelayError():
            return DeliveryOutcome.RELAY_DOWN
    return DeliveryOutcome.TEMPORARY


def _record_error(
    runtime: ChannelRuntime, gate: RelayGate, host: EnteredHost | None, error: SendError, suspect: Suspect
) -> None:
    """Record in the gates of the relay and of the host what an error says about them."""
    match error:
        case _HostPaused() | _HostBusy() | UnusableAddress():
            pass
        case HostError() | RelayError() if host is not None and runtime.is_of_hosts:
            host.record_failure()
        case HostError() if host is not None:
            host.record_failure()
            report_down(runtime.name, gate, error, suspect)
        case RelayError():
            report_down(runtime.name, gate, error)
        case _:
            _record_answer(gate, host)


def _record_answer(gate: RelayGate, host: EnteredHost | None) -> None:
    """Record that the relay and the host of a message answer."""
    gate.record_success()
    if host is not None:
        host.record_success()
