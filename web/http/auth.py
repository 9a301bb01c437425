"""Bearer token to viewer: who asks, and in which account.

`Viewer` is what every view gets as `viewer()`. The scheme words Bearer and Token are alike here; what
they change stands in profile.py. Tokens are never logged and never stored, only their digests.
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import peewee
from flask import g, request

from models.domain.enums import AccountRole
from models.store.base import STORE_ERRORS, store
from models.store.ids import digest
from models.tables.accounts import Account, CustomRole, Token, User
from web.http import permissions
from web.http.errors import NotAuthenticated

# How exact the last use of a token is known: a write per request would cost more than it tells.
USE_RECORDED_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who asks, and what for: `needs` is what the operation needs (web/http/permissions.py)."""

    user: User
    account: Account
    permission: str

    @property
    def role(self) -> AccountRole:
        return AccountRole(self.user.role)

    @property
    def is_admin(self) -> bool:
        """Owners and admins may do everything in their account."""
        return self.role in (AccountRole.OWNER, AccountRole.ADMIN)

    @property
    def role_permissions(self) -> frozenset[str]:
        """What the custom role allows in all teams; it counts for plain users only (contract 4.9)."""
        if self.role is not AccountRole.USER or self.user.custom_role is None:
            return frozenset()
        return permissions.IMPLIED.union(self.user.custom_role.permissions)


def viewer() -> Viewer:
    """Who makes this request."""
    found: Viewer = g.viewer
    return found


def now() -> datetime:
    """The moment of this request, by the clock that due work is judged by: what is decided here falls due
    by it, and hosts need not agree on the time.
    """
    if "now" not in g:
        g.now = store().now()
    moment: datetime = g.now
    return moment


def authenticate(at: datetime, permission: str) -> Viewer:
    """The viewer behind this request's token, or NotAuthenticated."""
    token = _find(_read_token(), at)
    _record_use(token, at)
    return Viewer(token.user, token.user.account, permission)


def _read_token() -> str:
    """The token of the Authorization header, whatever the number of blanks before it."""
    word, _, rest = request.headers.get("Authorization", "").strip().partition(" ")
    if word.lower() not in ("bearer", "token") or not rest.strip():
        raise NotAuthenticated
    return rest.strip()


def _find(secret: str, at: datetime) -> Token:
    """The living token of a present member; one query."""
    token = (
        Token.select(Token, User, Account, CustomRole)
        .join(User)
        .join(Account)
        .join_from(User, CustomRole, peewee.JOIN.LEFT_OUTER, on=User.custom_role)
        .where(
            # The header comes as Latin-1 text; anything else than ours just matches no digest.
            Token.digest == digest(secret),
            Token.revoked_at.is_null(),
            User.removed_at.is_null(),
        )
        .first()
    )
    if token is None or (token.expires_at is not None and token.expires_at <= at):
        raise NotAuthenticated(detail="Invalid token.")
    found: Token = token
    return found


def _record_use(token: Token, at: datetime) -> None:
    if token.last_used_at is not None and at - token.last_used_at < USE_RECORDED_EVERY:
        return
    # A request is not refused because its token's last use could not be noted.
    with suppress(*STORE_ERRORS), store().write_transaction():
        Token.update(last_used_at=at).where(Token.id == token.id).execute()
