"""Send messages to Mattermost: to the URL of an incoming webhook, as a text and an attachment.

A post has 16,383 characters at most. Texts are Markdown, so they are escaped; mentions are broken.

Sources: developers.mattermost.com, "Incoming webhooks" and "Message attachments"; docs.mattermost.com, "Rate
limiting". Attachments are properties of a post, which had 8,000 characters in old versions.
"""

from functools import partial

from runtime.settings import Settings
from workers.delivery.transport.channel import Channel, OutgoingMessage
from workers.delivery.transport.chat_text import escape_markdown, keep_short_links
from workers.delivery.transport.texts import MessageText
from workers.delivery.transport.user_url_channel import UserUrlChannel

MAX_TITLE = 300
URGENT, ORDINARY = "#d24b4e", "#3d6fb4"


def create_channel(settings: Settings) -> Channel:
    text = MessageText("mattermost.md", settings.home)
    return UserUrlChannel(settings, "mattermost", partial(build_body, text))


def build_body(text: MessageText, message: OutgoingMessage) -> dict[str, object]:
    content = message.content
    title = escape_markdown(content.title, MAX_TITLE)
    attachment = {
        "fallback": title,
        "color": URGENT if content.is_urgent else ORDINARY,
        "text": text.render(keep_short_links(content)).strip(),
    }
    return {"text": f"**{title}**", "attachments": [attachment]}
