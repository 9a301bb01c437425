"""A real SMTP server on loopback that stores its messages."""

import contextlib
import email
import email.policy
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller

from tests.support.polling import PATIENCE_S, wait_until
from tests.support.processes import find_free_port


class Mail(EmailMessage):
    """A mail whose content is its plain text, also if it has HTML too."""

    def get_content(self, *arguments: Any, **options: Any) -> Any:
        text = self.get_body(("plain",)) if self.is_multipart() else None
        return super().get_content(*arguments, **options) if text is None else text.get_content()

    def get_html(self) -> str:
        html = self.get_body(("html",))
        assert html is not None
        return str(html.get_content())


POLICY = email.policy.default.clone(message_factory=Mail)


@dataclass
class Mailbox:
    """Messages in the order of arrival, with their recipients."""

    port: int
    mails: list[tuple[str, Mail]] = field(default_factory=list)
    # The addresses to which the mails would come back.
    return_paths: list[str] = field(default_factory=list)

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        message = email.message_from_bytes(envelope.content, policy=POLICY)
        self.return_paths += [envelope.mail_from] * len(envelope.rcpt_tos)
        self.mails += [(recipient, message) for recipient in envelope.rcpt_tos]
        return "250 kept"

    def wait_for(self, count: int, timeout: float = PATIENCE_S) -> list[tuple[str, Mail]]:
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
