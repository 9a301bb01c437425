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

from models.store.base import store
from models.store.ids import digest
from models.tables.accounts import Secret

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
    notification: int


@dataclass(frozen=True, slots=True)
class Invitation:
    """Whom an invitation is for: a row number, and the address that it was sent to."""

    user: int
    address: str

    @classmethod
    def for_user(cls, user: Any) -> "Invitation":
        """For a user as they are now: one who got another address is not who was invited."""
        return cls(user.id, digest(user.email)[:16])


@dataclass(frozen=True, slots=True)
class CalendarFeed:
    """What a calendar shows, `months` ahead, to the user of this row number: the shifts of a schedule, by its
    unique_id, or of all where that is ""; `own` are the user's alone.

    `key` stands for the user's calendar_key, so that a new one ends the addresses that were given before.
    """

    user: int
    key: str
    schedule: str
    own_only: bool
    months: int

    @classmethod
    def for_user(cls, user: Any, *, schedule: str = "", own_only: bool, months: int) -> "CalendarFeed":
        """For a user with the calendar_key that they have now, which must be there."""
        return cls(user.id, digest(user.calendar_key)[:16], schedule, own_only, months)

    def has_key_of(self, user: Any) -> bool:
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
        return _sign(self._links, [link.incident, link.user, link.notification], now)

    def read(self, token: str, now: datetime) -> Link:
        """What was signed. Raises BadLink or ExpiredLink; does not ask whether the user is still there."""
        return Link(*_verify(self._links, token, now))

    def sign_invitation(self, invitation: Invitation, now: datetime) -> str:
        return _sign(self._invitations, [invitation.user, invitation.address], now)

    def read_invitation(self, token: str, now: datetime) -> Invitation:
        """What was signed, as read() does; does not ask whether it was used."""
        return Invitation(*_verify(self._invitations, token, now))

    def sign_feed(self, feed: CalendarFeed) -> str:
        """A token that does not end, the same whenever it is asked for."""
        return _serialize(self._feeds, [feed.user, feed.key, feed.schedule, int(feed.own_only), feed.months])

    def read_feed(self, token: str) -> CalendarFeed:
        """What was signed. Raises BadLink; does not ask whether the key still is the user's."""
        user, key, schedule, own_only, months = _deserialize(self._feeds, token)
        return CalendarFeed(user, key, schedule, bool(own_only), months)


def _sign(serializer: Any, values: list[Any], now: datetime) -> str:
    return _serialize(serializer, [*values, int((now + LIFETIME).timestamp())])


def _serialize(serializer: Any, values: list[Any]) -> str:
    token: str | bytes = serializer.dumps(values)
    return token if isinstance(token, str) else token.decode()


def _deserialize(serializer: Any, token: str) -> list[Any]:
    try:
        values: list[Any] = serializer.loads(token)
    except itsdangerous.BadData:
        raise BadLink from None
    return values


def _verify(serializer: Any, token: str, now: datetime) -> list[Any]:
    *values, ends_at = _deserialize(serializer, token)
    if now > datetime.fromtimestamp(ends_at, UTC):
        raise ExpiredLink
    return values


def read(token: str, now: datetime) -> Link:
    return _get_reader().read(token, now)


def read_invitation(token: str, now: datetime) -> Invitation:
    return _get_reader().read_invitation(token, now)


def read_feed(token: str) -> CalendarFeed:
    return _get_reader().read_feed(token)


def _get_reader() -> Signer:
    """A signer that never writes: as long as no key was made, no link can be good."""
    key = _load_key()
    if key is None:
        raise BadLink
    return Signer(key)


def get_signer() -> Signer:
    """The signer of this installation; its key is made at the first call. Needs a connection."""
    return Signer(_load_key() or _create_key())


def _load_key() -> str | None:
    found: str | None = Secret.select(Secret.value).where(Secret.name == _SECRET).scalar()
    return found


def _create_key() -> str:
    with store().write_transaction():
        # Two processes may make it at once; the first one's stays.
        Secret.insert(name=_SECRET, value=secrets.token_urlsafe(32)).on_conflict_ignore().execute()
        key = _load_key()
    if key is None:
        raise RuntimeError("the key of links cannot be read back")
    return key
