"""Send messages as e-mail, over one SMTP connection for all messages of a batch."""

import contextlib
import re
import smtplib
import time
from email.utils import parseaddr

from models.domain.reasons import Reason, make_reason
from models.write.bounces import PROVIDER
from pipeline.sources.reading.cleaning import clean_line
from runtime.settings import Settings, find_unset
from workers.delivery.transport.channel import (
    DEADLINE_S,
    Accepted,
    Channel,
    HostError,
    OutgoingMessage,
    Refused,
    RelayError,
    TemporaryError,
    UnusableAddress,
)
from workers.delivery.transport.mail import MailTexts, build_mail, is_ascii, parse_address
from workers.delivery.transport.smtp import SmtpSession, describe_error, open_session
from workers.delivery.transport.watchdog import Watchdog

QUIT_TIMEOUT_S = 1.0

_ERRORS = (OSError, smtplib.SMTPException, ValueError)


class EmailChannel:
    """The e-mail channel with these settings."""

    def __init__(self, settings: Settings, deadline_s: float = DEADLINE_S) -> None:
        self._settings = settings
        self._deadline_s = deadline_s
        self._missing_setting = _find_missing_setting(settings)
        self._texts = MailTexts.load(settings.home)

    def find_missing_setting(self) -> str | None:
        return self._missing_setting

    def get_domain(self, to: str) -> str:
        return to.rpartition("@")[2].lower()

    def create_connection(self) -> "SmtpConnection":
        return SmtpConnection(self._settings, self._deadline_s, self._texts)

    def format_example(self, message: OutgoingMessage) -> str:
        """Return subject and plain text of a mail, for docs/messages.md."""
        content = message.content
        return f"Subject: {content.subject or content.title}\n\n{self._texts.plain.render(content)}"


def _find_missing_setting(settings: Settings) -> str | None:
    if variable := find_unset(settings, "email"):
        return f"set {variable}"
    if parse_address(parseaddr(settings.smtp_from)[1]) is None:
        return "TOCSIN_SMTP_FROM is not an e-mail address"
    return None


def create_channel(settings: Settings) -> Channel:
    return EmailChannel(settings)


class SmtpConnection:
    """One connection. It sends SMTP commands one by one: the meaning of a reply depends on the command."""

    def __init__(self, settings: Settings, deadline_s: float, texts: MailTexts) -> None:
        self._settings = settings
        self._texts = texts
        self._deadline_s = deadline_s
        self._deadline = 0.0
        self._session: SmtpSession | None = None
        self._from_name, self._from = parseaddr(settings.smtp_from)

    def open(self) -> bool:
        """Connect if there is no connection, and set the deadline for the next message."""
        self._deadline = time.monotonic() + self._deadline_s
        if self._session is not None:
            return False
        with Watchdog(self._deadline) as watchdog:
            self._connect(watchdog)
        return True

    def send(self, message: OutgoingMessage) -> Accepted:
        mail = build_mail(message, self._from_name or "Tocsin", self._from, self._texts)
        if self._session is None:
            self.open()
        with Watchdog(self._deadline) as watchdog:
            session = self._begin(message, watchdog)
            try:
                reason = self._transfer(session, message, mail)
            except _ERRORS as error:
                self._disconnect()
                # The relay has answered all before RCPT. Now it may wait for the server of the domain.
                raise HostError(describe_error(error, watchdog, self._deadline_s)) from error
        if not message.return_path:
            return Accepted(reason)
        return Accepted(reason, PROVIDER, message.message_id)

    def close(self) -> None:
        if self._session is None:
            return
        with Watchdog(time.monotonic() + QUIT_TIMEOUT_S) as watchdog, contextlib.suppress(*_ERRORS):
            watchdog.guard(self._session.handle)
            self._session.quit()
        self._disconnect()

    def _connect(self, watchdog: Watchdog) -> SmtpSession:
        try:
            self._session = open_session(self._settings, watchdog)
        except _ERRORS as error:
            raise RelayError(describe_error(error, watchdog, self._deadline_s)) from error
        return self._session

    def _disconnect(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None

    # --- the SMTP commands for one message -------------------------------------------------------

    def _begin(self, message: OutgoingMessage, watchdog: Watchdog) -> SmtpSession:
        """Send MAIL FROM and return the session. Reconnect if the relay closed the idle connection."""
        session = self._session or self._connect(watchdog)
        watchdog.guard(session.handle)
        reused, session.used = session.used, True
        try:
            sender = message.return_path or self._from
            code, reply = session.mail(sender, _get_options(session, sender, message.to))
        except _ERRORS as error:
            self._disconnect()
            if reused and not watchdog.expired:
                return self._begin(message, watchdog)
            raise RelayError(describe_error(error, watchdog, self._deadline_s)) from error
        if code == 421 and reused:
            self._disconnect()
            return self._begin(message, watchdog)
        if code != 250:
            # The operator sets the sender, so the recipient's address is not the cause: retry the message.
            self._reset(session)
            answer = self._clean_reply(message, code, reply)
            raise TemporaryError(make_reason("smtp_refuses_sender", answer=answer))
        return session

    def _transfer(self, session: SmtpSession, message: OutgoingMessage, mail: bytes) -> Reason:
        code, reply = session.rcpt(message.to)
        if code not in (250, 251):
            self._reset(session)
            why = make_reason("smtp_refuses_recipient", answer=self._clean_reply(message, code, reply))
            raise Refused(why) if code >= 500 else TemporaryError(why)
        try:
            code, reply = session.data(mail)
        except smtplib.SMTPDataError as error:
            code, reply = error.smtp_code, _to_bytes(error.smtp_error)
        if code != 250:
            self._reset(session)
            why = make_reason("smtp_refuses_message", answer=self._clean_reply(message, code, reply))
            # Many relays refuse an address only now. Its person gets the message at another address, too.
            raise Refused(why) if code >= 500 else TemporaryError(why)
        return make_reason("smtp_accepted", code=code)

    def _reset(self, session: SmtpSession) -> None:
        """Reset the session for the next message. Disconnect if the relay does not accept the command."""
        try:
            code, _ = session.rset()
        except _ERRORS:
            code = 0
        if code != 250:
            self._disconnect()

    def _clean_reply(self, message: OutgoingMessage, code: int, reply: bytes) -> str:
        """Remove addresses, user and password, which relays often repeat: the reply is stored and shown."""
        text = re.sub(r"\S*@\S*", "[address]", clean_line(reply.decode("utf-8", "replace"), 300))
        secrets = (message.to.rpartition("@")[0], self._settings.smtp_user, self._settings.smtp_password)
        for word in filter(None, secrets):
            text = re.sub(rf"(?i)(?<!\w){re.escape(word)}(?!\w)", "[hidden]", text)
        return f"{code} {text}".strip()


def _get_options(session: SmtpSession, sender: str, to: str) -> list[str]:
    """Return the options of MAIL FROM. Addresses with non-ASCII characters need SMTPUTF8 (RFC 6531)."""
    if is_ascii(sender, to):
        return []
    if not session.has_extn("smtputf8"):
        # If the sender needs the option, the recipient's address is not the cause.
        raise (TemporaryError if is_ascii(to) else UnusableAddress)(make_reason("smtp_ascii_only"))
    return ["SMTPUTF8", "BODY=8BITMIME"]


def _to_bytes(reply: bytes | str) -> bytes:
    return reply.encode() if isinstance(reply, str) else reply
