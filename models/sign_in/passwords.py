"""Passwords: stored as Argon2id hashes, and checked in the same time whether or not a person has one."""

from datetime import datetime
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from models.sign_in import sessions
from models.store import bulk
from models.tables.accounts import User
from models.tables.sign_in import Password

# NIST SP 800-63B: length is what counts, and no rules about kinds of characters.
MIN_LENGTH = 12
# Argon2 reads a password of any length; the limit bounds the work of a request.
MAX_LENGTH = 200
# What OWASP names as the least for Argon2id: 19 MiB, 2 passes, 1 thread. About 30 ms.
_HASHER = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)


def find_problem(password: str, user: User) -> str:
    """Return why this cannot be the person's password; "": it can."""
    if len(password) < MIN_LENGTH:
        return f"A password needs at least {MIN_LENGTH} characters."
    if len(password) > MAX_LENGTH:
        return f"A password can have at most {MAX_LENGTH} characters."
    if password.lower() in (user.email.lower(), user.email.partition("@")[0].lower()):
        return "A password must not be the address."
    if len(set(password)) < 4:
        return "A password needs at least four different characters."
    return ""


def make_hash(password: str) -> str:
    """Return the hash of a password. It takes some hundredths of a second: hash before a transaction."""
    return _HASHER.hash(password)


def store_hash(user: User, hashed: str, now: datetime, *, except_session: int = 0) -> None:
    """Store the hash as the person's password, and end all other sessions. Needs a write transaction."""
    sessions.lock_person(user)
    values = {"user": user.id, "hash": hashed, "changed_at": now}
    bulk.insert(Password, [values], conflict=("user",), replacing=("hash", "changed_at"))
    sessions.end_all(user, except_row=except_session)


def verify(user: User | None, password: str) -> str | None:
    """Return the hash of the person's password if this is it; None: it is not.

    No person, or a person without a password, takes the same time.
    """
    row = Password.get_or_none(Password.user == user) if user is not None else None
    hashed = row.hash if row is not None else _make_decoy()
    try:
        _HASHER.verify(hashed, password)
    except (VerificationError, InvalidHashError):
        return None
    return hashed if row is not None else None


def is_current(user: User, hashed: str) -> bool:
    """Return whether this is still the hash of the person's password."""
    return bool(Password.select().where(Password.user == user, Password.hash == hashed).exists())


@cache
def _make_decoy() -> str:
    return _HASHER.hash("no person has this password")
