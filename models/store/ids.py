"""Random ids for what enters, in the formats of contract section 1.5, and tokens."""

import hashlib
import secrets
import uuid

from models.domain.shortid import encode_short_id


def new_uuid() -> str:
    return str(uuid.uuid4())


def derive_uuid(*names: str) -> str:
    """An id that follows from these names, so that doing a thing twice names it alike; version 4 in form."""
    text = "\x1f".join(names)
    return str(uuid.UUID(bytes=hashlib.blake2b(text.encode(), digest_size=16).digest(), version=4))


def new_username() -> str:
    """The first 25 characters of a version 4 UUID."""
    return str(uuid.uuid4())[:25]


def new_short_id() -> str:
    return encode_short_id(uuid.uuid4().int)


def new_account_identifier() -> str:
    return "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(5))


def new_token() -> str:
    """A token as it is shown, once; 43 characters of URL-safe base64, 256 bits."""
    return secrets.token_urlsafe(32)


def digest(token: str) -> str:
    """What is kept of a token: it has 256 random bits, so a plain SHA-256 cannot be searched."""
    return hashlib.sha256(token.encode()).hexdigest()


def hash_message_id(keys: list[str]) -> str:
    """The id of the message that carries these notices: the hash of their sorted keys."""
    return hashlib.blake2b("\n".join(sorted(keys)).encode(), digest_size=20).hexdigest()
