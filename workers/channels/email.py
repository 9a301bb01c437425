"""Letters as e-mail, over one SMTP connection for as many letters as there are to send."""

import contextlib
import re
import smtplib
import time
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import parseaddr

from pipeline.sources.cleaning import clean_line
from tocsin.settings import Settings
from workers.channels.base import Letter, NotNow, Refused, RelayTrouble
from workers.channels.smtp import Conversation, converse, trouble
from workers.channels.watchdog import Watchdog

# What a relay that hangs may cost a thread for one letter: connecting, TLS and everything.
DEADLINE_S = 10.0
GOODBYE_S = 1.0

_TROUBLE = (OSError, smtplib.SMTPException, ValueError)


class Email:
    """The e-mail channel of these settings."""

    def __init__(self, settings: Settings, deadline_s: float = DEADLINE_S) -> None:
        self._settings = settings
        self._deadline_s = deadline_s

    def lacks(self) -> str | None:
        if not self._settings.smtp_host:
            return "set TOCSIN_SMTP_HOST"
        if _address(parseaddr(self._settings.smtp_from)[1]) is None:
            return "TOCSIN_SMTP_FROM is no e-mail address"
        return None

    def line(self) -> "SmtpLine":
        return SmtpLine(self._settings, self._deadline_s)


class SmtpLine:
    """One connection. Commands are given one by one, since what a reply means depends on to what it came."""

    def __init__(self, settings: Settings, deadline_s: float) -> None:
        self._settings = settings
        self._deadline_s = deadline_s
        self._ends = 0.0
        self._talk: Conversation | None = None
        self._from_name, self._from = parseaddr(settings.smtp_from)

    def open(self) -> bool:
        """Also begins the time that the next letter may take."""
        self._ends = time.monotonic() + self._deadline_s
        if self._talk is not None:
            return False
        with Watchdog(self._ends) as watchdog:
            self._connect(watchdog)
        return True

    def send(self, letter: Letter) -> str:
        mail = self._mail(letter)
        if self._talk is None:
            self.open()
        with Watchdog(self._ends) as watchdog:
            talk = self._begun(letter, watchdog)
            try:
                return self._carry(talk, letter, mail)
            except _TROUBLE as error:
                self._drop()
                raise RelayTrouble(trouble(error, watchdog, self._deadline_s)) from error

    def close(self) -> None:
        if self._talk is None:
            return
        with Watchdog(time.monotonic() + GOODBYE_S) as watchdog, contextlib.suppress(*_TROUBLE):
            watchdog.watch(self._talk.handle)
            self._talk.quit()
        self._drop()

    def _connect(self, watchdog: Watchdog) -> Conversation:
        try:
            self._talk = converse(self._settings, watchdog)
        except _TROUBLE as error:
            raise RelayTrouble(trouble(error, watchdog, self._deadline_s)) from error
        return self._talk

    def _drop(self) -> None:
        if self._talk is not None:
            self._talk.close()
        self._talk = None

    # --- the conversation about one letter -------------------------------------------------------

    def _begun(self, letter: Letter, watchdog: Watchdog) -> Conversation:
        """After MAIL FROM; on a new connection if the relay has closed the idle one."""
        talk = self._talk or self._connect(watchdog)
        watchdog.watch(talk.handle)
        reused, talk.used = talk.used, True
        try:
            code, words = talk.mail(self._from, _options(talk, self._from, letter.to))
        except _TROUBLE as error:
            self._drop()
            if reused and not watchdog.bit:
                return self._begun(letter, watchdog)
            raise RelayTrouble(trouble(error, watchdog, self._deadline_s)) from error
        if code == 421 and reused:
            self._drop()
            return self._begun(letter, watchdog)
        if code != 250:
            # The sender is the operator's: it is nobody's address that is at fault, so it is tried again.
            self._reset(talk)
            raise NotNow(f"the relay does not take the sender: {self._said(letter, code, words)}")
        return talk

    def _carry(self, talk: Conversation, letter: Letter, mail: bytes) -> str:
        code, words = talk.rcpt(letter.to)
        if code not in (250, 251):
            raise self._not_taken("address", talk, letter, code, words)
        try:
            code, words = talk.data(mail)
        except smtplib.SMTPDataError as error:
            code, words = error.smtp_code, _bytes(error.smtp_error)
        if code != 250:
            raise self._not_taken("message", talk, letter, code, words)
        return f"taken by the relay ({code})"

    def _not_taken(
        self, what: str, talk: Conversation, letter: Letter, code: int, words: bytes
    ) -> Refused | NotNow:
        self._reset(talk)
        text = f"the relay does not take the {what}: {self._said(letter, code, words)}"
        return Refused(text) if code >= 500 else NotNow(text)

    def _reset(self, talk: Conversation) -> None:
        """Ready for the next letter; a relay that does not even take this is left."""
        try:
            code, _ = talk.rset()
        except _TROUBLE:
            code = 0
        if code != 250:
            self._drop()

    def _said(self, letter: Letter, code: int, words: bytes) -> str:
        """A reply to show and keep: without addresses, user or password, which relays like to repeat."""
        text = re.sub(r"\S*@\S*", "[address]", clean_line(words.decode("utf-8", "replace"), 300))
        hidden = (letter.to.rpartition("@")[0], self._settings.smtp_user, self._settings.smtp_password)
        for word in filter(None, hidden):
            text = re.sub(rf"(?i)(?<!\w){re.escape(word)}(?!\w)", "[hidden]", text)
        return f"{code} {text}".strip()

    # --- the letter as a mail --------------------------------------------------------------------

    def _mail(self, letter: Letter) -> bytes:
        """Refused for what can be no address; a second line in it, above all, must become no header."""
        to, sender = _address(letter.to), _address(self._from, self._from_name or "Tocsin")
        if to is None:
            raise Refused("this is no e-mail address")
        mail = EmailMessage(SMTP.clone(utf8=not _is_plain(self._from, letter.to)))
        mail["Message-ID"] = f"<{letter.message_id}@{_domain(self._from)}>"
        mail["Date"] = letter.at
        mail["From"] = sender
        mail["To"] = to
        mail["Subject"] = clean_line(letter.subject)
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(letter.text)
        return mail.as_bytes()


def _address(text: str, name: str = "") -> Address | None:
    """An address as the header wants it; None for what is none. The library parses plain ASCII only."""
    plain = text.encode("ascii", "replace").replace(b"?", b"x").decode()
    try:
        Address(addr_spec=plain)
        user, _, domain = text.rpartition("@")
        return Address(name, user, domain) if user and domain else None
    except (ValueError, IndexError, MessageError):
        return None


def _is_plain(*addresses: str) -> bool:
    return all(address.isascii() for address in addresses)


def _domain(address: str) -> str:
    domain = address.rpartition("@")[2]
    return domain if domain.isascii() else domain.encode("idna").decode()


def _options(talk: Conversation, sender: str, to: str) -> list[str]:
    """Addresses beyond ASCII need a relay that can carry them (RFC 6531)."""
    if _is_plain(sender, to):
        return []
    if not talk.has_extn("smtputf8"):
        raise Refused("the relay takes only addresses in plain ASCII")
    return ["SMTPUTF8", "BODY=8BITMIME"]


def _bytes(words: bytes | str) -> bytes:
    return words.encode() if isinstance(words, str) else words
