"""The audit list of an account: sign-ins, and changes of rights."""

from datetime import datetime

import peewee

from models.tables.accounts import Account, User, get_display_name
from models.tables.sign_in import AuditEntry

# As the columns.
NAME_LIMIT = 255
DETAIL_LIMIT = 255
# The end of a text that was longer.
SHORTENED = "…"

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
    user: User, action: str, now: datetime, *, actor: User | str = "", client: str = "", detail: str = ""
) -> None:
    """Add an entry about a person. `actor` "": the person. Needs a write transaction."""
    record_in_account(
        user.account_id, action, now, user=user, actor=actor or user, client=client, detail=detail
    )


def record_in_account(
    account_row: int, action: str, now: datetime, *, actor: User | str, client: str, detail: str,
    user: User | None = None,
) -> None:  # fmt: skip
    """Add an entry about rights of many persons, or of one. Needs a write transaction."""
    if action not in ACTIONS:
        raise ValueError(f"unknown action {action}")
    name = actor if isinstance(actor, str) else get_display_name(actor)
    AuditEntry.create(
        account=account_row,
        at=now,
        action=action,
        user=user,
        actor=shorten(name, NAME_LIMIT),
        client=client[:64],
        detail=shorten(detail, DETAIL_LIMIT),
    )


def shorten(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, with a mark at its end if it was longer."""
    return text if len(text) <= limit else f"{text[: limit - len(SHORTENED)]}{SHORTENED}"


def list_entries(account: Account, *, before: int | None = None, limit: int) -> list[AuditEntry]:
    """Return the newest entries of an account with their persons, of rows before this one."""
    query = AuditEntry.select(AuditEntry, User).join(User, peewee.JOIN.LEFT_OUTER)
    query = query.where(AuditEntry.account == account)
    if before is not None:
        query = query.where(AuditEntry.id < before)
    return list(query.order_by(AuditEntry.at.desc(), AuditEntry.id.desc()).limit(limit))
