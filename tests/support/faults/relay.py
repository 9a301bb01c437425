"""A mail relay that can be switched to fail while an instance uses it."""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiosmtpd.smtp import SMTP

from bench.servers.sink import MAX_BYTES, Sink

# Longer than any fault: the connection is closed when the fault ends, or when the client gives up.
HANG_S = 120.0

# The commands of a session, in order, at which a relay can fail.
PHASES = ("CONNECT", "EHLO", "MAIL", "RCPT", "DATA")


class FaultyRelay(Sink):
    """A relay that stores mails, except while `fault` names what it does instead.

    - `hang PHASE`: it does not answer from this phase on.
    - `refuse PHASE` and `delay PHASE`: it answers with 550 or 451.
    - `close before 250`: it stores the mail and closes the connection without an answer.
    - `half a mail`: it closes the connection after 354.
    - `broken TLS`: it answers STARTTLS and then sends no TLS.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self.fault = ""
        # Mails that were stored although the client got no answer: each may be sent again.
        self.unanswered = 0
        self._tls = tls
        self._sessions: set[_Session] = set()

    @contextmanager
    def failing(self, fault: str) -> Iterator[None]:
        """Fail until the context ends. Sessions that hang are closed then."""
        self.fault = fault
        try:
            yield
        finally:
            self.fault = ""
            self._loop.call_soon_threadsafe(self._close_sessions)

    def _close_sessions(self) -> None:
        for session in tuple(self._sessions):
            session.abort()

    def _build_session(self) -> SMTP:
        return _Session(
            self,
            hostname="relay.invalid",
            data_size_limit=MAX_BYTES,
            loop=self._loop,
            tls_context=self._tls,
        )

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        answer = await super().handle_DATA(server, session, envelope)
        if self.fault == "close before 250":
            self.unanswered += 1
            server.abort()
        return answer


class _Session(SMTP):
    """A session of the relay. It looks at the relay's fault at each command."""

    def __init__(self, relay: FaultyRelay, **options: Any) -> None:
        super().__init__(relay, **options)
        self._relay = relay

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._relay._sessions.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._relay._sessions.discard(self)

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    async def _handle_client(self) -> None:
        await self._hang_at("CONNECT")
        await super()._handle_client()

    async def smtp_EHLO(self, hostname: str) -> None:  # noqa: N802
        if not await self._fail_at("EHLO"):
            await super().smtp_EHLO(hostname)

    async def smtp_MAIL(self, arg: str | None) -> None:  # noqa: N802
        if not await self._fail_at("MAIL"):
            await super().smtp_MAIL(arg)

    async def smtp_RCPT(self, arg: str | None) -> None:  # noqa: N802
        if not await self._fail_at("RCPT"):
            await super().smtp_RCPT(arg)

    async def smtp_DATA(self, arg: str) -> None:  # noqa: N802
        if self._relay.fault == "half a mail":
            await self.push("354 go on")
            await asyncio.sleep(0.05)
            self.abort()
        elif not await self._fail_at("DATA"):
            await super().smtp_DATA(arg)

    async def smtp_STARTTLS(self, arg: str) -> None:  # noqa: N802
        if self._relay.fault == "broken TLS":
            await self.push("220 go on")
            await self.push("550 no TLS here")
            self.abort()
        else:
            await super().smtp_STARTTLS(arg)

    async def _hang_at(self, phase: str) -> None:
        if self._relay.fault == f"hang {phase}":
            await asyncio.sleep(HANG_S)

    async def _fail_at(self, phase: str) -> bool:
        """Fail if the relay's fault is at this phase. Return whether an answer was sent."""
        await self._hang_at(phase)
        for fault, answer in (("refuse", "550 no"), ("delay", "451 later")):
            if self._relay.fault == f"{fault} {phase}":
                await self.push(answer)
                return True
        return False
