"""The audit list of an account: the sign-ins and the changes of rights in its history."""

from datetime import datetime

import peewee

from models.changes.record import Actor, add_entry, build_person
from models.domain.audit_actions import ACTIONS
from models.domain.enums import Way
from models.tables.accounts import Account, User
from models.tables.changes import Change


def record(
    user: User, action: str, now: datetime, *, actor: Actor | None = None, client: str = "", detail: str = ""
) -> None:
    """Add an entry about a person. `actor` None: the person, on a page. Needs a write transaction."""
    who = actor or build_person(user, Way.PAGE, client)
    record_in_account(user.account_id, action, now, who, detail, user)


def record_in_account(
    account_row: int, action: str, now: datetime, actor: Actor, detail: str, user: User | None = None
) -> None:
    """Add an entry about rights of many persons, or of one. Needs a write transaction."""
    if action not in ACTIONS:
        raise ValueError(f"unknown action {action}")
    add_entry(account_row, now, actor, action, user, detail)


def list_entries(account: Account, *, before: int | None = None, limit: int) -> list[Change]:
    """Return the newest entries of an account with their persons, of rows before this one."""
    query = Change.select(Change, User).join(User, peewee.JOIN.LEFT_OUTER, on=Change.user)
    query = query.where(Change.account == account, Change.action.in_(list(ACTIONS)))
    if before is not None:
        query = query.where(Change.id < before)
    return list(query.order_by(Change.at.desc(), Change.id.desc()).limit(limit))
