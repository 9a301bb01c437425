"""Read a mail into the JSON of its alert, with a bound on the work for any bytes.

The headers are read without the parsers of addresses and structures in the standard library, which are slow
for some headers. Nothing is fetched, and attachments are not decoded.
"""

import codecs
import contextlib
import re
from binascii import Error as BinaryError
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message
from email.policy import Compat32, Policy
from email.utils import parseaddr, parsedate_to_datetime

from pipeline.sources.reading.cleaning import clean_line, clean_text
from tocsin.server.mail_in.html_text import read_html

MAX_BYTES = 1024 * 1024
MAX_LINES = 50_000
MAX_PARTS = 50
MAX_DEPTH = 10
MAX_HEADER = 4 * 1024
# The library reads nested comments of an address recursively.
MAX_ADDRESS = 320
# Of the text; an alert shows 16 KB of it.
MAX_TEXT = 32 * 1024
MAX_TEXT_BYTES = 128 * 1024
# Their time grows with the square of the length.
SLOW_CODECS = {"idna", "punycode"}

# Fields that a mail has also if they are empty.
REQUIRED = ("subject", "text", "sender")
# A header, and the field that has its text.
FIELDS = (
    ("message-id", "message_id"),
    ("auto-submitted", "auto_submitted"),
    ("precedence", "precedence"),
    ("x-tocsin-entity", "entity_id"),
    ("x-tocsin-level", "level"),
)
# The headers with the ids of this mail and of those that it answers.
ID_HEADERS = ("message-id", "in-reply-to", "references")
_ID = re.compile(r"<([^<>@\s]{1,200})@([^<>@\s]{1,253})>")

# What the library raises for some malformed mails.
_READ_ERRORS = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


class BadMail(ValueError):
    """A mail that is refused for good; the text says why."""


class _Piece(Message):
    """A mail or a part of it. It refuses more parts than the bounds, while the mail is parsed."""

    def __init__(self, policy: "Policy[Message]") -> None:
        super().__init__(policy)
        self.depth = 1
        self.top: _Piece = self
        self.parts = 0

    def attach(self, payload: Message | str) -> None:
        assert isinstance(payload, _Piece)
        payload.depth, payload.top = self.depth + 1, self.top
        self.top.parts += 1
        if self.top.parts > MAX_PARTS:
            raise BadMail(f"the mail has more than {MAX_PARTS} parts")
        if payload.depth > MAX_DEPTH:
            raise BadMail(f"the parts of the mail are nested deeper than {MAX_DEPTH}")
        super().attach(payload)


class _Policy(Compat32):
    """Truncates long headers: some of their readers need the square of the length."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        return name, value[:MAX_HEADER]


@dataclass(frozen=True, slots=True)
class ReadMail:
    """`fields` are the JSON of the alert; `ids` are the ids of the mail and of those that it answers.

    An id is the text before the "@" and the domain.
    """

    fields: dict[str, object]
    ids: list[tuple[str, str]]


def read_mail(raw: bytes, sender: str) -> ReadMail:
    """Read a mail; `sender` is that of the envelope, "" for none. Raises BadMail."""
    if len(raw) > MAX_BYTES or raw.count(b"\n") > MAX_LINES:
        raise BadMail(f"the mail has more than {MAX_BYTES:,} bytes or {MAX_LINES:,} lines")
    try:
        return _read(raw, sender)
    except BadMail:
        raise
    except _READ_ERRORS as error:
        # The same mail would fail again, so its sender must not send it again.
        raise BadMail("the mail cannot be read") from error


def _read(raw: bytes, sender: str) -> ReadMail:
    mail = message_from_bytes(_join_lines(raw), policy=_Policy(message_factory=_Piece))
    headers = _read_headers(mail)
    fields: dict[str, object] = {
        "subject": clean_line(_decode(headers.get("subject", ""))),
        "text": clean_text(_find_text(mail), MAX_TEXT),
        "sender": clean_line(sender),
        "from": _read_address(headers.get("from", "")),
        "date": _read_date(headers.get("date", "")),
    }
    fields |= {field: clean_line(_decode(headers.get(header, ""))) for header, field in FIELDS}
    ids = [pair for header in ID_HEADERS for pair in _ID.findall(headers.get(header, ""))]
    return ReadMail({name: value for name, value in fields.items() if value or name in REQUIRED}, ids)


def _join_lines(raw: bytes) -> bytes:
    """Return the mail with a newline after each line, and a blank for each return that ends no line.

    Only a return with a newline ends a line of a mail. The library also ends one at a return alone.
    """
    return raw.replace(b"\r\r\n", b"\n").replace(b"\r\n", b"\n").replace(b"\r", b" ")


def _read_headers(mail: Message) -> Mapping[str, str]:
    """Return the first value of each header by its name in lower case. Bytes beyond ASCII are UTF-8."""
    found: dict[str, str] = {}
    for name, value in mail.raw_items():
        text = str(value).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        found.setdefault(name.lower(), text)
    return found


def _decode(header: str) -> str:
    """Return a header with its encoded words decoded; as it is if they cannot be."""
    try:
        return str(make_header(decode_header(header)))
    except (HeaderParseError, BinaryError, LookupError, ValueError):
        return header


def _read_address(header: str) -> str:
    try:
        return clean_line(parseaddr(header[-MAX_ADDRESS:])[1].lower())
    except (RecursionError, IndexError, ValueError):
        return ""


def _read_date(header: str) -> str:
    try:
        at = parsedate_to_datetime(header[:100])
    except (ValueError, TypeError, IndexError, OverflowError):
        return ""
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).isoformat()


def _find_text(mail: Message) -> str:
    """Return the first plain text that is no attachment, else the text of the first HTML."""
    html = ""
    for part in _list_leaves(mail):
        if part.get_content_disposition() == "attachment":
            continue
        kind = part.get_content_type()
        if kind == "text/html":
            html = html or read_html(_decode_text(part))
        elif kind == "text/plain" and (text := _decode_text(part).strip()):
            return text
    return html


def _list_leaves(part: Message) -> Iterator[Message]:
    if not part.is_multipart():
        yield part
        return
    # Without decode, a part that has parts is returned as their list.
    for inner in part.get_payload():
        if isinstance(inner, Message) and inner.get_content_disposition() != "attachment":
            yield from _list_leaves(inner)


def _decode_text(part: Message) -> str:
    content = part.get_payload(decode=True)
    content = content[:MAX_TEXT_BYTES] if isinstance(content, bytes) else b""
    # An unknown name of a character set is a LookupError, one that cannot be used a ValueError.
    with contextlib.suppress(LookupError, ValueError):
        charset = part.get_content_charset("utf-8")
        if codecs.lookup(charset).name not in SLOW_CODECS:
            return content.decode(charset, "replace")
    return content.decode("utf-8", "replace")
