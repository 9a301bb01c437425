"""Passkeys of people (WebAuthn): stored with their public key and the count of their uses."""

from datetime import datetime

from models.store.ids import make_uuid
from models.tables.accounts import User
from models.tables.sign_in import Passkey


def list_own(user: User) -> list[Passkey]:
    """Return the passkeys of a person, the oldest first."""
    return list(Passkey.select().where(Passkey.user == user).order_by(Passkey.id))


def count_own(user: User) -> int:
    """Return how many passkeys a person has."""
    return int(Passkey.select().where(Passkey.user == user).count())


def is_known(credential_id: str) -> bool:
    """Return whether somebody has added this passkey."""
    return bool(Passkey.select().where(Passkey.credential_id == credential_id).exists())


def exists(passkey: Passkey) -> bool:
    """Return whether a passkey was not removed meanwhile."""
    return bool(Passkey.select().where(Passkey.id == passkey.id).exists())


def add(
    user: User, name: str, now: datetime, *, credential_id: str, public_key: str, sign_count: int
) -> None:
    """Store a passkey of a person."""
    Passkey.create(
        unique_id=make_uuid(),
        creation_date=now,
        user=user,
        name=name,
        credential_id=credential_id,
        public_key=public_key,
        sign_count=sign_count,
    )


def remove(user: User, unique_id: str) -> bool:
    """Remove a passkey of a person. False: the person has no such passkey."""
    own = (Passkey.user == user) & (Passkey.unique_id == unique_id)
    return bool(Passkey.delete().where(own).execute())


def find(credential_id: str) -> Passkey | None:
    """Return a passkey with its current person."""
    rows = Passkey.select(Passkey, User).join(User)
    current = (Passkey.credential_id == credential_id) & User.removed_at.is_null()
    found: Passkey | None = rows.where(current).first()
    return found


def record_use(passkey: Passkey, sign_count: int, now: datetime) -> bool:
    """Store the count of a use. False: another use was faster.

    Of two copies of a device, the second one has an old count, which the library refuses.
    """
    used = Passkey.update(sign_count=sign_count, last_used_at=now)
    same = (Passkey.id == passkey.id) & (Passkey.sign_count == passkey.sign_count)
    return bool(used.where(same).execute())
