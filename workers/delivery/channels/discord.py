"""Send messages to Discord: to the URL of an incoming webhook, as a text and an embed.

All texts of an embed have 6,000 characters at most. No mention in a message notifies anybody.

Sources: docs.discord.com, "Execute webhook", "Rate limits" and "API versioning". 404 says that the webhook is
deleted. An answer 429 has Retry-After: in seconds since version 8 of the interface, in milliseconds before.
Discord gives out URLs without a version, which means an old one (discord/discord-api-docs#2360).
"""

import re
from functools import partial
from urllib.parse import urlsplit

from runtime.settings import Settings
from workers.delivery.transport.channel import Channel, OutgoingMessage
from workers.delivery.transport.chat_text import escape_markdown, keep_short_links
from workers.delivery.transport.texts import MessageText
from workers.delivery.transport.user_url_channel import UserUrlChannel

MAX_TITLE = 250
# The version of the interface that is requested.
VERSION = "v10"
URGENT, ORDINARY = 0xD24B4E, 0x3D6FB4


_PATH = re.compile(r"^/api/(?:v[1-7]/)?(?=webhooks/)")


def create_channel(settings: Settings) -> Channel:
    text = MessageText("discord.md", settings.home)
    return UserUrlChannel(settings, "discord", partial(build_body, text), add_version)


def add_version(url: str) -> str:
    """Return the URL of a webhook with the version of the interface; another URL as it is."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    path = _PATH.sub(f"/api/{VERSION}/", parts.path)
    return url if path == parts.path else parts._replace(path=path).geturl()


def build_body(text: MessageText, message: OutgoingMessage) -> dict[str, object]:
    content = message.content
    embed = {
        "description": text.render(keep_short_links(content)).strip(),
        "color": URGENT if content.is_urgent else ORDINARY,
    }
    title = escape_markdown(content.title, MAX_TITLE)
    return {"content": f"**{title}**", "embeds": [embed], "allowed_mentions": {"parse": []}}
