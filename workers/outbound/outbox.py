"""Claim deliveries to outbound integrations and record their attempts.

A claim is of a target, not of a delivery: so a target gets one request at a time, in the order of the
changes. If a worker is killed between sending and recording, its claim ends, and another worker sends the
same delivery again, with the same id.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

import peewee

from models.domain.enums import OutboundStatus
from models.domain.reasons import Reason, make_reason
from models.store.store import store
from models.tables.outbound import OutboundDelivery, OutboundTarget
from models.tables.services import Integration, Service
from models.tables.teams import Team
from runtime import metrics
from workers.outbound import retries

# Longer than an attempt takes.
CLAIM = timedelta(seconds=30)
# Deliveries that are given up in one transaction.
MAX_GIVEN_UP = 500

_PENDING = OutboundDelivery.state == OutboundStatus.PENDING


@dataclass(frozen=True, slots=True)
class Claimed:
    """A delivery that this worker may send, with its target. `claimed_until` identifies the claim.

    `account` is the row number of the account of the target.
    """

    delivery: int
    unique_id: str
    incident: int
    event: str
    created_at: datetime
    attempts: int
    target: int
    integration: int
    url: str
    secret: str
    failures: int
    claimed_until: datetime
    account: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of an attempt. `blames_target`: other deliveries to the target would fail too."""

    state: OutboundStatus
    outcome: Reason
    blames_target: bool = False
    retry_after: timedelta | None = None


def is_due(now: datetime) -> bool:
    return bool(_select_due(now).exists())


def _select_due(now: datetime) -> "peewee.ModelSelect[OutboundTarget]":
    """Select the targets that can be served now: they have a due delivery and no claim or delay."""
    due = OutboundDelivery.select().where(
        OutboundDelivery.target == OutboundTarget.id, _PENDING, OutboundDelivery.next_attempt_at <= now
    )
    free = OutboundTarget.claimed_until.is_null() | (OutboundTarget.claimed_until <= now)
    ready = OutboundTarget.retry_at.is_null() | (OutboundTarget.retry_at <= now)
    return OutboundTarget.select().where(free, ready, peewee.fn.EXISTS(due))


def claim(
    now: datetime, without: Collection[int] = (), *, with_failing: bool = True, by: int | None = None
) -> Claimed | None:
    """Claim the target that was served least recently, and return its next delivery; None: nothing is due.

    `without`: accounts (row numbers) whose targets are not claimed. `with_failing` False: nor targets whose
    last attempt failed. `by`: the number that this process holds (models/processes/claim_holders.py). Needs a
    write transaction.
    """
    due = _select_due(now)
    if without:
        of_accounts = _select_accounts(Integration.id).where(Team.account.in_(list(without)))
        due = due.where(OutboundTarget.integration.not_in(of_accounts))
    if not with_failing:
        due = due.where(OutboundTarget.failures == 0)
    order = (OutboundTarget.served_at.asc(nulls="first"), OutboundTarget.id)
    query = store().for_update(due.order_by(*order).limit(1), skip_locked=True)
    target = next(iter(query), None)
    if target is None:
        return None
    until = now + CLAIM
    claimed = OutboundTarget.update(claimed_until=until, claimed_by=by, served_at=now)
    claimed.where(OutboundTarget.id == target.id).execute()
    _give_up(target.id, now)
    row = _find_next(target.id, now)
    if row is None:
        release(target.id, until)
        return None
    _replace_older(row, now)
    account = _select_accounts(Team.account).where(Integration.id == target.integration_id).scalar()
    return Claimed(
        row.id, row.unique_id, row.incident_id, row.event, row.created_at, row.attempts,
        target.id, target.integration_id, target.url, target.secret, target.failures, until, account,
    )  # fmt: skip


def _select_accounts(column: peewee.Field) -> "peewee.ModelSelect[Integration]":
    """Select a column of integrations with their teams."""
    return Integration.select(column).join(Service).join(Team)


def _find_next(target: int, now: datetime) -> OutboundDelivery | None:
    """Return the oldest due delivery, or a newer one of its incident if an attempt of the oldest failed.

    So no change is sent after a newer one, and the receiver is not kept from the latest state.
    """
    due = (OutboundDelivery.target == target) & _PENDING & (OutboundDelivery.next_attempt_at <= now)
    found: OutboundDelivery | None = (
        OutboundDelivery.select().where(due).order_by(OutboundDelivery.id).limit(1).get_or_none()
    )
    if found is None or not found.attempts:
        return found
    newer = OutboundDelivery.select().where(due, OutboundDelivery.incident == found.incident_id)
    latest: OutboundDelivery = newer.order_by(OutboundDelivery.id.desc()).limit(1).get()
    return latest


def _replace_older(row: OutboundDelivery, now: datetime) -> None:
    older = (
        (OutboundDelivery.target == row.target_id)
        & (OutboundDelivery.incident == row.incident_id)
        & (OutboundDelivery.id < row.id)
        & _PENDING
    )
    _end(older, OutboundStatus.REPLACED, make_reason("outbound_replaced"), now)


def _give_up(target: int, now: datetime) -> None:
    """End the deliveries that were pending too long, also those that were never tried."""
    old = (
        OutboundDelivery.select(OutboundDelivery.id)
        .where(
            OutboundDelivery.target == target,
            _PENDING,
            OutboundDelivery.created_at <= now - retries.GIVE_UP_AFTER,
        )
        .limit(MAX_GIVEN_UP)
    )
    rows = [row for (row,) in old.tuples()]
    if rows:
        _end(OutboundDelivery.id.in_(rows), OutboundStatus.FAILED, make_reason("outbound_given_up"), now)


def _end(which: peewee.Expression, state: OutboundStatus, outcome: Reason, now: datetime) -> None:
    """End deliveries without an attempt."""
    ended = OutboundDelivery.update(state=state, outcome=outcome, done_at=now).where(which).execute()
    metrics.count_outbound(state.name.lower(), ended)


def record(claimed: Claimed, attempt: Attempt, now: datetime) -> OutboundStatus:
    """Record an attempt, release the target, and return the new state of the delivery.

    Needs a write transaction.
    """
    attempts = claimed.attempts + 1
    state, outcome, next_at = attempt.state, attempt.outcome, now
    failures = claimed.failures + 1 if attempt.blames_target else 0
    if state is OutboundStatus.PENDING:
        delay = retries.get_delay(attempts, attempt.retry_after)
        next_at = now if attempt.blames_target else now + delay
        if retries.is_over(claimed.created_at, now):
            state, outcome = OutboundStatus.FAILED, outcome.add(make_reason("outbound_given_up"))
    OutboundDelivery.update(
        state=state,
        outcome=outcome,
        attempts=attempts,
        last_attempt_at=now,
        next_attempt_at=next_at,
        done_at=None if state is OutboundStatus.PENDING else now,
    ).where(OutboundDelivery.id == claimed.delivery, _PENDING).execute()
    retry_at = now + retries.get_delay(failures, attempt.retry_after) if attempt.blames_target else None
    if attempt.state is not OutboundStatus.FILTERED:
        changed = OutboundTarget.update(failures=failures, retry_at=retry_at)
        changed.where(OutboundTarget.id == claimed.target, OutboundTarget.url == claimed.url).execute()
    release(claimed.target, claimed.claimed_until)
    return state


def release(target: int, claimed_until: datetime) -> None:
    """End a claim, unless it expired and another worker claimed the target."""
    mine = (OutboundTarget.id == target) & (OutboundTarget.claimed_until == claimed_until)
    OutboundTarget.update(claimed_until=None, claimed_by=None).where(mine).execute()
