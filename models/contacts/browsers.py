"""Browsers that receive messages by web push, and the key of this installation for push services.

A browser gives a URL at its push service and the keys that encrypt for it (RFC 8291). Push services accept
requests only with a signature of the key to which the browser subscribed (RFC 8292).
"""

import base64
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from models.domain.enums import OtherContactType
from models.people import provisioning
from models.people.recorded_contacts import record_created
from models.store import bulk
from models.store.ids import digest
from models.store.store import store
from models.tables.accounts import Secret, User, bump_version
from models.tables.notifications import Message
from models.tables.users import ContactMethod, PushSubscription

_SECRET = "web_push"  # noqa: S105 - the name of the row, not its value


@dataclass(frozen=True, slots=True)
class Keys:
    """The key pair of this installation, as base64 for URLs: the private number and the public point."""

    private: str
    public: str


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a browser gives: the URL at its push service, and its public key and secret in base64."""

    endpoint: str
    p256dh: str
    auth: str

    @property
    def address(self) -> str:
        """Return the address of its contact: the push service, and a digest of the URL, which is secret."""
        return f"{urlsplit(self.endpoint).hostname}/{digest(self.endpoint)[:32]}"


def get_keys() -> Keys:
    """Return the keys of this installation; the first call creates them. Needs a connection."""
    return _load_keys() or _create_keys()


def _load_keys() -> Keys | None:
    found: str | None = Secret.select(Secret.value).where(Secret.name == _SECRET).scalar()
    return None if found is None else Keys(*found.split("."))


def _create_keys() -> Keys:
    # Most processes never need the library.
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_numbers().private_value.to_bytes(32)
    public = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    with store().write_transaction():
        # Two processes may create the keys at the same time; the first are kept.
        value = f"{_encode(private)}.{_encode(public)}"
        Secret.insert(name=_SECRET, value=value).on_conflict_ignore().execute()
        keys = _load_keys()
    if keys is None:
        raise RuntimeError("the keys for push services were stored but cannot be read")
    return keys


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def subscribe(user: User, found: Subscription, name: str, now: datetime) -> tuple[ContactMethod, bool]:
    """Return the verified contact of this browser, and whether it is new. Needs a write transaction.

    A new contact gets a notification rule without delay for each urgency.
    """
    contact = find_contact(user, found)
    is_new = contact is None
    if contact is None:
        contact = provisioning.create_contact(
            user, name, OtherContactType.WEB_PUSH, found.address, now, is_verified=True
        )
        provisioning.create_default_rules(contact, now)
        record_created(contact, user, now)
    ContactMethod.update(verified_value=found.address).where(ContactMethod.id == contact.id).execute()
    row = {
        "contact": contact.id, "endpoint": found.endpoint, "p256dh": found.p256dh, "auth": found.auth,
        "created_at": now,
    }  # fmt: skip
    bulk.insert(
        PushSubscription,
        [row],
        conflict=["contact"],
        replacing=["endpoint", "p256dh", "auth", "created_at"],
    )
    bump_version(user.account_id)
    return contact, is_new


def find_contact(user: User, found: Subscription) -> ContactMethod | None:
    """Return the user's contact of this browser; None: there is none."""
    contact: ContactMethod | None = ContactMethod.get_or_none(
        ContactMethod.user == user,
        ContactMethod.contact_type == OtherContactType.WEB_PUSH,
        ContactMethod.value == found.address,
    )
    return contact


def find_subscription(message_id: str, address: str) -> Subscription | None:
    """Return the subscription of the browser to which a message goes; None: the browser has none.

    `address` is that of the contact, which may have changed since the browser subscribed.
    """
    query = PushSubscription.select().join(Message, on=(Message.contact == PushSubscription.contact))
    row = query.where(Message.message_id == message_id).first()
    if row is None:
        return None
    found = Subscription(row.endpoint, row.p256dh, row.auth)
    return found if found.address == address else None


def count_contacts(user: User) -> int:
    """Return how many contacts of all channels a person has."""
    return int(ContactMethod.select().where(ContactMethod.user == user).count())
