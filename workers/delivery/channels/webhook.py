"""Send messages to a URL as a webhook that follows the Standard Webhooks specification.

With a secret of the contact, the request is signed. The body contains what the other channels show.
"""

import msgspec

from models.keys.webhook_secrets import find_contact_secret
from models.store.store import connection
from pipeline.messages.content import LabelledLink
from runtime.settings import Settings
from workers.delivery.transport.channel import Accepted, Channel, OutgoingMessage
from workers.delivery.transport.signatures import build_headers
from workers.delivery.transport.user_url_channel import UserUrlChannel, UserUrlConnection


def create_channel(settings: Settings) -> Channel:
    return WebhookChannel(settings, "webhook", build_body)


class WebhookChannel(UserUrlChannel):
    def create_connection(self) -> "WebhookConnection":
        return WebhookConnection(self._client, self._build)


class WebhookConnection(UserUrlConnection):
    """Sends signed requests."""

    def send(self, message: OutgoingMessage) -> Accepted:
        body = msgspec.json.encode(self._build(message))
        # The connection is given back before the request, which can take seconds.
        with connection():
            secret = find_contact_secret(message.message_id)
        headers = build_headers(secret, message.message_id, message.at, body)
        return Accepted(self._client.submit(message.to, body, message.at, headers), self._client.provider)


def build_body(message: OutgoingMessage) -> dict[str, object]:
    content = message.content
    return {
        "type": "message",
        "timestamp": message.at.isoformat(),
        "data": {
            "message_id": message.message_id,
            "title": content.title,
            "is_urgent": content.is_urgent,
            "incidents": list(content.threads),
            "lines": [line for line in content.lines if line],
            "details": [{"label": detail.label, "text": detail.text} for detail in content.details],
            "links": [_build_link(link) for link in content.links],
            "closing": content.closing,
        },
    }


def _build_link(link: LabelledLink) -> dict[str, object]:
    """Build a link. An action is a form that a program sends to the URL of the link: `act` with its name."""
    actions = [action.name for action in link.actions]
    return {"text": link.text, "url": link.url, "note": link.note, "actions": actions}
