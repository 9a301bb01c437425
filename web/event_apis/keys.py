"""Find the key of an integration where senders for other services put it."""

import re
import uuid

from flask import request

# Senders for PagerDuty expect a key of 32 characters, so a UUID without its hyphens is accepted too.
_PLAIN = re.compile("[0-9a-f]{32}")


def clean_key(text: str) -> str:
    """Return a key in the form in which it is stored. Other texts stay unknown keys."""
    key = text.strip().lower()
    return str(uuid.UUID(key)) if _PLAIN.fullmatch(key) else key


def read_authorization(scheme: str) -> str:
    """Return the key of the header Authorization with this scheme, else ""."""
    word, _, key = request.headers.get("Authorization", "").strip().partition(" ")
    return clean_key(key) if word.lower() == scheme.lower() else ""


def read_password() -> str:
    """Return the password of Basic authentication as a key, else ""."""
    found = request.authorization
    password = found.password if found is not None and found.type == "basic" else None
    return clean_key(password or "")
