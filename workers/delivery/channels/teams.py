"""Send messages to Microsoft Teams: to the URL of a workflow, as an Adaptive Card.

A workflow accepts a message with cards as attachments, of 28 KB at most. Text runs show their text as it is,
without Markdown. Buttons are links: the page behind them acknowledges and resolves.

Sources: learn.microsoft.com, "Microsoft Teams" in the reference of connectors (28 KB) and "Create incoming
webhooks with Workflows", and adaptivecards.io. The answer is 202: the workflow sends the card later, so what
goes wrong with the card is only in its own history.
"""

from functools import partial

from pipeline.messages.content import LabelledLink, MessageContent
from runtime.settings import Settings
from workers.delivery.transport.channel import Channel, OutgoingMessage
from workers.delivery.transport.chat_text import fit, get_label, keep_first_link, list_links, shorten
from workers.delivery.transport.texts import MessageText
from workers.delivery.transport.user_url_channel import UserUrlChannel

MAX_BUTTONS = 6
MAX_TITLE, MAX_INCIDENT, MAX_LABEL = 200, 300, 60
MAX_BYTES = 28_000


def create_channel(settings: Settings) -> Channel:
    text = MessageText("teams.txt", settings.home)
    return UserUrlChannel(settings, "teams", partial(build_body, text))


def build_body(text: MessageText, message: OutgoingMessage) -> dict[str, object]:
    content = message.content
    rows = text.render(keep_first_link(content)).strip().splitlines()
    return fit(lambda links: _build(content, rows, links), MAX_BYTES)


def _build(content: MessageContent, rows: list[str], max_links: int) -> dict[str, object]:
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "fallbackText": shorten(content.title, MAX_TITLE),
        "body": _list_blocks(content, rows, max_links),
        "actions": [
            {"type": "Action.OpenUrl", "title": shorten(get_label(link), MAX_LABEL), "url": link.url}
            for link in list_links(content)[: min(max_links, MAX_BUTTONS)]
        ],
        "msteams": {"width": "Full"},
    }
    attachment = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": card,
    }
    return {"type": "message", "attachments": [attachment]}


def _list_blocks(content: MessageContent, rows: list[str], max_links: int) -> list[object]:
    color, links = "attention" if content.is_urgent else "default", list_links(content)
    title = {"size": "large", "weight": "bolder", "color": color}
    blocks = [_build_row(shorten(content.title, MAX_TITLE), "default", **title)]
    # An empty row is the space above the next one.
    blocks += [
        _build_row(row, "none" if above else "default")
        for above, row in zip(["", *rows], rows, strict=False)
        if row
    ]
    blocks += [_build_link(link) for link in links[:max_links] if _has_row(link, links)]
    if len(links) > max_links:
        blocks.append(_build_row(f"and {len(links) - max_links} more", "default"))
    return blocks


def _has_row(link: LabelledLink, links: list[LabelledLink]) -> bool:
    """Return whether a link needs more than a button: its details, or a place behind the last button."""
    return bool(link.note) or link not in links[:MAX_BUTTONS]


def _build_link(link: LabelledLink) -> object:
    text = ": ".join(filter(None, (link.text, link.note)))
    action = {"type": "Action.OpenUrl", "url": link.url}
    return _build_row(shorten(text, MAX_INCIDENT), "small", selectAction=action)


def _build_row(text: str, spacing: str, **options: object) -> object:
    run = {"type": "TextRun", "text": text, **options}
    return {"type": "RichTextBlock", "inlines": [run], "spacing": spacing}
