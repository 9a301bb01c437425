"""Addresses to which a mail comes back that cannot be delivered. Each names its message, and is signed.

The part before the "@" has at most 64 characters (RFC 5321, section 4.5.3.1.1).
"""

import hmac
import re

from models.links import signed_links
from models.store.ids import digest

_NAME = re.compile(r"bounce-([0-9a-f]{40})-([0-9a-f]{16})")


def make_return_path(message_id: str, domain: str) -> str:
    """Return the address for a message. Needs a connection."""
    return f"bounce-{message_id}-{_sign(signed_links.get_signer(), message_id)}@{domain}"


def is_return_path(name: str) -> bool:
    """Return whether the part before the "@" has the form of such an address. Its signature may be wrong."""
    return _NAME.fullmatch(name.lower()) is not None


def read_return_path(name: str) -> str | None:
    """Return the id of the message that an address names; None: it is not signed. Needs a connection."""
    found = _NAME.fullmatch(name.lower())
    if found is None:
        return None
    try:
        signer = signed_links.get_reader()
    except signed_links.BadLink:
        return None
    message_id, signature = found.groups()
    return message_id if hmac.compare_digest(signature, _sign(signer, message_id)) else None


def _sign(signer: signed_links.Signer, message_id: str) -> str:
    return digest(signer.sign_return_path(message_id).hex())[:16]
