"""Passwords: stored as Argon2id hashes. A check takes the same time whether or not a person has one."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from models.sign_in import sessions
from models.sign_in.people import MAX_ACCOUNTS
from models.store import bulk
from models.store.prepared import in_list
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


def exists(user: User) -> bool:
    """Return whether the person has a password."""
    return bool(Password.select().where(Password.user == user).exists())


def verify(user: User, password: str) -> str | None:
    """Return the hash of the person's password if this is it; None: it is not."""
    row = Password.get_or_none(Password.user == user)
    return row.hash if row is not None and _is_of(password, row.hash) else None


def find_match(people: Sequence[User], password: str) -> tuple[User | None, str]:
    """Return the first of these people whose password this is, and the hash that was checked; "": nobody.

    There are always as many checks as people can have the same address: the time says neither whether an
    address is known nor in how many accounts, also to a person who knows one of the passwords.
    """
    ids = [user.id for user in people]
    stored = {row.user_id: row.hash for row in Password.select().where(in_list(Password.user, ids))}
    candidates = [(user, stored[user.id]) for user in people if user.id in stored][:MAX_ACCOUNTS]
    matches = [(user, hashed) for user, hashed in candidates if _is_of(password, hashed)]
    for _ in range(MAX_ACCOUNTS - len(candidates)):
        _is_of(password, _make_decoy())
    return matches[0] if matches else (None, "")


def _is_of(password: str, hashed: str) -> bool:
    """Return whether this is the password of a hash. A password that is too long is none."""
    try:
        _HASHER.verify(hashed, password if len(password) <= MAX_LENGTH else "")
    except (VerificationError, InvalidHashError):
        return False
    return True


def is_current(user: User, hashed: str) -> bool:
    """Return whether this is still the hash of the person's password."""
    return bool(Password.select().where(Password.user == user, Password.hash == hashed).exists())


@cache
def _make_decoy() -> str:
    return _HASHER.hash("no person has this password")
