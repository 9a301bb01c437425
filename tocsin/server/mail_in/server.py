"""The SMTP server of the listener: it takes mails for known keys, and relays nothing."""

import asyncio
import contextlib
import logging
import math
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import AnyStr, TypeVar

import structlog
from aiosmtpd.smtp import SMTP, Envelope, TLSSetupException
from aiosmtpd.smtp import Session as SmtpSession

from models.domain.identity import is_uuid
from models.links.return_paths import is_return_path
from runtime import metrics
from runtime.settings import Settings
from tocsin.server.mail_in.acceptance import Acceptance, UnknownKey
from tocsin.server.mail_in.certificate import Certificate
from tocsin.server.mail_in.limits import Connections, MailLimits, Rates
from tocsin.server.mail_in.message import MAX_BYTES, MAX_LINES, BadMail
from web.ingest.group_commit import NotStoredError

T = TypeVar("T")
log = structlog.get_logger()

LIMITS = MailLimits()

# Threads that read mails and wait for the store.
THREADS = 4
# At the end, mails that are being stored get this time.
STOP_S = 11.0
# A connection that is silent for so long makes room for a new one when there are too many.
SILENT_S = 1.0
# A client that does not take the last answer is cut after this time.
CLOSE_S = 2.0
# Some programs send HTML in one line. A connection keeps up to twice as much that is not yet read.
MAX_ROW_BYTES = 256 * 1024
# A mail that is too large is read to its end, so that its sender gets the answer, but not beyond this.
MAX_READ_BYTES, MAX_READ_LINES = 4 * MAX_BYTES, 2 * MAX_LINES

NO_ADDRESS = "550 5.1.1 no such address here"
TOO_MANY = "452 4.7.1 too many mails for this address, send it again later"
TOO_MANY_RECIPIENTS = "452 4.5.3 too many recipients"
UNAVAILABLE = "451 4.3.0 the mail cannot be stored now, send it again later"
TOO_LARGE = "552 5.3.4 the mail is too large"
BUSY = "421 4.7.0 too many connections, try again later"
TIMEOUT = "421 4.4.2 the connection took too long"
STOPPING = "421 4.3.2 the server stops, try again later"


class MailHandler:
    """Decides about recipients and mails. aiosmtpd calls its methods by their names."""

    def __init__(self, domain: str, limits: MailLimits) -> None:
        self._domain = domain.casefold()
        self._limits = limits
        self._rates = Rates(limits.mails_of_key_a_minute)
        self._acceptance = Acceptance()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="mail in")

    async def handle_EHLO(  # noqa: N802
        self, server: SMTP, session: SmtpSession, envelope: Envelope, hostname: str, responses: list[str]
    ) -> list[str]:
        session.host_name = hostname
        # Nobody can log in.
        return [line for line in responses if not line.startswith("250-AUTH")]

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: SmtpSession, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Accept the address of a known key, or one to which mails come back. The envelope keeps the key."""
        key = self._find_key(address)
        if len(envelope.rcpt_tos) >= self._limits.recipients:
            return _count("limited", TOO_MANY_RECIPIENTS)
        try:
            if key is None or not await self._run(partial(self._acceptance.knows, key)):
                return _count("unknown_address", NO_ADDRESS)
        except NotStoredError:
            return _count("unavailable", UNAVAILABLE)
        if not self._rates.take(key, time.monotonic()):
            return _count("limited", TOO_MANY)
        if key not in envelope.rcpt_tos:
            envelope.rcpt_tos.append(key)
        return "250 2.1.5 ok"

    async def handle_DATA(self, server: SMTP, session: SmtpSession, envelope: Envelope) -> str:  # noqa: N802
        """Store the mail, and answer 250 after the commit."""
        connection = server if isinstance(server, MailConnection) else None
        if connection is not None:
            connection.is_storing = True
        content = envelope.content if isinstance(envelope.content, bytes) else b""
        sender = (envelope.mail_from or "").removeprefix("<").removesuffix(">")
        work = partial(self._acceptance.accept, list(envelope.rcpt_tos), content, sender, time.monotonic())
        try:
            trace_ids = await self._run(work)
        except BadMail as error:
            return _count("malformed", f"554 5.6.0 {error}")
        except UnknownKey:
            return _count("unknown_address", NO_ADDRESS)
        except NotStoredError:
            return _count("unavailable", UNAVAILABLE)
        if connection is not None:
            connection.remember_delivery()
        traces = f", trace_id {' '.join(trace_ids)}" if trace_ids else ""
        return _count("accepted", f"250 2.0.0 stored{traces}")

    async def handle_exception(self, error: Exception) -> str:
        # Everybody can begin TLS and send something else.
        if not isinstance(error, TLSSetupException):
            log.error("a mail could not be handled", error=type(error).__name__)
        return _count("unavailable", UNAVAILABLE)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _find_key(self, address: str) -> str | None:
        name, _, domain = address.rpartition("@")
        key = name.lower()
        is_known_form = is_uuid(key) or is_return_path(key)
        return key if domain.casefold() == self._domain and is_known_form else None


def _count(outcome: str, answer: str) -> str:
    """Count what happened to a connection, recipient or mail, and return the answer."""
    metrics.count_mail(outcome)
    return answer


@dataclass(frozen=True, slots=True)
class Shared:
    """What the connections of a server share."""

    handler: MailHandler
    limits: MailLimits
    connections: Connections
    hostname: str
    opened: "set[MailConnection]" = field(default_factory=set)

    def admit(self, address: str) -> bool:
        """Count a new connection of this address. When there are too many, the oldest silent one makes room.

        False: it is one too many.
        """
        now = time.monotonic()
        if self.connections.is_full() and self.connections.may_open(address):
            oldest = min(self.opened, key=lambda one: one.silent_since, default=None)
            if oldest is not None and oldest.silent_since <= now - SILENT_S:
                oldest.make_room()
        return self.connections.admit(address, now)


class MailConnection(SMTP):
    """A connection of a sender, with bounds on its time and on what it sends."""

    line_length_limit = MAX_ROW_BYTES

    def __init__(self, shared: Shared, certificate: Certificate, loop: asyncio.AbstractEventLoop) -> None:
        # aiosmtpd changes this dictionary, which all connections would share.
        self.command_size_limits = defaultdict(lambda: SMTP.command_size_limit)
        limits = shared.limits
        super().__init__(
            shared.handler,
            data_size_limit=MAX_BYTES,
            enable_SMTPUTF8=True,
            hostname=shared.hostname,
            ident="Tocsin",
            tls_context=certificate.get_context(),
            # Begins again with each command. The timer below ends the connection before.
            timeout=limits.seconds + STOP_S,
            auth_exclude_mechanism=("LOGIN", "PLAIN"),
            command_call_limit={"*": limits.commands},
            loop=loop,
        )
        self.is_storing = False
        self._shared = shared
        self._address = ""
        self._received = self._lines = 0
        self._last_answer = ""
        self._raw: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        # Runs while a command is expected, since `_silent_since`.
        self._command_timer: asyncio.TimerHandle | None = None
        self._silent_since = math.inf
        self._is_in_data = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a connection, or refuse it if it is one too many. With TLS, aiosmtpd calls this again."""
        if self._address:
            super().connection_made(transport)
            self._expect_command()
            return
        assert isinstance(transport, asyncio.Transport)
        self._raw = transport
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else "unknown"
        if not self._shared.admit(address):
            transport.write(f"{_count('limited', BUSY)}\r\n".encode())
            transport.close()
            return
        self._address = address
        self._shared.opened.add(self)
        super().connection_made(transport)
        self._timer = self.loop.call_later(self._shared.limits.seconds, self.end, TIMEOUT)
        self._expect_command()

    def connection_lost(self, error: Exception | None) -> None:
        if self not in self._shared.opened:
            return
        self._shared.opened.remove(self)
        self._shared.connections.release(self._address)
        if self._timer is not None:
            self._timer.cancel()
        self._end_silence()
        super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        """Take the next bytes. aiosmtpd would read a mail without an end, and keep a line without an end."""
        self._received += len(data)
        self._lines += data.count(b"\n")
        if self._received > MAX_READ_BYTES or self._lines > MAX_READ_LINES:
            self.end(_count("too_large", TOO_LARGE))
            return
        super().data_received(data)

    async def push(self, status: AnyStr) -> None:
        """Send an answer. The next command must follow it soon."""
        await super().push(status)
        if not self._is_in_data:
            self._expect_command()

    def _reset_timeout(self, duration: float | None = None) -> None:
        """Do what aiosmtpd does when a known command has arrived. Until its answer, the client waits."""
        super()._reset_timeout(duration)
        self._end_silence()

    def _expect_command(self) -> None:
        # What is no command does not prolong the time.
        if self._command_timer is None and self in self._shared.opened:
            self._silent_since = time.monotonic()
            self._command_timer = self.loop.call_later(self._shared.limits.command_seconds, self.end, TIMEOUT)

    def _end_silence(self) -> None:
        if self._command_timer is not None:
            self._command_timer.cancel()
        self._command_timer, self._silent_since = None, math.inf

    @property
    def silent_since(self) -> float:
        """Return since when the client has sent no command; infinity: it waits, or sends a mail."""
        return self._silent_since

    def remember_delivery(self) -> None:
        """Remember that the address of this connection has delivered a mail."""
        self._shared.connections.remember(self._address)

    def make_room(self) -> None:
        """End this connection at once, so that another one can begin."""
        self.end(_count("limited", BUSY))
        if self._raw is not None:
            self._abort(self._raw)

    async def smtp_STARTTLS(self, arg: str) -> None:  # noqa: N802
        """Begin TLS. asyncio does not report the end of a connection whose handshake is not finished."""
        try:
            await super().smtp_STARTTLS(arg)
        finally:
            if self._raw is not None and self._raw.is_closing():
                self.connection_lost(None)

    async def smtp_DATA(self, arg: str) -> None:  # noqa: N802
        self._received = self._lines = 0
        self._is_in_data = True
        try:
            await super().smtp_DATA(arg)
        finally:
            self.is_storing = self._is_in_data = False
        self._expect_command()
        self._received = self._lines = 0
        if self._last_answer:
            self.end(self._last_answer)

    def end(self, answer: str) -> None:
        """End the connection with this answer; a mail that is being stored gets its own answer before."""
        if self.is_storing:
            self._last_answer = answer
            return
        transport, raw = self.transport, self._raw
        if isinstance(transport, asyncio.WriteTransport) and not transport.is_closing():
            transport.write(f"{answer}\r\n".encode())
            transport.close()
        if raw is not None:
            self.loop.call_later(CLOSE_S, self._abort, raw)

    def _abort(self, raw: asyncio.Transport) -> None:
        raw.abort()
        # In a handshake, asyncio does not report this end.
        self.connection_lost(None)


class MailServer:
    """Receives mails in a thread of its own, from start() to stop()."""

    def __init__(self, settings: Settings, listening: socket.socket, limits: MailLimits = LIMITS) -> None:
        self._settings = settings
        self._listening = listening
        self._limits = limits
        self._thread = threading.Thread(target=self._run, name="mail in", daemon=True)
        self._is_ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()

    def start(self) -> None:
        """Begin to receive, and return when this is so."""
        # aiosmtpd logs each command, and commands have keys and addresses.
        logging.getLogger("mail").disabled = True
        logging.getLogger("mail.log").disabled = True
        self._thread.start()
        self._is_ready.wait()
        host, port = self._listening.getsockname()[:2]
        log.info("receiving alerts by mail", host=host, port=port)

    def stop(self) -> None:
        """Take no further mail; what is being stored is answered first."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._is_ready.set()

    async def _serve(self) -> None:
        loop = self._loop = asyncio.get_running_loop()
        settings, limits = self._settings, self._limits
        handler = MailHandler(settings.mail_in_domain, limits)
        shared = Shared(handler, limits, Connections(limits), settings.mail_in_domain)
        certificate = Certificate(settings.mail_in_certificate, settings.mail_in_key)
        certificate.get_context()
        server = await loop.create_server(
            lambda: MailConnection(shared, certificate, loop), sock=self._listening
        )
        self._is_ready.set()
        await self._stopping.wait()
        server.close()
        for connection in list(shared.opened):
            connection.end(STOPPING)
        until = time.monotonic() + STOP_S
        while shared.opened and time.monotonic() < until:
            await asyncio.sleep(0.02)
        handler.close()
