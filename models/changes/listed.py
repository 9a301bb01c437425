"""List the changes of an account, newest first, and show each of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import peewee

from models.changes.obstacles import find_obstacle
from models.changes.sentences import write_sentence
from models.store.peewee_internals import list_fields
from models.tables.accounts import User
from models.tables.changes import Change
from models.tables.teams import Team

Author = User.alias()
# No list shows what a deletion removed, which can have 64 KB.
_COLUMNS = [column for column in list_fields(Change) if column is not Change.removed]
# Of it, only whether it is kept: "" or None.
_REMOVED = peewee.Case(None, [(Change.removed.is_null(False), "")]).alias("removed")
_PERSON = (User.id, User.username, User.first_name, User.last_name, User.email)


@dataclass(frozen=True, slots=True)
class Filters:
    """Which changes are listed. None: all. `author` is a row number; `end` is later than all of them."""

    object_id: str | None = None
    author: int | None = None
    kind: str | None = None
    action: str | None = None
    way: str | None = None
    batch: str | None = None
    start: datetime | None = None
    end: datetime | None = None


def select_changes(account: int, filters: Filters = Filters()) -> "peewee.ModelSelect[Change]":
    """Return a query of these changes of an account, newest first, without what a deletion removed."""
    query = (
        Change.select(*_COLUMNS, _REMOVED, Team.id, Team.unique_id, *_PERSON, Author.id, Author.username)
        .join(Team, peewee.JOIN.LEFT_OUTER, on=Change.team)
        .join_from(Change, User, peewee.JOIN.LEFT_OUTER, on=Change.user)
        .join_from(Change, Author, peewee.JOIN.LEFT_OUTER, on=Change.author)
        .where(Change.account == account)
    )
    for column, value in (
        (Change.author, filters.author),
        (Change.kind, filters.kind),
        (Change.action, filters.action),
        (Change.way, filters.way),
        (Change.batch, filters.batch),
    ):
        if value is not None:
            query = query.where(column == value)
    if filters.start is not None:
        query = query.where(Change.at >= filters.start)
    if filters.end is not None:
        query = query.where(Change.at < filters.end)
    if filters.object_id is None:
        # The index (account, at, id) has this order.
        return query.order_by(Change.at.desc(), Change.id.desc())
    # The index of an object has only rows with an object, and the planner does not know that this one is.
    of_object = (Change.object_id == filters.object_id) & (Change.object_id != "")
    return query.where(of_object).order_by(Change.id.desc())


def show(change: Change, obstacle: str | None) -> dict[str, object]:
    """Return a change of select_changes() as all lists show it, with plain values.

    `obstacle` is why this reader cannot undo it, of find_obstacle() or for want of a right.
    """
    return {
        "unique_id": change.unique_id,
        "at": change.at,
        "action": change.action,
        "kind": change.kind or None,
        "object": change.object_id or None,
        "name": change.name or None,
        "number": change.number,
        "team": change.team.unique_id if change.team else None,
        "person": change.user.username if change.user else None,
        "actor": change.actor,
        "author": change.author.username if change.author else None,
        "token": change.token or None,
        "way": change.way,
        "batch": change.batch,
        "what": write_sentence(change),
        "fields": change.fields,
        "undoes": change.undoes,
        "undone_by": change.undone_by,
        "can_undo": obstacle is None,
        "why_not": obstacle,
    }


def show_all(changes: Sequence[Change]) -> list[dict[str, object]]:
    """Return changes as all lists show them, for a reader with all rights."""
    return [show(change, find_obstacle(change)) for change in changes]
