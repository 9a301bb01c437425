"""Build an e-mail: headers, plain text and HTML.

The HTML escapes every text. By default, it loads nothing and runs nothing, so that each mail program shows
all of it.
"""

import hashlib
from dataclasses import dataclass
from email.errors import MessageError
from email.headerregistry import Address, BaseHeader, HeaderRegistry
from email.message import EmailMessage
from email.policy import SMTP
from functools import lru_cache
from pathlib import Path

from models.domain.reasons import make_reason
from pipeline.sources.reading.cleaning import clean_line
from workers.delivery.transport.channel import OutgoingMessage, UnusableAddress
from workers.delivery.transport.texts import MessageText

# A line may have 998 bytes (RFC 5322, section 2.1.1).
MAX_BYTES_OF_ROW = 900

# The library decodes an encoded word (RFC 2047) in a text, and writes the line breaks in it into the header.
_ENCODED_WORD = "=?"


# Headers with few texts. To parse them again for each mail took half of the time of build_mail (measured).
_REPEATED = {
    "auto-submitted",
    "x-auto-response-suppress",
    "list-id",
    "importance",
    "x-priority",
    "mime-version",
    "content-type",
    "content-transfer-encoding",
}


class _CachedHeaders(HeaderRegistry):
    """Parses a repeated header once, and creates the class of each name once. Parsed headers never change."""

    def __call__(self, name: str, value: object) -> BaseHeader:
        if name.lower() in _REPEATED and isinstance(value, str):
            return self._parse(name, value)
        return super().__call__(name, value)

    # There are two of these objects, for the life of the process.
    @lru_cache(maxsize=64)  # noqa: B019
    def _parse(self, name: str, text: str) -> BaseHeader:
        return super().__call__(name, text)

    @lru_cache(maxsize=64)  # noqa: B019
    def __getitem__(self, name: str) -> type[BaseHeader]:
        return super().__getitem__(name)


_POLICIES = {
    ascii_only: SMTP.clone(utf8=not ascii_only, header_factory=_CachedHeaders())
    for ascii_only in (True, False)
}


@dataclass(frozen=True, slots=True)
class MailTexts:
    """The two texts of a mail. `home` is the data folder, which may have other templates."""

    plain: MessageText
    html: MessageText

    @classmethod
    def load(cls, home: Path | None = None) -> "MailTexts":
        return cls(MessageText("email.txt", home), MessageText("email.html", home))


def build_mail(message: OutgoingMessage, from_name: str, from_address: str, texts: MailTexts) -> bytes:
    """Build the e-mail. Raise UnusableAddress for an invalid one, so that a line break adds no header."""
    to, sender = parse_address(message.to), parse_address(from_address, from_name)
    if to is None:
        raise UnusableAddress(make_reason("not_an_email_address"))
    content, domain = message.content, _get_domain(from_address)
    mail = EmailMessage(_POLICIES[is_ascii(from_address, message.to)])
    mail["Message-ID"] = f"<{message.message_id}@{domain}>"
    mail["Date"] = message.at
    mail["From"] = sender
    mail["To"] = to
    mail["Subject"] = clean_line(content.subject or content.title).replace(_ENCODED_WORD, "= ?")
    mail["Auto-Submitted"] = "auto-generated"
    # Out-of-office replies answer nobody. Exchange does not read Auto-Submitted.
    mail["X-Auto-Response-Suppress"] = "OOF, AutoReply"
    mail["List-Id"] = f"Tocsin <tocsin.{domain}>"
    if content.threads:
        # No mail has these ids. Mails that refer to the same id are one thread, also if the first is lost.
        # The library breaks ids in two if their domain is long.
        short = hashlib.blake2b(domain.encode(), digest_size=6).hexdigest()
        ids = [f"<incident-{name}@{short}.invalid>" for name in content.threads]
        mail["References"] = " ".join(ids)
    if content.is_urgent:
        mail["Importance"] = "high"
        mail["X-Priority"] = "1"
    mail.set_content(texts.plain.render(content))
    html = texts.html.render(content).encode("utf-8", "ignore").decode()
    # The library would choose between two encodings by trying both, which takes long for a large mail.
    is_plain = html.isascii() and max(map(len, html.splitlines()), default=0) <= MAX_BYTES_OF_ROW
    mail.add_alternative(html, subtype="html", cte="7bit" if is_plain else "base64")
    return mail.as_bytes()


def parse_address(text: str, name: str = "") -> Address | None:
    """Parse an address for a header; None if it is invalid.

    The library parses ASCII only, so other characters are replaced for the check.
    """
    if _ENCODED_WORD in text or not text.isprintable():
        return None
    ascii_text = text.encode("ascii", "replace").replace(b"?", b"x").decode()
    try:
        Address(addr_spec=ascii_text)
        user, _, domain = text.rpartition("@")
        return Address(name, user, domain) if user and domain else None
    except (ValueError, IndexError, MessageError):
        return None


def is_ascii(*addresses: str) -> bool:
    return all(address.isascii() for address in addresses)


def _get_domain(address: str) -> str:
    domain = address.rpartition("@")[2]
    return domain if domain.isascii() else domain.encode("idna").decode()
