"""Sign webhooks as in the Standard Webhooks specification, so that their receivers know who sent them."""

import hashlib
import hmac
from base64 import b64decode, b64encode
from datetime import datetime

from models.keys.webhook_secrets import PREFIX


def build_headers(secret: str, message_id: str, at: datetime, body: bytes) -> dict[str, str]:
    """Return the headers of a webhook. With an empty secret, they contain no signature."""
    timestamp = str(int(at.timestamp()))
    headers = {
        "Content-Type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
    }
    if secret:
        key = b64decode(secret.removeprefix(PREFIX))
        signed = b".".join((message_id.encode(), timestamp.encode(), body))
        digest = hmac.new(key, signed, hashlib.sha256).digest()
        headers["webhook-signature"] = f"v1,{b64encode(digest).decode()}"
    return headers
