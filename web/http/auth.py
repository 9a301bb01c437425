"""Authentication: find the viewer of a request by its token.

Views call `viewer()`. The schemes Bearer and Token authenticate in the same way; client_profile.py has their
differences. The store has only the digests of tokens. No log contains a token.

What an operation does is a function `(who, ...)` with `@operation(permission)`. The view of the operation and
the pages call it, each with its own viewer.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import update_wrapper
from typing import Concatenate, Generic, ParamSpec, TypeVar, cast

import peewee
from flask import g, request

from models.domain.enums import AccountRole, Way
from models.store.ids import digest
from models.store.prepared import Prepared, bind, build_rows
from models.store.store import STORE_ERRORS, store
from models.tables.accounts import Account, CustomRole, Token, User
from web.http import permissions
from web.http.errors import NotAuthenticated
from web.http.failed_authentication import failures

# Precision of a token's last use. A write for each request would cost more than the information is worth.
USE_RECORDED_EVERY = timedelta(minutes=1)
# The request itself may still need the same lock, and has its own limit for that.
RECORD_LOCK_S = 0.2

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Viewer:
    """The member that sent the request. `permission` is the permission that the operation requires
    (web/http/permissions.py). `token_row` is the row number of the request's token; None: a
    link names the member. `token_name` is its name. `way` is how the request came."""

    user: User
    account: Account
    permission: str
    token_row: int | None = None
    token_name: str = ""
    way: Way = Way.INTERFACE

    @property
    def role(self) -> AccountRole:
        return AccountRole(self.user.role)

    @property
    def is_admin(self) -> bool:
        """Whether the viewer may do everything in the account: owners and admins may."""
        return self.role in (AccountRole.OWNER, AccountRole.ADMIN)

    @property
    def role_permissions(self) -> frozenset[str]:
        """The permissions of the custom role in all teams; only plain users have them (contract 4.9)."""
        if self.role is not AccountRole.USER or self.user.custom_role is None:
            return frozenset()
        return permissions.IMPLIED.union(self.user.custom_role.permissions)


def viewer() -> Viewer:
    """Return the viewer of this request."""
    found: Viewer = g.viewer
    return found


@contextmanager
def acting(who: Viewer, permission: str) -> Iterator[Viewer]:
    """Let this viewer do what requires the permission: `viewer()` returns the viewer with it."""
    previous = g.get("viewer")
    g.viewer = replace(who, permission=permission)
    try:
        yield g.viewer
    finally:
        if previous is None:
            g.pop("viewer")
        else:
            g.viewer = previous


class Operation(Generic[Parameters, Result]):
    """The function of an operation, and the permission that it requires of its first argument."""

    def __init__(self, permission: str, function: Callable[Concatenate[Viewer, Parameters], Result]) -> None:
        self.permission = permission
        self._function = function
        update_wrapper(self, function)

    def __call__(self, who: Viewer, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        with acting(who, self.permission) as found:
            return self._function(found, *args, **kwargs)


def operation(
    permission: str,
) -> Callable[[Callable[Concatenate[Viewer, Parameters], Result]], Operation[Parameters, Result]]:
    """Declare the function of an operation, which both its view and the pages call."""
    return lambda function: Operation(permission, function)


def now() -> datetime:
    """Return the time of this request, from the store's clock.

    Workers compare due times with the same clock, so the clocks of the hosts may differ.
    """
    if "now" not in g:
        g.now = store().now()
    moment: datetime = g.now
    return moment


def use_recent_time() -> None:
    """Let this request use a time that the store said some seconds ago, because it changes nothing."""
    g.now = store().recent_now()


def authenticate(at: datetime, permission: str) -> Viewer:
    """Return the viewer of this request's token, or raise NotAuthenticated or Throttled."""
    token = _find_valid(_read_token(), at)
    _record_use(token, at)
    return Viewer(token.user, token.user.account, permission, token.id, token.name)


def _find_valid(secret: str, at: datetime) -> Token:
    token = _find(secret)
    if token is None or (token.expires_at is not None and token.expires_at <= at):
        failures.count(request.remote_addr or "", at)
        raise NotAuthenticated(detail="Invalid token.")
    return token


def _read_token() -> str:
    """Return the token of the Authorization header. Any number of blanks may precede it."""
    word, _, rest = request.headers.get("Authorization", "").strip().partition(" ")
    if word.lower() not in ("bearer", "token") or not rest.strip():
        raise NotAuthenticated
    return rest.strip()


# A row of a token, of its person, of the account, and of the person's role of the account's own, or nulls.
_TOKEN = Prepared(
    lambda: (
        Token.select(Token, User, Account, CustomRole)
        .join(User)
        .join(Account)
        .join_from(User, CustomRole, peewee.JOIN.LEFT_OUTER, on=User.custom_role)
        .where(Token.digest == bind("digest"), Token.revoked_at.is_null(), User.removed_at.is_null())
    )
)


def _find(secret: str) -> Token | None:
    """Load the token of a current member with one query, unless it was revoked."""
    # The header comes as Latin-1 text; a text that is no token matches no digest.
    values = _TOKEN.first(digest=digest(secret))
    if values is None:
        return None
    token, user, account, role = cast(
        "tuple[Token, User, Account, CustomRole | None]",
        build_rows(values, Token, User, Account, CustomRole),
    )
    token.user, user.account, user.custom_role = user, account, role
    return token


def _record_use(token: Token, at: datetime) -> None:
    if token.last_used_at is not None and at - token.last_used_at < USE_RECORDED_EVERY:
        return
    # The request must succeed even if the store cannot record the last use of its token.
    with suppress(*STORE_ERRORS), store().write_transaction(lock_s=RECORD_LOCK_S):
        Token.update(last_used_at=at).where(Token.id == token.id).execute()
