"""Write a message for a chat: escaped, and as short as the chat requires.

The texts are from unknown senders. They must not format the message, hide the target of a link, or mention
people.
"""

import re
from collections.abc import Callable

import msgspec

from models.domain.values import replace
from pipeline.messages.content import LabelledLink, MessageContent

# Marks of Markdown. Those that only matter at the start of a line follow below.
_MARKS = re.compile(r"([\\`*_{}\[\]<>|~#])")
_LIST_MARKS = re.compile(r"(?m)^(\s*)([-+=])")
_NUMBER_MARKS = re.compile(r"(?m)^(\s*\d+)([.)])")
_MENTION = re.compile(r"(?<![\w./+-])@(?=\w)")
# Invisible. After it, a chat does not recognize a mention.
_ZERO_WIDTH_SPACE = "\u200b"


def shorten(text: str, limit: int) -> str:
    """Return at most `limit` characters. A shortened text ends with "..."."""
    return text if len(text) <= limit else f"{text[: limit - 3].rstrip()}..."


def escape_markdown(text: str, limit: int) -> str:
    """Return a text that Markdown shows as it is, and that mentions nobody; at most `limit` characters."""
    return _escape(shorten(text, limit), limit)


def _escape(text: str, limit: int) -> str:
    escaped = escape_marks(text)
    if len(escaped) <= limit:
        return escaped
    # Escapes make a text longer, so it is shortened more.
    return _escape(shorten(text, max(4, len(text) - (len(escaped) - limit) - 3)), limit)


def escape_marks(text: str) -> str:
    """Return a text that Markdown shows as it is, and that mentions nobody."""
    escaped = _MARKS.sub(r"\\\1", text)
    for marks in (_LIST_MARKS, _NUMBER_MARKS):
        escaped = marks.sub(r"\1\\\2", escaped)
    return escaped.replace("@", f"@{_ZERO_WIDTH_SPACE}")


def escape_tags(text: str) -> str:
    """Return a text without tags, for HTML of a chat and for Slack, where tags are links and mentions.

    A name after "@" is no mention either. An e-mail address stays as it is.
    """
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MENTION.sub(f"@{_ZERO_WIDTH_SPACE}", escaped)


def escape_url(url: str) -> str:
    """Return an address that can stand in the parentheses of a Markdown link."""
    return "".join(f"%{ord(char):02X}" if char in "()<>\\ \"'`*_[]|~@" else char for char in url)


# An address that is longer is left out: it would leave no space for the message.
MAX_URL = 1_000


# How many links a body may have, first as many as a chat shows at most. They are the longest part of it.
_LINKS = (20, 10, 5, 2, 1)


def fit(build: Callable[[int], dict[str, object]], max_bytes: int) -> dict[str, object]:
    """Return a body of at most `max_bytes`. `build` gets how many links the body may have."""
    for links in _LINKS:
        body = build(links)
        if len(msgspec.json.encode(body)) <= max_bytes:
            break
    return body


def list_links(content: MessageContent) -> list[LabelledLink]:
    return [link for link in content.links if len(link.url) <= MAX_URL]


def keep_first_link(content: MessageContent) -> MessageContent:
    """Return the content for a text beside which each link has a button of its own."""
    return replace(content, links=content.links[:1])


def keep_short_links(content: MessageContent) -> MessageContent:
    return replace(content, links=tuple(list_links(content)))


def get_label(link: LabelledLink) -> str:
    """Return what a short link or a button says."""
    return link.button or link.text.rstrip(":")
