"""Create random ids in the forms of contract section 1.5, and tokens."""

import hashlib
import os
import secrets
import uuid

from models.domain.identity import encode_short_id, format_uuid

# Random bytes for trace ids, 16 each, read in advance.
_spare: list[bytes] = []
_SPARE_IDS = 256
os.register_at_fork(after_in_child=_spare.clear)


def make_uuid() -> str:
    return format_uuid(os.urandom(16))


def make_trace_id() -> str:
    """Return a random UUID for an alert. Not for keys, which must be secret: spare ones stay in memory.

    To read random bytes, Python lets another thread run, and this thread may wait milliseconds for its next
    turn. So one read serves many alerts.
    """
    try:
        return format_uuid(_spare.pop())
    except IndexError:
        data = os.urandom(16 * (_SPARE_IDS + 1))
        _spare.extend(data[start : start + 16] for start in range(16, len(data), 16))
        return format_uuid(data[:16])


def make_username() -> str:
    """Return the first 25 characters of a version 4 UUID."""
    return str(uuid.uuid4())[:25]


def make_short_id() -> str:
    return encode_short_id(uuid.uuid4().int)


def make_account_identifier() -> str:
    return "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(5))


def make_token() -> str:
    """Return a random token: 43 characters of URL-safe base64, 256 bits."""
    return secrets.token_urlsafe(32)


def digest(token: str) -> str:
    """Return the SHA-256 of a token, which is stored. No salt: a token has 256 random bits."""
    return hashlib.sha256(token.encode()).hexdigest()
