"""The audit list of an account: the sign-ins and the changes of rights in its history."""

from datetime import datetime

import peewee

from models.changes.record import Actor, add_entry, build_person
from models.domain.enums import Way
from models.tables.accounts import Account, User
from models.tables.changes import Change

# Action -> its text in the list.
ACTIONS = {
    "signed_in": "signed in",
    "sign_in_failed": "could not sign in: wrong password",
    "signed_out": "signed out",
    "session_ended": "ended a session",
    "password_changed": "set a new password",
    "passkey_added": "added a passkey",
    "passkey_removed": "removed a passkey",
    "identity_added": "linked the sign-in at a provider",
    "sign_in_reset": "reset the ways to sign in",
    "link_created": "created a sign-in link",
    "joined": "joined the account",
    "invited": "invited a person",
    "removed": "removed a person",
    "role_changed": "changed the role of a person",
    "team_changed": "changed the teams of a person",
    "owner_changed": "made another person the owner",
    "address_changed": "changed the address of a person",
    "custom_role_changed": "changed a custom role",
    "team_permissions_changed": "changed what all members may do in a team",
    "token_created": "created a token",
    "token_changed": "changed the end of a token",
    "token_revoked": "revoked a token",
}


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
