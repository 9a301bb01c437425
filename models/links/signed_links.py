"""Sign and read links: to incidents, bundles and invitations, and to calendar feeds.

They are valid for seven days, or until a time of their own. Calendar feeds do not expire because programs
subscribe to them. The token contains:

- incident link: row numbers (incident, user, notification) and the time of expiry
- bundle: row numbers (message, user) and the time of expiry
- swap of shifts: row numbers (swap, user) and the time of expiry, when the first of the shifts begins
- invitation: the user, a digest of the invited address and the time of expiry
- sign-in: the unique_id of a row with its person and its end (models/sign_in/links.py)
- device: who has signed in with a browser, and an ID of the browser (a cookie, not a link)
- calendar feed: what the calendar shows, the user and a digest of the user's calendar key

A token of one kind is not valid for another kind. The signing key is a row of the database, so that all
processes and hosts share it. `tocsin rotate-link-key` replaces it, which invalidates all links.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import itsdangerous

from models.store.ids import digest
from models.store.prepared import Prepared
from models.store.store import store
from models.tables.accounts import Secret, User

LIFETIME = timedelta(days=7)

_SECRET = "links"  # noqa: S105 - the name of the row, not its value


class BadLink(ValueError):
    """The signature of a token is not valid."""


class ExpiredLink(BadLink):
    """The signature is valid, but the link is older than its lifetime."""


@dataclass(frozen=True, slots=True)
class IncidentLink:
    """A link to an incident, for one user; row numbers."""

    incident: int
    user: int
    notification: int


@dataclass(frozen=True, slots=True)
class Bundle:
    """A link to the list of the incidents of a message, for its user; row numbers."""

    message: int
    user: int


@dataclass(frozen=True, slots=True)
class SwapLink:
    """A link to a request to swap shifts, for the person who answers it; row numbers."""

    swap: int
    user: int


@dataclass(frozen=True, slots=True)
class Invitation:
    """An invitation: the row number of the user, and a digest of the invited address."""

    user: int
    address: str

    @classmethod
    def for_user(cls, user: User) -> "Invitation":
        """Return the invitation for the user's current address; a changed address invalidates it."""
        return cls(user.id, digest(user.email)[:16])


@dataclass(frozen=True, slots=True)
class CalendarFeed:
    """A calendar feed of a user (row number): shifts for the next `months` months.

    `schedule` is a unique_id, "" for all schedules. `own_only`: only the user's own shifts. `key` is a digest
    of the user's calendar_key, so that a new calendar_key invalidates earlier addresses.
    """

    user: int
    key: str
    schedule: str
    own_only: bool
    months: int

    @classmethod
    def for_user(cls, user: User, *, schedule: str = "", own_only: bool, months: int) -> "CalendarFeed":
        """Return the feed for the user's current calendar_key, which must not be None."""
        assert user.calendar_key is not None
        return cls(user.id, digest(user.calendar_key)[:16], schedule, own_only, months)

    def has_key_of(self, user: User) -> bool:
        """Return whether the user's calendar_key is still the one of this feed."""
        return user.calendar_key is not None and self.key == digest(user.calendar_key)[:16]


class _ShortSerializer(itsdangerous.URLSafeSerializer):
    """Signs a few numbers, and does not try to compress them. They would not become shorter.

    A mail has a link for each of its incidents, and to try it took three quarters of the time of a link.
    """

    def dump_payload(self, obj: object) -> bytes:
        return itsdangerous.base64_encode(itsdangerous.Serializer.dump_payload(self, obj))


class Signer:
    """Sign and read links. get_signer() creates a signer with the key of this installation."""

    def __init__(self, key: str) -> None:
        self._links = _ShortSerializer(key, salt="link")
        self._bundles = itsdangerous.URLSafeSerializer(key, salt="bundle")
        self._invitations = itsdangerous.URLSafeSerializer(key, salt="invitation")
        self._swaps = itsdangerous.URLSafeSerializer(key, salt="swap")
        self._replies = itsdangerous.Signer(key, salt="reply")
        self._return_paths = itsdangerous.Signer(key, salt="return path")
        self._sign_ins = itsdangerous.URLSafeSerializer(key, salt="sign in")
        self._devices = itsdangerous.URLSafeSerializer(key, salt="device")
        self._feeds = itsdangerous.URLSafeSerializer(key, salt="calendar")

    def sign(self, link: IncidentLink, now: datetime) -> str:
        """Return a token for a URL path: letters, digits and -_. only."""
        return _sign(self._links, [link.incident, link.user, link.notification], now)

    def read(self, token: str, now: datetime) -> IncidentLink:
        """Return the signed link. Raises BadLink or ExpiredLink. Does not check whether the user exists."""
        return IncidentLink(*_verify(self._links, token, now))

    def sign_bundle(self, bundle: Bundle, now: datetime) -> str:
        return _sign(self._bundles, [bundle.message, bundle.user], now)

    def read_bundle(self, token: str, now: datetime) -> Bundle:
        """Return the signed link. Raises BadLink or ExpiredLink. Does not check whether the user exists."""
        return Bundle(*_verify(self._bundles, token, now))

    def sign_swap(self, link: SwapLink, ends_at: datetime) -> str:
        return _serialize(self._swaps, [link.swap, link.user, int(ends_at.timestamp())])

    def read_swap(self, token: str, now: datetime) -> SwapLink:
        """Return the signed link. Raises BadLink or ExpiredLink. Does not check whether the swap exists."""
        return SwapLink(*_verify(self._swaps, token, now))

    def get_bundle_signing_time(self, token: str) -> datetime:
        """Return when a link to a bundle was signed. Raises BadLink, but not ExpiredLink."""
        return datetime.fromtimestamp(_deserialize(self._bundles, token)[-1], UTC) - LIFETIME

    def get_invitation_signing_time(self, token: str) -> datetime:
        """Return when an invitation was signed. Raises BadLink, but not ExpiredLink."""
        return datetime.fromtimestamp(_deserialize(self._invitations, token)[-1], UTC) - LIFETIME

    def get_signing_time(self, token: str) -> datetime:
        """Return when a link to an incident was signed. Raises BadLink, but not ExpiredLink."""
        return datetime.fromtimestamp(_deserialize(self._links, token)[-1], UTC) - LIFETIME

    def sign_invitation(self, invitation: Invitation, now: datetime) -> str:
        return _sign(self._invitations, [invitation.user, invitation.address], now)

    def read_invitation(self, token: str, now: datetime) -> Invitation:
        """Return the signed invitation. Raises BadLink or ExpiredLink. Does not check whether it was used."""
        return Invitation(*_verify(self._invitations, token, now))

    def sign_sign_in(self, unique_id: str) -> str:
        return _serialize(self._sign_ins, [unique_id])

    def read_sign_in(self, token: str) -> str:
        """Return the signed unique_id. Raises BadLink. Does not check whether the link was used."""
        (unique_id,) = _deserialize(self._sign_ins, token)
        return str(unique_id)

    def sign_device(self, username: str, device: str) -> str:
        """Return the value of the cookie that says who has signed in with a browser."""
        return _serialize(self._devices, [username, device])

    def read_device(self, token: str) -> tuple[str, str]:
        """Return the username and the ID of the browser. Raises BadLink."""
        username, device = _deserialize(self._devices, token)
        return str(username), str(device)

    def sign_reply(self, message_id: str) -> bytes:
        """Return a signature of an outgoing message, for models/links/reply_codes.py."""
        return self._replies.get_signature(message_id)

    def sign_return_path(self, message_id: str) -> bytes:
        """Return a signature of an outgoing mail, for models/links/return_paths.py."""
        return self._return_paths.get_signature(message_id)

    def sign_feed(self, feed: CalendarFeed) -> str:
        """Return a token without expiry. The same feed always gives the same token."""
        return _serialize(self._feeds, [feed.user, feed.key, feed.schedule, int(feed.own_only), feed.months])

    def read_feed(self, token: str) -> CalendarFeed:
        """Return the signed feed. Raises BadLink. Does not check whether the user still has the key."""
        user, key, schedule, own_only, months = _deserialize(self._feeds, token)
        return CalendarFeed(user, key, schedule, bool(own_only), months)


def _sign(serializer: itsdangerous.URLSafeSerializer, values: Sequence[int | str], now: datetime) -> str:
    return _serialize(serializer, [*values, int((now + LIFETIME).timestamp())])


def _serialize(serializer: itsdangerous.URLSafeSerializer, values: Sequence[int | str]) -> str:
    token: str | bytes = serializer.dumps(values)
    return token if isinstance(token, str) else token.decode()


def _deserialize(serializer: itsdangerous.URLSafeSerializer, token: str) -> list[Any]:
    try:
        values: list[Any] = serializer.loads(token)
    except itsdangerous.BadData:
        raise BadLink from None
    return values


def _verify(serializer: itsdangerous.URLSafeSerializer, token: str, now: datetime) -> list[Any]:
    *values, ends_at = _deserialize(serializer, token)
    if now > datetime.fromtimestamp(ends_at, UTC):
        raise ExpiredLink
    return values


def get_reader() -> Signer:
    """Return a signer without creating a key. Raises BadLink if there is no key: then no link is valid."""
    key = _load_key()
    if key is None:
        raise BadLink
    return Signer(key)


def get_signer() -> Signer:
    """Return the signer of this installation; the first call creates its key. Needs a connection."""
    return Signer(_load_key() or _create_key())


def rotate_key() -> None:
    """Replace the key, inside the caller's transaction: all links of before become invalid.

    All processes read the key for each link, so they use the new one at once.
    """
    new = Secret.insert(name=_SECRET, value=secrets.token_urlsafe(32))
    new.on_conflict(conflict_target=[Secret.name], preserve=[Secret.value]).execute()


_KEY = Prepared(lambda: Secret.select(Secret.value).where(Secret.name == _SECRET))


def _load_key() -> str | None:
    found = _KEY.first()
    return str(found[0]) if found else None


def _create_key() -> str:
    with store().write_transaction():
        # Two processes may create the key at the same time; the first key is kept.
        Secret.insert(name=_SECRET, value=secrets.token_urlsafe(32)).on_conflict_ignore().execute()
        key = _load_key()
    if key is None:
        raise RuntimeError("the signing key of links was stored but cannot be read")
    return key
