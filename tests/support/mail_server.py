"""A real SMTP server on loopback that stores its messages."""

import contextlib
import email
import email.policy
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller

from tests.support.polling import wait_until
from tests.support.processes import find_free_port


@dataclass
class Mailbox:
    """Messages in the order of arrival, with their recipients."""

    port: int
    mails: list[tuple[str, EmailMessage]] = field(default_factory=list)

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        self.mails += [(recipient, message) for recipient in envelope.rcpt_tos]
        return "250 kept"

    def wait_for(self, count: int, timeout: float = 10.0) -> list[tuple[str, EmailMessage]]:
        wait_until(lambda: len(self.mails) >= count, timeout)
        return self.mails


@contextlib.contextmanager
def start_mailbox() -> Iterator[Mailbox]:
    box = Mailbox(find_free_port())
    controller = Controller(box, hostname="127.0.0.1", port=box.port)
    controller.start()
    try:
        yield box
    finally:
        controller.stop()
