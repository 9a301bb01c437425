"""Send messages to Google Chat: to the URL of an incoming webhook, as a text and a card.

A message has 32,000 bytes at most. Texts in a card are HTML, so they are escaped. The text before the card is
what a phone shows; without "<" it can mention nobody.

Sources: developers.google.com/workspace/chat, the reference of spaces.messages.create and cards, and "Usage
limits". A space takes 60 messages in a minute; more get 429, which names no time.
"""

from functools import partial
from html import escape

from pipeline.messages.content import LabelledLink, MessageContent
from runtime.settings import Settings
from workers.delivery.transport.channel import Channel, OutgoingMessage
from workers.delivery.transport.chat_text import fit, get_label, keep_first_link, list_links, shorten
from workers.delivery.transport.texts import MessageText
from workers.delivery.transport.user_url_channel import UserUrlChannel

MAX_BUTTONS = 6
MAX_TITLE, MAX_INCIDENT = 200, 300
MAX_BYTES = 32_000


def create_channel(settings: Settings) -> Channel:
    text = MessageText("google_chat.html", settings.home)
    return UserUrlChannel(settings, "google_chat", partial(build_body, text))


def build_body(text: MessageText, message: OutgoingMessage) -> dict[str, object]:
    content = message.content
    shown = text.render(keep_first_link(content)).strip()
    return fit(lambda links: _build(content, shown, links), MAX_BYTES)


def _build(content: MessageContent, shown: str, max_links: int) -> dict[str, object]:
    groups = (_list_texts(content, shown, max_links), _list_buttons(content, max_links))
    sections = [{"widgets": widgets} for widgets in groups if widgets]
    title = shorten(content.title, MAX_TITLE)
    text = title.replace("<", "\u2039").replace(">", "\u203a")
    if not sections:
        return {"text": text}
    card = {"header": {"title": title}, "sections": sections}
    return {"text": text, "cardsV2": [{"cardId": "message", "card": card}]}


def _list_texts(content: MessageContent, shown: str, max_links: int) -> list[object]:
    links = list_links(content)
    widgets = [_build_paragraph(shown)] if shown else []
    widgets += [
        _build_link(link)
        for number, link in enumerate(links[:max_links])
        if link.note or number >= MAX_BUTTONS
    ]
    if len(links) > max_links:
        widgets.append(_build_paragraph(f"and {len(links) - max_links} more"))
    return widgets


def _build_paragraph(text: str) -> object:
    return {"textParagraph": {"text": text}}


def _build_link(link: LabelledLink) -> object:
    url, text = escape(link.url, quote=True), escape(shorten(link.text, MAX_INCIDENT))
    note = f"\n{escape(shorten(link.note, MAX_INCIDENT))}" if link.note else ""
    return _build_paragraph(f'<a href="{url}">{text}</a>{note}')


def _list_buttons(content: MessageContent, max_links: int) -> list[object]:
    buttons = [
        {"text": shorten(get_label(link), 60), "onClick": {"openLink": {"url": link.url}}}
        for link in list_links(content)[: min(max_links, MAX_BUTTONS)]
    ]
    return [{"buttonList": {"buttons": buttons}}] if buttons else []
