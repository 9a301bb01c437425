"""A mail server that stores mails with their time of arrival, and delivers nothing.

It accepts recipients of one domain late, as a relay does that asks the server of the domain.
"""

import asyncio
import threading
from collections import defaultdict
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from functools import cached_property
from time import time
from typing import Any

from aiosmtpd.smtp import SMTP

MAX_BYTES = 32 * 1024 * 1024
# The relay asks the server of this domain, which answers late, before it accepts a recipient.
SLOW_DOMAIN = "slow.invalid"
SLOW_S = 2.5


@dataclass(frozen=True)
class Mail:
    """A mail as it arrived. It is parsed only on access."""

    raw: bytes
    at: float

    @cached_property
    def parsed(self) -> EmailMessage:
        parsed = message_from_bytes(self.raw, policy=policy.default)
        assert isinstance(parsed, EmailMessage)
        return parsed

    @cached_property
    def message_id(self) -> str:
        """Return the part before the @: the ID of the message in Tocsin's tables."""
        return str(self.parsed["Message-ID"] or "").strip().strip("<>").partition("@")[0]

    @cached_property
    def text(self) -> str:
        body = self.parsed.get_body(("plain",))
        return str(body.get_content()) if body is not None else ""


class Sink:
    """Listens on 127.0.0.1 from start() to stop(), in its own thread."""

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.mails: list[Mail] = []
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._failed: OSError | None = None
        self._thread = threading.Thread(target=self._serve, name="mail sink", daemon=True)

    def start(self) -> "Sink":
        self._thread.start()
        self._started.wait()
        if self._failed is not None:
            raise self._failed
        return self

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def arrivals(self) -> dict[str, list[float]]:
        """Return the arrival times by message ID. Several times mean that the message arrived repeatedly."""
        found: dict[str, list[float]] = defaultdict(list)
        for mail in tuple(self.mails):
            found[mail.message_id].append(mail.at)
        return found

    # aiosmtpd defines the names.
    async def handle_RCPT(  # noqa: N802
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        if address.endswith(f"@{SLOW_DOMAIN}"):
            await asyncio.sleep(SLOW_S)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        self.mails.append(Mail(envelope.content, time()))
        return "250 kept"

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            server = self._loop.run_until_complete(
                self._loop.create_server(self._build_session, "127.0.0.1", self.port)
            )
        except OSError as error:
            self._failed = error
            self._started.set()
            return
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()
        server.close()
        self._end_sessions()
        self._loop.close()

    def _end_sessions(self) -> None:
        sessions = asyncio.all_tasks(self._loop)
        for session in sessions:
            session.cancel()
        self._loop.run_until_complete(asyncio.gather(*sessions, return_exceptions=True))

    def _build_session(self) -> SMTP:
        return SMTP(self, hostname="sink.invalid", data_size_limit=MAX_BYTES, loop=self._loop)
