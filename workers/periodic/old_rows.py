"""Which rows retention deletes, for each kind of data: rows that are old enough and that nothing needs.

A transaction deletes at most MAX_ROWS rows, so that an alert never waits long for the lock of SQLite. Rows
that refer to a row are deleted before it, in transactions of their own if there are many.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import peewee

from models.domain.enums import IncidentStatus, MessageStatus, NotificationStatus, OutboundStatus, WorkState
from models.store.fields import Table
from models.store.prepared import in_list
from models.store.store import store
from models.tables.accounts import RateLimit, Token
from models.tables.changes import Change
from models.tables.events import Entity, Event, Receipt, ReceiptProgress
from models.tables.incidents import (
    Drill,
    Incident,
    IncidentAssignment,
    IncidentGroup,
    IncidentLog,
    IncidentNote,
    IncidentResponder,
    IncidentTag,
    IncidentTask,
)
from models.tables.notifications import Attempt, Message, Notification
from models.tables.outbound import OutboundDelivery
from models.tables.postmortems import PostmortemIncident
from models.tables.schedules import ShiftSwap
from models.tables.services import DeletedIntegration
from models.tables.sign_in import Session, SignInLink, SignInRate, SignInStep, UntrustedProxy
from models.tables.stakeholders import StakeholderMail
from models.tables.timers import Timer

# Rows that one search reads, without a lock.
SEARCHED_ROWS = 500
# Main rows of a batch, and rows that one transaction deletes or changes. Measured on SQLite: 4 ms.
BATCH_SIZE = 25
MAX_ROWS = 50
# Bytes of bodies that one transaction deletes: SQLite reads a deleted body.
MAX_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of data with an age. `table` has its main rows.

    - `age`: the column by which rows are old; it rises with the row number. None: all rows are searched.
    - `referring`: columns of rows that are deleted with a main row. `released`: columns that become None.
    - `can_delete`: the condition for a main row, with the time before which it must be done.
    - `size`: the bytes of a main row that count for MAX_BYTES.
    """

    name: str
    table: type[Table]
    can_delete: Callable[[datetime], peewee.Expression]
    age: peewee.Field | None = None
    referring: tuple[peewee.ForeignKeyField, ...] = ()
    released: tuple[peewee.ForeignKeyField, ...] = ()
    size: peewee.Function | None = None


def search(kind: Kind, before: datetime) -> Iterator[list[int]]:
    """Yield the main rows that can be deleted, in batches. Between two batches, no transaction is open."""
    last = 0
    while page := _list_page(kind, last, before):
        last = page[-1]
        rows = _select_deletable(kind, page, before)
        batch: list[int] = []
        bytes_left = MAX_BYTES
        for row, size in rows:
            if batch and (len(batch) == BATCH_SIZE or size > bytes_left):
                yield batch
                batch, bytes_left = [], MAX_BYTES
            batch.append(row)
            bytes_left -= size
        if batch:
            yield batch


def _list_page(kind: Kind, last: int, before: datetime) -> list[int]:
    """Return the numbers of the next rows that are old, up to the first row that is not."""
    columns = [kind.table.id] if kind.age is None else [kind.table.id, kind.age]
    query = kind.table.select(*columns).where(kind.table.id > last).order_by(kind.table.id)
    found = query.limit(SEARCHED_ROWS).tuples()
    return [row for row, *age in found if not age or age[0] < before]


def _select_deletable(kind: Kind, rows: Collection[int], before: datetime) -> list[tuple[int, int]]:
    size = kind.size or peewee.Value(0)
    query = kind.table.select(kind.table.id, size).where(
        in_list(kind.table.id, rows), kind.can_delete(before)
    )
    return list(query.order_by(kind.table.id).tuples())


def delete(kind: Kind, rows: Collection[int], before: datetime) -> tuple[int, bool]:
    """Delete at most MAX_ROWS rows in one transaction.

    Return the number of deleted main rows, and whether more rows are left to delete.
    """
    with store().write_transaction():
        query = kind.table.select(kind.table.id).where(in_list(kind.table.id, rows), kind.can_delete(before))
        # A row that somebody changes now is not old.
        locked = [row for (row,) in store().for_update(query, skip_locked=True).tuples()]
        left = MAX_ROWS
        columns = [
            *((column, True) for column in kind.referring),
            *((column, False) for column in kind.released),
        ]
        for column, is_deleted in columns:
            left -= _detach(column, locked, left, is_deleted=is_deleted)
            if left <= 0:
                return 0, True
        deleted = kind.table.delete().where(in_list(kind.table.id, locked[:left])).execute()
        return int(deleted), len(locked) > left


def _detach(column: peewee.ForeignKeyField, rows: Collection[int], limit: int, *, is_deleted: bool) -> int:
    """Delete at most `limit` rows that refer to these rows, or set their column to None."""
    table = column.model
    found = [row for (row,) in table.select(table.id).where(in_list(column, rows)).limit(limit).tuples()]
    if found:
        change = table.delete() if is_deleted else table.update({column: None})
        change.where(in_list(table.id, found)).execute()
    return len(found)


def _exists(query: peewee.ModelSelect) -> peewee.Function:
    return peewee.fn.EXISTS(query.select(peewee.SQL("1")))


def _can_delete_receipt(before: datetime) -> peewee.Expression:
    """Exclude alerts that are pending, dead letters, deferred by maintenance, or part of an open incident."""
    deferred = Entity.select().where(
        Entity.integration == Event.integration,
        Entity.entity_id == Event.entity_id,
        Entity.deferred_alert == Event.unique_id,
    )
    needed = (
        Event.select()
        .join(Incident, peewee.JOIN.LEFT_OUTER)
        .where(
            Event.receipt == Receipt.id,
            (Event.state != WorkState.DONE) | (Incident.status < IncidentStatus.RESOLVED) | _exists(deferred),
        )
    )
    return (Receipt.state == WorkState.DONE) & (Receipt.received_at < before) & ~_exists(needed)


def _can_delete_message(before: datetime) -> peewee.Expression:
    """Exclude messages that are not sent yet, and those of incidents that are not resolved for as long."""
    needed = (
        Notification.select()
        .join(Incident)
        .where(
            Notification.message == Message.id,
            (Notification.state == NotificationStatus.PENDING)
            | (Incident.status < IncidentStatus.RESOLVED)
            | (Incident.resolved_date >= before),
        )
    )
    # Without the row of a mail, a repeated alert would mail its stakeholder again.
    repeatable = (
        StakeholderMail.select()
        .join(Incident)
        .where(StakeholderMail.message == Message.id, Incident.status < IncidentStatus.RESOLVED)
    )
    is_done = (Message.state != MessageStatus.PENDING) & (Message.done_at < before)
    return is_done & ~_exists(needed) & ~_exists(repeatable)


def _can_delete_incident(before: datetime) -> peewee.Expression:
    """Exclude incidents to which stored rows refer: alerts, notifications, postmortems, merged incidents."""
    child, parent = Incident.alias(), Incident.alias()
    needed_by = (
        Event.select().where(Event.incident == Incident.id),
        Notification.select().where(Notification.incident == Incident.id),
        Timer.select().where(Timer.incident == Incident.id, Timer.done_at.is_null()),
        PostmortemIncident.select().where(PostmortemIncident.incident == Incident.id),
        Entity.select().where(Entity.incident == Incident.id),
        child.select().where(child.parent == Incident.id),
        parent.select().where(parent.id == Incident.parent, parent.status < IncidentStatus.RESOLVED),
    )
    is_old = (Incident.status == IncidentStatus.RESOLVED) & (Incident.resolved_date < before)
    for query in needed_by:
        is_old &= ~_exists(query)
    return is_old


def _can_delete_entity(before: datetime) -> peewee.Expression:
    """Return the condition that an entity has no content: it held no stored incident, and nothing defers it.

    The next alert of the entity creates it again.
    """
    return (
        Entity.incident.is_null()
        & Entity.last_incident.is_null()
        & Entity.deferred_alert.is_null()
        & (Entity.resolved_at.is_null() | (Entity.resolved_at < before))
    )


def _can_delete_copy(before: datetime) -> peewee.Expression:
    """Return the condition that no stored alert refers to this copy of a deleted integration."""
    return ~_exists(Event.select().where(Event.deleted_integration == DeletedIntegration.id))


def _can_delete_rate(before: datetime) -> peewee.Expression:
    # Rows that count nothing, but are locked, have no time.
    return RateLimit.used_at < before


def _can_delete_token(before: datetime) -> peewee.Expression:
    """Return the condition that a token has expired, or was revoked, before this time."""
    return (Token.expires_at < before) | (Token.revoked_at < before)


def _can_delete_group(before: datetime) -> peewee.Expression:
    return IncidentGroup.created_at < before


def _can_delete_delivery(before: datetime) -> peewee.Expression:
    return (OutboundDelivery.created_at < before) & (OutboundDelivery.state != OutboundStatus.PENDING)


ALERTS = Kind(
    "alerts",
    Receipt,
    _can_delete_receipt,
    Receipt.received_at,
    referring=(Event.receipt, ReceiptProgress.receipt),
    size=peewee.fn.LENGTH(Receipt.body),
)
NOTIFICATIONS = Kind(
    "notifications",
    Message,
    _can_delete_message,
    Message.created_at,
    referring=(Attempt.message, Notification.message, StakeholderMail.message),
)
INCIDENTS = Kind(
    "incidents",
    Incident,
    _can_delete_incident,
    Incident.creation_date,
    referring=(
        IncidentLog.incident,
        Timer.incident,
        IncidentNote.incident,
        IncidentTag.incident,
        IncidentResponder.incident,
        IncidentAssignment.incident,
        IncidentTask.incident,
        StakeholderMail.incident,
        OutboundDelivery.incident,
        Drill.incident,
    ),
    released=(Entity.last_incident,),
)
OUTBOUND = Kind("outbound deliveries", OutboundDelivery, _can_delete_delivery, OutboundDelivery.created_at)
ENTITIES = Kind("entities", Entity, _can_delete_entity)
GROUPS = Kind("groups", IncidentGroup, _can_delete_group, IncidentGroup.created_at)
RATES = Kind("rates", RateLimit, _can_delete_rate)
TOKENS = Kind("tokens", Token, _can_delete_token)
SESSIONS = Kind("sessions", Session, lambda before: Session.ends_at < before)
SIGN_IN_LINKS = Kind("sign-in links", SignInLink, lambda before: SignInLink.ends_at < before)
SIGN_IN_STEPS = Kind("sign-in steps", SignInStep, lambda before: SignInStep.ends_at < before)
SIGN_IN_RATES = Kind("sign-in rates", SignInRate, lambda before: SignInRate.used_at < before)
UNTRUSTED_PROXIES = Kind("untrusted proxies", UntrustedProxy, lambda before: UntrustedProxy.seen_at < before)
CHANGES = Kind("changes", Change, lambda before: Change.at < before, Change.at)
SWAPS = Kind(
    "shift swaps",
    ShiftSwap,
    lambda before: (ShiftSwap.asked_end < before) & (ShiftSwap.returned_end < before),
)
DELETED_INTEGRATIONS = Kind("deleted integrations", DeletedIntegration, _can_delete_copy)


# The changes that an account keeps; older ones are deleted. And how many such accounts one pass cleans up.
MAX_CHANGES = 100_000
MAX_ACCOUNTS = 1_000


def list_surplus_changes(most: int = MAX_CHANGES) -> Iterator[Kind]:
    """Yield, for each account with more changes than it keeps, the kind of its oldest changes."""
    counted = Change.select(Change.account).group_by(Change.account)
    many = counted.having(peewee.fn.COUNT(Change.id) > most).limit(MAX_ACCOUNTS).tuples()
    for (account,) in list(many):
        own = Change.select(Change.id).where(Change.account == account)
        newest = own.order_by(Change.id.desc()).offset(most).limit(1).scalar()
        yield Kind("surplus changes", Change, partial(_is_surplus, account, newest))


def _is_surplus(account: int, newest: int, before: datetime) -> peewee.Expression:
    return (Change.account == account) & (Change.id <= newest) & (Change.at <= before)


def forget_removed_rows(before: datetime) -> bool:
    """Forget the deleted rows of some changes of before this time. Return whether more are left."""
    with store().write_transaction():
        old = Change.select(Change.id).where(Change.removed.is_null(False), Change.at < before)
        found = [row for (row,) in old.limit(MAX_ROWS).tuples()]
        if found:
            Change.update(removed=None).where(in_list(Change.id, found)).execute()
    return len(found) == MAX_ROWS
