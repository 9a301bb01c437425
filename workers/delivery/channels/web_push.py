"""Send messages to browsers by web push (RFC 8030), encrypted for the browser (RFC 8291).

The push service stores a message until the browser is online. It replaces a stored message by a later one
with the same Topic, and the browser replaces a shown notification by one with the same id. Both are made from
the id of our message, so a message that is sent twice is shown once.
"""

import base64
import re
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import msgspec

from models.contacts.browsers import Keys, Subscription, find_subscription, get_keys
from models.domain.reasons import make_reason
from models.store.store import connection
from pipeline.messages.shortening import shorten_text
from runtime.settings import Settings
from workers.delivery.transport.channel import (
    Accepted,
    Channel,
    HostError,
    OutgoingMessage,
    Refused,
    RelayError,
    UnusableAddress,
)
from workers.delivery.transport.http import HttpReply, raise_for_status
from workers.delivery.transport.texts import MessageText
from workers.delivery.transport.user_hosts import UserHosts, UserUrlClient

PROVIDER = "web push"
# How long a push service keeps a message for a browser that is offline.
KEPT = timedelta(hours=4)
# Signatures may be valid for 24 hours at most.
SIGNED_FOR = timedelta(hours=12)
MAX_TITLE = 120
# A topic has at most 32 characters.
TOPIC_LENGTH = 32

_LABELS = {"acknowledge": "Acknowledge", "resolve": "Resolve"}
_PUBLIC_HOST = re.compile(r"[\w-]+(\.[\w-]+)+")


class WebPushChannel:
    """The web push channel. The channel is its own connection: each request has a new one."""

    def __init__(self, settings: Settings) -> None:
        # The browser of a user chose the URL.
        self._client = UserUrlClient(PROVIDER, UserHosts(settings.webhook_networks))
        self._text = MessageText("web_push.txt", settings.home)
        self._operator = _get_operator(settings)

    def find_missing_setting(self) -> str | None:
        return None

    def get_host(self, to: str) -> str:
        return to.partition("/")[0]

    def create_connection(self) -> "WebPushChannel":
        return self

    def open(self) -> bool:
        return False

    def close(self) -> None:
        pass

    def send(self, message: OutgoingMessage) -> Accepted:
        # The connection is given back before the request, which can take seconds.
        with connection():
            subscription, keys = find_subscription(message.message_id, message.to), get_keys()
        if subscription is None:
            raise UnusableAddress(make_reason("browser_unsubscribed"), provider=PROVIDER)
        payload = msgspec.json.encode(self.build_payload(message))
        headers = {
            "Authorization": sign(keys, subscription.endpoint, self._operator, message.at),
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
            "TTL": str(round(KEPT.total_seconds())),
            "Topic": message.message_id[:TOPIC_LENGTH],
            "Urgency": "high" if message.content.is_urgent else "normal",
        }
        body = encrypt(subscription, payload)
        try:
            reply = self._client.request("POST", subscription.endpoint, headers=headers, body=body)
            _raise_for_status(reply, message.at)
        except RelayError as error:
            # The browser of a user chose the push service. It must not stop the messages of others.
            raise HostError(error.reason, provider=PROVIDER, retry_after=error.retry_after) from error
        reason = make_reason("provider_accepted", provider=PROVIDER, code=reply.status)
        return Accepted(reason, PROVIDER, message.message_id)

    def build_payload(self, message: OutgoingMessage) -> dict[str, object]:
        """Return what the script in the browser shows: web/pages/scripts/push.js."""
        content = message.content
        with_actions = [link for link in content.links if link.actions]
        # A notification about several incidents opens the first one. It has no room for their buttons.
        actions = with_actions[0].actions if len(with_actions) == 1 else ()
        return {
            "id": message.message_id,
            "title": shorten_text(content.title, MAX_TITLE),
            "body": self._text.render(content).strip(),
            "url": content.links[0].url if content.links else "",
            "is_urgent": content.is_urgent,
            "token": actions[0].token if actions else "",
            "actions": [{"action": action.name, "title": _LABELS[action.name]} for action in actions],
        }

    def format_example(self, message: OutgoingMessage) -> object:
        """Return what the browser gets, for docs/messages.md."""
        return self.build_payload(message)


def create_channel(settings: Settings) -> Channel:
    return WebPushChannel(settings)


def encrypt(subscription: Subscription, payload: bytes) -> bytes:
    """Encrypt a message for a browser. Raise UnusableAddress if the browser gave keys that are none."""
    # Both libraries are imported with the first message, since most installations send none.
    import http_ece
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        encrypted: bytes = http_ece.encrypt(
            payload,
            private_key=ec.generate_private_key(ec.SECP256R1()),
            dh=decode(subscription.p256dh),
            auth_secret=decode(subscription.auth),
            version="aes128gcm",
        )
    except (ValueError, http_ece.ECEException) as error:
        raise UnusableAddress(make_reason("browser_keys_invalid"), provider=PROVIDER) from error
    return encrypted


def sign(keys: Keys, endpoint: str, operator: str, at: datetime) -> str:
    """Return the header Authorization for a push service. `operator`: whom it may ask about our requests."""
    from py_vapid import Vapid02

    url = urlsplit(endpoint)
    port = f":{url.port}" if url.port else ""
    signer = Vapid02.from_raw(keys.private.encode())
    # The library accepts only some domains as those of an operator.
    signer.conf = {"no-strict": True}
    claims = {
        "aud": f"{url.scheme}://{url.hostname}{port}",
        "exp": int((at + SIGNED_FOR).timestamp()),
        "sub": operator,
    }
    header: str = signer.sign(claims)["Authorization"]
    return header


def decode(text: str) -> bytes:
    """Return the bytes of base64 for URLs, with or without its padding. Raise ValueError."""
    return base64.urlsafe_b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))


def _get_operator(settings: Settings) -> str:
    """Return a URL of the operator. Some push services refuse names that only one host knows."""
    host = urlsplit(settings.public_url).hostname or ""
    if settings.public_url.startswith("https://") and _PUBLIC_HOST.fullmatch(host):
        return f"https://{host}"
    return f"mailto:{settings.owner_email}"


def _raise_for_status(reply: HttpReply, at: datetime) -> None:
    """Raise the error of an answer that is no success.

    404 and 410: the browser unsubscribed. 401 and 403: it subscribed to another key, for example that of a
    restored database.
    """
    if reply.status in (404, 410):
        raise UnusableAddress(make_reason("browser_unsubscribed"), provider=PROVIDER)
    if reply.status in (401, 403):
        reason = make_reason("provider_refuses", provider=PROVIDER, code=reply.status)
        raise Refused(reason, provider=PROVIDER)
    raise_for_status(reply, PROVIDER, at)
