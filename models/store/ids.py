"""Create ids in the formats of contract section 1.5, and tokens."""

import hashlib
import secrets
import uuid

from models.domain.shortid import encode_short_id


def new_uuid() -> str:
    return str(uuid.uuid4())


def derive_uuid(*names: str) -> str:
    """Return an id that depends only on these names, so that a repeated action creates the same id.

    It has the form of a version 4 UUID.
    """
    text = "\x1f".join(names)
    return str(uuid.UUID(bytes=hashlib.blake2b(text.encode(), digest_size=16).digest(), version=4))


def new_username() -> str:
    """Return the first 25 characters of a version 4 UUID."""
    return str(uuid.uuid4())[:25]


def new_short_id() -> str:
    return encode_short_id(uuid.uuid4().int)


def new_account_identifier() -> str:
    return "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(5))


def new_token() -> str:
    """Return a random token: 43 characters of URL-safe base64, 256 bits."""
    return secrets.token_urlsafe(32)


def digest(token: str) -> str:
    """Return the SHA-256 of a token, which is stored. No salt: a token has 256 random bits."""
    return hashlib.sha256(token.encode()).hexdigest()


def hash_message_id(keys: list[str]) -> str:
    """Return the id of the message with these notifications: the hash of their sorted keys."""
    return hashlib.blake2b("\n".join(sorted(keys)).encode(), digest_size=20).hexdigest()
