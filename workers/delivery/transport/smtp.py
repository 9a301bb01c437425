"""Open an SMTP session with the mail relay: connect, start TLS and log in before a deadline."""

import contextlib
import smtplib
import socket
import ssl

from models.domain.reasons import Reason, make_reason
from runtime.settings import Settings
from workers.delivery.transport.watchdog import Watchdog, connect


class SmtpSession(smtplib.SMTP):
    """smtplib over our own connection; `handle` is a second handle of the socket, also valid with TLS."""

    def __init__(self, raw: socket.socket, handle: socket.socket, settings: Settings) -> None:
        self._raw = raw
        self.handle = handle
        self.used = False
        super().__init__(settings.smtp_host, settings.smtp_port, local_hostname=_get_hostname())

    def connect(self, host: str = "", *_: object, **__: object) -> tuple[int, bytes]:
        """Use the existing connection. The constructor calls this."""
        # starttls() checks the certificate for this name. Since Python 3.14, only connect() sets it.
        self._host = host
        self.sock = self._raw
        self.file = None
        return self.getreply()

    def close(self) -> None:
        super().close()
        self._raw.close()
        self.handle.close()


def _get_hostname() -> str:
    """Return the host name for EHLO. smtplib would ask the DNS resolver, which may be slow."""
    name = socket.gethostname()
    return name if "." in name else "[127.0.0.1]"


def open_session(settings: Settings, watchdog: Watchdog) -> SmtpSession:
    """Open a session ready for messages. Raise OSError, SMTPException or ValueError (bad host name)."""
    raw = connect(settings.smtp_host, settings.smtp_port, watchdog)
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(lambda: raw.close())
        handle = cleanup.enter_context(raw.dup())
        watchdog.guard(handle)
        if settings.smtp_tls == "tls":
            raw = _create_tls_context(settings).wrap_socket(raw, server_hostname=settings.smtp_host)
        session = SmtpSession(raw, handle, settings)
        cleanup.callback(session.close)
        _log_in(session, settings)
        cleanup.pop_all()
    return session


def _log_in(session: SmtpSession, settings: Settings) -> None:
    if settings.smtp_tls == "starttls":
        session.starttls(context=_create_tls_context(settings))
    session.ehlo_or_helo_if_needed()
    if settings.smtp_user:
        session.login(settings.smtp_user, settings.smtp_password)


def _create_tls_context(settings: Settings) -> ssl.SSLContext:
    """Create a TLS context that always checks certificates. A setting can name the file of a private CA."""
    context = ssl.create_default_context()
    if settings.smtp_ca_file:
        context.load_verify_locations(settings.smtp_ca_file)
    return context


def describe_error(error: Exception, watchdog: Watchdog, deadline_s: float) -> Reason:
    """Describe why the relay cannot be used, without addresses or passwords."""
    if watchdog.expired or isinstance(error, TimeoutError):
        return make_reason("relay_silent", within=f"{deadline_s:g}")
    match error:
        case smtplib.SMTPAuthenticationError():
            return make_reason("smtp_refuses_login", code=error.smtp_code)
        case smtplib.SMTPResponseException():
            return make_reason("smtp_answered", code=error.smtp_code)
        case smtplib.SMTPNotSupportedError():
            return make_reason("smtp_not_supported", detail=str(error))
        case smtplib.SMTPServerDisconnected() | ConnectionResetError() | BrokenPipeError():
            return make_reason("relay_closed")
        case ConnectionRefusedError():
            return make_reason("relay_refuses_connections")
        case socket.gaierror():
            return make_reason("relay_unknown")
        case ssl.SSLCertVerificationError():
            return make_reason("relay_not_trusted", detail=error.verify_message)
        case ssl.SSLError():
            return make_reason("relay_without_tls", detail=error.reason or "handshake failed")
        case OSError(strerror=str(text)):
            return make_reason("relay_unreachable", detail=text)
    return make_reason("relay_unusable", error=type(error).__name__)
