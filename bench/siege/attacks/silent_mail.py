"""Silent connections to the server for alerts by mail, beside mails of honest senders."""

import selectors
import smtplib
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from bench.siege.attacks.attack import Attack, Sizes
from bench.siege.tenants import MAIL_DOMAIN, Tenant

SILENT_MAIL = "silent connections to the mail server"
# As many as the server has in all, from so many addresses that the limit of one address does not help.
CONNECTIONS = 50
ADDRESSES = 12
TURN_S = 0.1
HONEST_PAUSE_S = 1.0
# An honest sender waits for so long; the goal is 2 s.
HONEST_S = 10.0
# Each honest mail comes from an address that the server does not know yet.
HONEST_ADDRESSES = 250


def build(tenant: Tenant, sizes: Sizes) -> Iterator[Attack]:
    """Yield silent connections, if the instance receives mails."""
    if tenant.mail_port:
        yield SilentConnections(tenant.mail_port, tenant.generic.key)


class SilentConnections:
    """Holds connections that send nothing, and sends a mail each second from another address.

    `statuses` counts the mails by the answer of the server ("none": no answer in time), and the silent
    connections that the server closed.
    """

    name = SILENT_MAIL

    def __init__(self, port: int, key: str) -> None:
        self.requests = 0
        self.statuses: Counter[str] = Counter()
        # Mails have no trace_id here; the answer 250 is what counts.
        self.accepted: list[str] = []
        self._port = port
        self._recipient = f"{key}@{MAIL_DOMAIN}"

    def run(self, stopping: threading.Event) -> None:
        honest = threading.Thread(target=self._send_mails, args=(stopping,), daemon=True)
        honest.start()
        with selectors.DefaultSelector() as selector:
            try:
                while not stopping.wait(TURN_S):
                    self._open_missing(selector)
                    for key, _ in selector.select(0):
                        self._read(selector, key.fileobj)
            finally:
                for key in list(selector.get_map().values()):
                    key.fileobj.close()
        honest.join()

    def _open_missing(self, selector: selectors.BaseSelector) -> None:
        for _ in range(CONNECTIONS - len(selector.get_map())):
            source = f"127.0.2.{1 + self.requests % ADDRESSES}"
            self.requests += 1
            with suppress(OSError):
                sock = socket.create_connection(("127.0.0.1", self._port), 1, source_address=(source, 0))
                sock.setblocking(False)
                selector.register(sock, selectors.EVENT_READ)

    def _read(self, selector: selectors.BaseSelector, sock: socket.socket) -> None:
        """Read the greeting; without more bytes, the server has closed the connection."""
        received = b""
        with suppress(OSError):
            received = sock.recv(4096)
        if not received:
            self.statuses["closed"] += 1
            selector.unregister(sock)
            sock.close()

    def _send_mails(self, stopping: threading.Event) -> None:
        number = 0
        while not stopping.wait(HONEST_PAUSE_S):
            number += 1
            self.statuses[self._send_mail(number)] += 1

    def _send_mail(self, number: int) -> str:
        source = f"127.0.3.{1 + number % HONEST_ADDRESSES}"
        text = f"Subject: honest {number}\r\n\r\nThe disk is full.\r\n"
        try:
            with smtplib.SMTP(
                "127.0.0.1", self._port, timeout=HONEST_S, source_address=(source, 0)
            ) as client:
                client.sendmail("honest@example.org", [self._recipient], text)
        except smtplib.SMTPResponseException as error:
            return str(error.smtp_code)
        except smtplib.SMTPRecipientsRefused as error:
            return str(next(iter(error.recipients.values()))[0])
        except OSError:
            return "none"
        return "250"
