"""Mail relays on loopback that do not answer, answer slowly, refuse, or require TLS and a password."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult

from tests.support.delivery.certificates import create_certificate
from tests.support.mail_server import Mailbox
from tests.support.processes import find_free_port


@dataclass
class AnsweringRelay(Mailbox):
    """A relay with given answers to commands. It stores all messages that it accepts."""

    responses: dict[str, str] = field(default_factory=dict)
    sessions: int = 0

    async def handle_EHLO(  # noqa: N802
        self, server: Any, session: Any, envelope: Any, hostname: str, responses: list[str]
    ) -> list[str]:
        self.sessions += 1
        session.host_name = hostname
        return responses

    async def handle_MAIL(  # noqa: N802
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return self.responses.get("MAIL", "250 OK")

    async def handle_RCPT(  # noqa: N802
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        answer = self.responses.get(f"RCPT {address}", self.responses.get("RCPT", "250 OK"))
        if answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        if "DATA" in self.responses:
            return self.responses["DATA"]
        return await super().handle_DATA(server, session, envelope)


Relay = TypeVar("Relay", bound=AnsweringRelay)


class _OptionsController(Controller):
    """A controller that passes more options to the protocol."""

    def __init__(self, handler: Any, options: dict[str, Any], **where: Any) -> None:
        super().__init__(handler, **where)
        self._options = options

    def factory(self) -> SMTP:
        return SMTP(self.handler, **self._options)


@contextlib.contextmanager
def relay(
    responses: dict[str, str] | None = None,
    *,
    ssl_context: ssl.SSLContext | None = None,
    kind: type[Relay] = AnsweringRelay,  # type: ignore[assignment]
    **options: Any,
) -> Iterator[Relay]:
    """Start a relay with these responses; `ssl_context` uses TLS at once, `tls_context` offers it."""
    options["enable_SMTPUTF8"] = options.pop("utf8", True)
    box = kind(find_free_port(), responses=responses or {})
    server = _OptionsController(box, options, hostname="127.0.0.1", port=box.port, ssl_context=ssl_context)
    server.start()
    try:
        yield box
    finally:
        server.stop()


def accept_login(user: str, password: str) -> Callable[..., AuthResult]:
    """Return an authenticator that accepts only this user."""

    def check(server: Any, session: Any, envelope: Any, mechanism: str, given: Any) -> AuthResult:
        # Not handled: the server itself responses.
        return AuthResult(
            handled=False, success=(given.login, given.password) == (user.encode(), password.encode())
        )

    return check


@dataclass
class SilentServer:
    """Accepts connections and passes each to a handler, until it is closed."""

    port: int
    taken: int = 0


@contextlib.contextmanager
def start_silent_server(handle: Callable[[socket.socket, threading.Event], None]) -> Iterator[SilentServer]:
    stop_event = threading.Event()
    threads: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = SilentServer(listening.getsockname()[1])

        def take() -> None:
            while not stop_event.is_set():
                try:
                    taken, _ = listening.accept()
                except OSError:
                    return
                server.taken += 1
                thread = threading.Thread(target=serve, args=(taken,))
                threads.append(thread)
                thread.start()

        def serve(taken: socket.socket) -> None:
            with taken, contextlib.suppress(OSError):
                handle(taken, stop_event)

        accepting = threading.Thread(target=take)
        accepting.start()
        try:
            yield server
        finally:
            stop_event.set()
            listening.shutdown(socket.SHUT_RDWR)
            for thread in (accepting, *threads):
                thread.join(5)


def hang(taken: socket.socket, stop_event: threading.Event) -> None:
    stop_event.wait(30)


def drip(taken: socket.socket, stop_event: threading.Event) -> None:
    """Send single bytes with pauses: each read succeeds, but the greeting never ends."""
    for _ in range(1000):
        taken.sendall(b"2")
        if stop_event.wait(0.02):
            return


def hang_after_mail(taken: socket.socket, stop_event: threading.Event) -> None:
    """Answer EHLO and MAIL, and nothing else."""
    taken.sendall(b"220 ready\r\n")
    lines = taken.makefile("rb")
    for line in lines:
        if line.upper().startswith(b"RCPT"):
            break
        taken.sendall(b"250 OK\r\n")
    stop_event.wait(30)


def hang_after_data(taken: socket.socket, stop_event: threading.Event) -> None:
    """Stop answering after the message was received."""
    taken.sendall(b"220 ready\r\n")
    lines = taken.makefile("rb")
    for line in lines:
        if line.upper().startswith(b"DATA"):
            taken.sendall(b"354 go on\r\n")
            break
        taken.sendall(b"250 OK\r\n")
    stop_event.wait(30)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a self-signed certificate for localhost, with its key in the same file."""
    path = create_certificate(tmp_path_factory.mktemp("certificate"), "localhost")
    both = path.with_name("both.pem")
    both.write_text(path.read_text() + path.with_suffix(".key").read_text())
    return both


def build_server_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context
