"""Add what a viewer changes to the audit list of the account."""

from collections.abc import Iterable

import peewee
from flask import has_request_context, request

from models.sign_in import audit, sessions
from models.tables.accounts import User
from web.http.auth import now, viewer
from web.http.failed_authentication import get_network

# So many characters of the name of a role or a team leave room for permissions.
NAME_SHOWN = 60


def record(user: User, action: str, detail: str = "") -> None:
    """Record that the viewer changed something of this person, in the caller's transaction."""
    audit.record(user, action, now(), actor=viewer().user, client=_get_client(), detail=detail)


def record_rights(user: User, action: str, detail: str) -> None:
    """Record a change of this person's rights. The sessions of the person get new secrets."""
    record(user, action, detail)
    sessions.renew_later([user.id])


def record_shared_rights(persons: "peewee.ModelSelect[User]", action: str, detail: str) -> None:
    """Record a change of the rights of these persons (a select of row numbers), as record_rights() does."""
    audit.record_in_account(
        viewer().account.id, action, now(), actor=viewer().user, client=_get_client(), detail=detail
    )
    sessions.renew_later(persons)


def describe_permissions(name: str, before: Iterable[str], after: Iterable[str]) -> str:
    """Return what a role or a team gained (+) and lost (-) as text; "": nothing.

    The text fits into an entry: what has no place in it is counted.
    """
    old, new = set(before), set(after)
    changes = [*(f"+{each}" for each in sorted(new - old)), *(f"-{each}" for each in sorted(old - new))]
    if not changes:
        return ""
    shown = f"{audit.shorten(name, NAME_SHOWN)}: "
    for number, change in enumerate(changes):
        more = f"{len(changes) - number} more"
        is_last = number == len(changes) - 1
        room = audit.DETAIL_LIMIT - len(shown) - (0 if is_last else len(f", {more}"))
        if len(change) + len(", ") > room:
            return f"{shown}{more}"
        shown += change if is_last else f"{change}, "
    return shown


def _get_client() -> str:
    """Return the network of the client; "": there is no request."""
    return get_network(request.remote_addr or "") if has_request_context() else ""
