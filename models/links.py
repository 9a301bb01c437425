"""Signed links, for seven days: to one incident, as one person; or into an account, for who is invited. And
without an end, since programs subscribe to them: the addresses of calendars.

A token binds row numbers (incident, user, notice), or a user and the address that was invited, and the
moment it ends; or what a calendar shows, and the key of whom it was given to. No token of one purpose is good
for another. The key is a row of the database, so that every process and host signs and reads alike;
deleting the row ends all links.
"""

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import itsdangerous

from models.accounts import Secret
from models.base import store
from models.ids import digest

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


@dataclass(frozen=True, slots=True)
class Invitation:
    """Whom an invitation is for: a row number, and the address that it was sent to."""

    user: int
    address: str

    @classmethod
    def to(cls, user: Any) -> "Invitation":
        """For a user as they are now: one who got another address is not who was invited."""
        return cls(user.id, digest(user.email)[:16])


@dataclass(frozen=True, slots=True)
class Feed:
    """What a calendar shows, `months` ahead, to the user of this row number: the shifts of a schedule, by its
    unique_id, or of all where that is ""; `own` are the user's alone.

    `key` stands for the user's calendar_key, so that a new one ends the addresses that were given before.
    """

    user: int
    key: str
    schedule: str
    own: bool
    months: int

    @classmethod
    def to(cls, user: Any, *, schedule: str = "", own: bool, months: int) -> "Feed":
        """For a user with the calendar_key that they have now, which must be there."""
        return cls(user.id, digest(user.calendar_key)[:16], schedule, own, months)

    def is_by_key_of(self, user: Any) -> bool:
        """Whether the user still has the key by which it was given."""
        return user.calendar_key is not None and self.key == digest(user.calendar_key)[:16]


class Signer:
    """Signs and reads links. Made by signer()."""

    def __init__(self, key: str) -> None:
        self._links = itsdangerous.URLSafeSerializer(key, salt="link")
        self._invitations = itsdangerous.URLSafeSerializer(key, salt="invitation")
        self._feeds = itsdangerous.URLSafeSerializer(key, salt="calendar")

    def sign(self, link: Link, now: datetime) -> str:
        """A token for a path, of letters, digits and -_. only."""
        return _signed(self._links, [link.incident, link.user, link.notice], now)

    def read(self, token: str, now: datetime) -> Link:
        """What was signed. Raises BadLink or ExpiredLink; does not ask whether the user is still there."""
        return Link(*_said(self._links, token, now))

    def sign_invitation(self, invitation: Invitation, now: datetime) -> str:
        return _signed(self._invitations, [invitation.user, invitation.address], now)

    def read_invitation(self, token: str, now: datetime) -> Invitation:
        """What was signed, as read() does; does not ask whether it was used."""
        return Invitation(*_said(self._invitations, token, now))

    def sign_feed(self, feed: Feed) -> str:
        """A token that does not end, the same whenever it is asked for."""
        return _token(self._feeds, [feed.user, feed.key, feed.schedule, int(feed.own), feed.months])

    def read_feed(self, token: str) -> Feed:
        """What was signed. Raises BadLink; does not ask whether the key still is the user's."""
        user, key, schedule, own, months = _content(self._feeds, token)
        return Feed(user, key, schedule, bool(own), months)


def _signed(serializer: Any, said: list[Any], now: datetime) -> str:
    return _token(serializer, [*said, int((now + LIFETIME).timestamp())])


def _token(serializer: Any, said: list[Any]) -> str:
    token: str | bytes = serializer.dumps(said)
    return token if isinstance(token, str) else token.decode()


def _content(serializer: Any, token: str) -> list[Any]:
    try:
        said: list[Any] = serializer.loads(token)
    except itsdangerous.BadData:
        raise BadLink from None
    return said


def _said(serializer: Any, token: str, now: datetime) -> list[Any]:
    *said, ends = _content(serializer, token)
    if now > datetime.fromtimestamp(ends, UTC):
        raise ExpiredLink
    return said


def read(token: str, now: datetime) -> Link:
    return _reader().read(token, now)


def read_invitation(token: str, now: datetime) -> Invitation:
    return _reader().read_invitation(token, now)


def read_feed(token: str) -> Feed:
    return _reader().read_feed(token)


def _reader() -> Signer:
    """A signer that never writes: as long as no key was made, no link can be good."""
    key = _key()
    if key is None:
        raise BadLink
    return Signer(key)


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
