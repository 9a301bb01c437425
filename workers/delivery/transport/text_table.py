"""List the texts of the channels: their templates, what the channels allow, and how they escape."""

import html
import re
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from pipeline.messages.calls import MAX_SPOKEN, spell
from pipeline.messages.sms_segments import MAX_SEGMENTS, count_segments
from pipeline.sources.reading.cleaning import clean_line
from workers.delivery.transport.chat_text import escape_marks, escape_tags, escape_url

# The folder with an operator's own templates, in the data folder.
FOLDER = "templates"
# Each variable of a template, and its meaning.
VARIABLES = {
    "title": "what happened, in one line; a mail has it without the state as its subject",
    "state": "that the incident is resolved, or its SLA ends or is breached; else empty",
    "what": "the title of the incident, or how many incidents the message is about",
    "where": "the name of the service",
    "how_bad": "level and urgency",
    "since": "when the problem began, in the time zone of the reader",
    "since_short": "the same, as weekday, hour and minute",
    "why": "why this person is notified",
    "who_else": "the names of other people who are notified",
    "next_step": "who gets the next messages if nobody reacts, and when",
    "link": "the address of the incident's page; of the first incident in a message about several",
    "page": "the address of the page about all of the message; empty in a message about several incidents",
    "heading": "the one of `lines` that is a heading",
    "lines": "list of texts: the first sentences",
    "details": "list of facts, each with `label` and `text`",
    "links": "list of links, each with `text`, `url`, `note`, `button` and `actions`; in `slack.txt`,"
    " `teams.txt` and `google_chat.html` only the first one, the others are buttons",
    "actions": "list of what the reader can do: `acknowledge`, `resolve`",
    "replies": "in an SMS: what to reply to acknowledge or resolve; else empty",
    "closing": "the summary of the incident; may have line breaks",
    "foot": "the trace_ids of the alerts; may have line breaks",
    "is_urgent": "true if an incident of high urgency needs the reader",
    "plain_text": "all of it except `title`, as plain text in paragraphs",
}

# A row of a card in Teams is an object of this many bytes, beside its text.
ROW_BYTES = 100

_TAG = re.compile(r"<[^<>]*>")


def escape_html(text: str) -> str:
    return html.escape(text)


def escape_nothing(text: str) -> str:
    """Return the text unchanged, for channels that show plain text."""
    return text


def count_bytes(text: str) -> int:
    """Return the length of a text in UTF-8, for limits in bytes."""
    return len(text.encode("utf-8", "replace"))


def count_json_bytes(text: str) -> int:
    """Return the length of a text as JSON, for limits of a whole document."""
    return len(msgspec.json.encode(text.encode("utf-8", "replace").decode()))


def count_row_bytes(text: str) -> int:
    """Return the length of a text as JSON in which each row is an object of its own."""
    return count_json_bytes(text) + ROW_BYTES * (text.count("\n") + 1)


def count_shown(text: str) -> int:
    """Return how many characters of HTML are shown, in the units of UTF-16 as Telegram counts them."""
    return len(html.unescape(_TAG.sub("", text)).encode("utf-16-le", "replace")) // 2


def count_spoken(text: str) -> int:
    return len(spell(text))


@dataclass(frozen=True, slots=True)
class TextSpec:
    """A text of a channel: the file of its template, and what the channel allows.

    `escape` is applied to each value that a template shows, `escape_url` to a value with the filter `url`.
    `limit`: the greatest length by `measure`; None: no limit. `unit`: what `measure` counts. `max_links`: how
    many links a template gets; None: all.
    """

    file: str
    escape: Callable[[str], str]
    limit: int | None = None
    measure: Callable[[str], int] = len
    unit: str = "characters"
    escape_url: Callable[[str], str] = escape_nothing
    max_links: int | None = None


# All texts. Their files begin with the name of the channel. The limits leave space for title, links and
# buttons, which are not in the template of a chat; the file of the channel names the limits of the provider.
TEXTS: dict[str, TextSpec] = {
    spec.file: spec
    for spec in (
        TextSpec("email.html", escape_html, escape_url=escape_html),
        TextSpec("email.txt", escape_nothing),
        TextSpec("sms.txt", clean_line, MAX_SEGMENTS, count_segments, "segments"),
        TextSpec("phone.txt", clean_line, MAX_SPOKEN, count_spoken, "characters when spoken"),
        TextSpec("slack.txt", escape_tags, 3_000),
        TextSpec("telegram.html", escape_tags, 4_096, count_shown, "characters shown", escape_html, 15),
        TextSpec("teams.txt", escape_nothing, 14_000, count_row_bytes, "bytes as JSON"),
        TextSpec("google_chat.html", escape_tags, 16_000, count_json_bytes, "bytes as JSON", escape_html),
        TextSpec("mattermost.md", escape_marks, 6_500, escape_url=escape_url, max_links=20),
        TextSpec("discord.md", escape_marks, 3_500, escape_url=escape_url, max_links=20),
        # ntfy allows 4,096 bytes. The services that carry a message to a phone have the same limit for all of
        # it, with title and buttons.
        TextSpec("ntfy.txt", escape_nothing, 2_500, count_bytes, "bytes"),
        TextSpec("web_push.txt", escape_nothing, 1_200, count_json_bytes, "bytes as JSON"),
    )
}
