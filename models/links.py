"""Signed links: whoever holds one may see and move one incident, as one person, for seven days.

A token binds (incident, user, notice) by row numbers and the moment it ends. The key is a row of the
database, so that every process and host signs and reads alike; deleting the row ends all links.
"""

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import itsdangerous

from models.accounts import Secret
from models.base import store

LIFETIME = timedelta(days=7)

_SECRET = "links"  # noqa: S105 - the name of the row, not its value


class BadLink(ValueError):
    """Not a link of ours."""


class ExpiredLink(BadLink):
    """A link of ours that is older than its lifetime."""


@dataclass(frozen=True, slots=True)
class Link:
    """What a link is for; row numbers."""

    incident: int
    user: int
    notice: int


class Signer:
    """Signs and reads links. Made by signer()."""

    def __init__(self, key: str) -> None:
        self._serializer = itsdangerous.URLSafeSerializer(key, salt="link")

    def sign(self, link: Link, now: datetime) -> str:
        """A token for a path, of letters, digits and -_. only."""
        ends = int((now + LIFETIME).timestamp())
        token: str | bytes = self._serializer.dumps([link.incident, link.user, link.notice, ends])
        return token if isinstance(token, str) else token.decode()

    def read(self, token: str, now: datetime) -> Link:
        """What was signed. Raises BadLink or ExpiredLink; does not ask whether the user is still there."""
        try:
            said: Any = self._serializer.loads(token)
        except itsdangerous.BadData:
            raise BadLink from None
        incident, user, notice, ends = said
        if now > datetime.fromtimestamp(ends, UTC):
            raise ExpiredLink
        return Link(incident, user, notice)


def read(token: str, now: datetime) -> Link:
    """Read a link without ever writing: as long as no key was made, none can be good."""
    key = _key()
    if key is None:
        raise BadLink
    return Signer(key).read(token, now)


def signer() -> Signer:
    """The signer of this installation; its key is made at the first call. Needs a connection."""
    return Signer(_key() or _made_key())


def _key() -> str | None:
    found: str | None = Secret.select(Secret.value).where(Secret.name == _SECRET).scalar()
    return found


def _made_key() -> str:
    with store().writing():
        # Two processes may make it at once; the first one's stays.
        Secret.insert(name=_SECRET, value=secrets.token_urlsafe(32)).on_conflict_ignore().execute()
        key = _key()
    if key is None:
        raise RuntimeError("the key of links cannot be read back")
    return key
