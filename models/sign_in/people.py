"""Find the people of an address, and end all ways to sign in of a person."""

from datetime import datetime

import peewee

from models.changes.record import Actor
from models.domain.addresses import is_same_address, normalize
from models.sign_in import audit, sessions
from models.tables.accounts import Account, User
from models.tables.sign_in import Identity, Passkey, Password, Session, SignInLink

# A person may be in a few accounts with the same address. Each attempt costs so many checks of a password.
MAX_ACCOUNTS = 5
MAX_SIMILAR = 50
ADDRESS_LIMIT = 254


def find_people(address: str) -> list[User]:
    """Return the current members with this address, with their accounts.

    Those who have proven the address are first, so that others who only entered it do not take their places;
    then the oldest.
    """
    given = normalize(address)
    # PostgreSQL refuses some unprintable characters, and no address has any.
    if not given or len(given) > ADDRESS_LIMIT or not given.isprintable():
        return []
    rows = (
        User.select(User, Account)
        .join(Account)
        # The index has the small letters of the store, which can also be those of other addresses.
        .where(peewee.fn.LOWER(User.email) == peewee.fn.LOWER(given), User.removed_at.is_null())
        .order_by(User.verified_email.is_null(), User.id)
        .limit(MAX_SIMILAR)
    )
    found = [user for user in rows if normalize(user.email) == given]
    return sorted(found, key=lambda user: not has_verified_address(user))[:MAX_ACCOUNTS]


def find_by_username(username: str) -> User | None:
    """Return the person with this username, unless the person was removed."""
    user: User | None = User.get_or_none(User.username == username, User.removed_at.is_null())
    return user


def has_verified_address(user: User) -> bool:
    """Return whether the person has proven the present address. A person can enter any other one."""
    return is_same_address(user.verified_email, user.email)


def reset(user: User, now: datetime, actor: Actor) -> None:
    """Remove the password, the passkeys and the identities of a person, and end all sessions and links.

    Needs a write transaction.
    """
    sessions.lock_person(user)
    remove_ways(user)
    audit.record(user, "sign_in_reset", now, actor=actor)


def remove_ways(user: User) -> None:
    """Remove all ways in which a person can sign in, and end all sessions. Needs a write transaction."""
    for table in (Password, Passkey, Identity, SignInLink, Session):
        table.delete().where(table.user == user).execute()
