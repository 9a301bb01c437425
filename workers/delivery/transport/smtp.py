"""Open an SMTP session with the mail relay: connect, start TLS and log in before a deadline.

The timeout of smtplib applies to each read: a server that sends one byte now and then could block a thread
without limit. A watchdog shuts the connection down at the deadline.
"""

import contextlib
import smtplib
import socket
import ssl
import threading
import time
from types import TracebackType

from models.domain.reasons import Reason, make_reason
from runtime.settings import Settings


class Watchdog:
    """Shut down a connection if a `with` block has not ended at `deadline` (of time.monotonic()).

    `expired`: whether the deadline has passed.
    """

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._sock: socket.socket | None = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(self.remaining(), self._expire)
        self._timer.daemon = True
        self.expired = False

    def __enter__(self) -> "Watchdog":
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._sock = None

    def remaining(self) -> float:
        """Return the remaining seconds, at least 0.01: a socket with timeout 0 does not wait at all."""
        return max(0.01, self._deadline - time.monotonic())

    def guard(self, sock: socket.socket) -> None:
        """Shut down this connection at the deadline, instead of the one before."""
        with self._lock:
            self._sock = sock
            if self.expired:
                _shut_down(sock)

    def _expire(self) -> None:
        with self._lock:
            self.expired = True
            if self._sock is not None:
                _shut_down(self._sock)


def _shut_down(sock: socket.socket) -> None:
    """Shut a socket down, which wakes a thread that reads from it; closing would not.

    The other side may have closed it already.
    """
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


class SmtpSession(smtplib.SMTP):
    """smtplib over our own connection; `handle` is a second handle of the socket, also valid with TLS."""

    def __init__(self, raw: socket.socket, handle: socket.socket, settings: Settings) -> None:
        self._raw = raw
        self.handle = handle
        self.used = False
        super().__init__(settings.smtp_host, settings.smtp_port, local_hostname=_get_hostname())

    def connect(self, *_: object, **__: object) -> tuple[int, bytes]:
        """Use the existing connection. The constructor calls this."""
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
    raw = _connect(settings.smtp_host, settings.smtp_port, watchdog)
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


def _connect(host: str, port: int, watchdog: Watchdog) -> socket.socket:
    """Connect to the first address of the host that answers. Each gets its share of the remaining time."""
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure: OSError = OSError("the relay's name has no address")
    for tried, (family, kind, protocol, _, address) in enumerate(addresses):
        raw = socket.socket(family, kind, protocol)
        try:
            raw.settimeout(watchdog.remaining() / (len(addresses) - tried))
            raw.connect(address)
            # The socket's timeout is 1 s later: the error of the watchdog says more.
            raw.settimeout(watchdog.remaining() + 1)
            return raw
        except OSError as error:
            raw.close()
            failure = error
    raise failure


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
