"""Change sent messages at their provider when their incidents were acknowledged, resolved or triggered again.

models/write/message_updates.py marks the messages. Only the last state is sent. If a worker is killed between
sending and recording, the change is sent once more, which does no harm.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

import peewee
import structlog

from models.domain.enums import AttemptOutcome, MessageStatus
from models.store import bulk
from models.store.prepared import Prepared, bind, on_found_rows
from models.store.store import STORE_ERRORS, store
from models.tables.notifications import Attempt, Message, MessageUpdate
from runtime import metrics
from workers.delivery import dead_workers
from workers.delivery.free_connection import release_connection
from workers.delivery.render import render_change
from workers.delivery.transport.channel import (
    ChangingConnection,
    Refused,
    RelayError,
    SendError,
    UnusableAddress,
)
from workers.delivery.transport.relay_gate import RelayGate, report_down

log = structlog.get_logger()

# Longer than one change can take. A change whose worker was killed is sent again earlier, like a message.
CLAIM = timedelta(seconds=20)
# The delay of a change whose message is being sent now.
IN_FLIGHT_DELAY = timedelta(seconds=5)
# After a failure. When the last one is over, the message stays as it is.
DELAYS = tuple(timedelta(seconds=seconds) for seconds in (5, 20, 80, 320))


@dataclass(frozen=True, slots=True)
class ClaimedChange:
    """A change that this worker may send until the claim expires, as it was when this was read."""

    row: int
    message: int
    version: int
    attempts: int


def claim(channel: int, now: datetime, by: int | None = None) -> ClaimedChange | None:
    """Claim the change that has been due for the longest time, or return None.

    `by`: the number that this process holds (models/processes/claim_holders.py).
    """
    if _FIRST_DUE.first(channel=channel, now=now) is None:
        return None
    with store().write_transaction():
        found = _CLAIMABLE.first(channel=channel, now=now)
        if found is None:
            return None
        claimed = ClaimedChange(*found)
        _CLAIM.run(until=now + CLAIM, by=by, row=claimed.row)
    return claimed


def _select_due() -> peewee.ModelSelect:
    columns = (MessageUpdate.id, MessageUpdate.message_row, MessageUpdate.version, MessageUpdate.attempts)
    due = (MessageUpdate.channel == bind("channel")) & (MessageUpdate.due_at <= bind("now"))
    return MessageUpdate.select(*columns).where(due).order_by(MessageUpdate.due_at).limit(1)


_FIRST_DUE = Prepared(_select_due)
_CLAIMABLE = Prepared(lambda: store().for_update(_select_due(), skip_locked=True))
_CLAIM = Prepared(
    lambda: MessageUpdate.update(due_at=bind("until"), claimed_by=bind("by")).where(
        MessageUpdate.id == bind("row")
    )
)
_MESSAGE = Prepared(
    lambda: Message.select(Message.state, Message.claimed_until).where(Message.id == bind("message"))
)
_PROVIDER_ID = Prepared(
    lambda: (
        Attempt.select(Attempt.provider_id)
        .where(
            Attempt.message == bind("message"),
            Attempt.outcome == AttemptOutcome.SENT.value,
            on_found_rows(Attempt.provider_id.is_null(False)),
        )
        .order_by(Attempt.id.desc())
        .limit(1)
    )
)


def send_next(
    channel: int,
    name: str,
    conn: ChangingConnection,
    gate: RelayGate,
    public_url: str,
    now: datetime | None = None,
) -> bool:
    """Send the next due change. Return False if there is none, or if the provider cannot be used now.

    `name` is the channel's name, `gate` that of the provider. Raises only errors of the database.
    """
    at = now or store().now()
    claimed = claim(channel, at, dead_workers.own.number)
    if claimed is None:
        return False
    found = _MESSAGE.first(message=claimed.message)
    state, claimed_until = found if found is not None else (MessageStatus.CANCELLED, None)
    if state == MessageStatus.PENDING and claimed_until is not None and claimed_until > at:
        _postpone(claimed, at + IN_FLIGHT_DELAY)
        return True
    provider_id = _PROVIDER_ID.first(message=claimed.message) if state == MessageStatus.SENT else None
    if provider_id is None:
        # A message that is still to be sent shows the state of that moment.
        _finish(claimed)
        return True
    outcome, error = _send(claimed, provider_id[0], conn, public_url, at)
    metrics.count_change(name, outcome)
    log.info("message changed", channel=name, message=claimed.message, outcome=outcome)
    if isinstance(error, RelayError):
        report_down(name, gate, error)
        return False
    if outcome == "sent" or error is not None:
        gate.record_success()
    return True


def _send(
    claimed: ClaimedChange, provider_id: str, conn: ChangingConnection, public_url: str, at: datetime
) -> tuple[str, SendError | None]:
    """Send a change and record it. Return its outcome, and the error of the provider if there was one."""
    failure: SendError | None = None
    try:
        message = render_change(claimed.message, public_url, at)
        if message is not None:
            with release_connection():
                conn.change(provider_id, message)
        _finish(claimed)
        return ("sent" if message is not None else "cancelled"), None
    except STORE_ERRORS:
        raise
    except (Refused, UnusableAddress) as error:
        _finish(claimed)
        return "refused", error
    except SendError as error:
        failure = error
    except Exception:
        log.exception("message could not be changed", message=claimed.message)
    if claimed.attempts >= len(DELAYS):
        _finish(claimed)
        return "given_up", failure
    retry_after = failure.retry_after if failure is not None else None
    delay = max(DELAYS[claimed.attempts], retry_after or timedelta())
    _postpone(claimed, at + delay, attempts=claimed.attempts + 1)
    return "retry", failure


def _postpone(claimed: ClaimedChange, due_at: datetime, **columns: int) -> None:
    """Set when a change is due, unless the state changed meanwhile: then it is due now."""
    with store().write_transaction():
        query = MessageUpdate.update(due_at=due_at, claimed_by=None, **columns)
        query.where(MessageUpdate.id == claimed.row, MessageUpdate.version == claimed.version).execute()


def _finish(claimed: ClaimedChange) -> None:
    """Delete a change, unless the state changed meanwhile.

    Another thread may have sent a newer state before this one arrived: then it is sent again.
    """
    with store().write_transaction():
        query = MessageUpdate.delete()
        own = (MessageUpdate.id == claimed.row) & (MessageUpdate.version == claimed.version)
        if not query.where(own).execute():
            message = Message.get_or_none(Message.id == claimed.message)
            if message is not None:
                row = {"message_row": message.id, "channel": message.channel, "attempts": 0}
                row |= {"version": claimed.version + 1, "due_at": store().now()}
                bulk.insert(MessageUpdate, [row], conflict=["message_row"])
