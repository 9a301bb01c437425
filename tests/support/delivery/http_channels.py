"""Channels that only tests have. They send messages by HTTP, to real servers on loopback."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from models.domain.channels import CHANNELS, CONTACT_TYPES, ChannelSpec
from models.domain.reasons import make_reason
from models.store.ids import make_uuid
from models.tables.incidents import Incident
from models.tables.users import ContactMethod, NotificationRule
from tests.support.alerts import accept
from tests.support.world import World
from workers.alerts import process_lane
from workers.delivery import deliver
from workers.delivery.channel_runtime import ChannelRuntime
from workers.delivery.transport.channel import Accepted, Channel, OutgoingMessage, Provider
from workers.delivery.transport.http import HttpClient, raise_for_status

CREATED = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass
class Inbox:
    """A server that answers each message with `status` and `headers`, and keeps the texts that it accepts."""

    port: int
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    taken: list[tuple[str, str]] = field(default_factory=list)
    # How many requests it got, also those that it did not accept.
    requests: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def start_inbox(status: int = 200, headers: Mapping[str, str] | None = None) -> Iterator[Inbox]:
    inbox = Inbox(0, status, dict(headers or {}))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            inbox.requests += 1
            if inbox.status < 300:
                inbox.taken.append((self.path, text))
            self.send_response(inbox.status)
            for name, value in inbox.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        inbox.port = server.server_address[1]
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield inbox
        finally:
            server.shutdown()
            thread.join()


class HttpConnection:
    """Sends to one provider: to the path of the address there or, without a URL, to the address itself."""

    def __init__(self, url: str, client: HttpClient) -> None:
        self._url = url
        self._client = client
        # By address, instead of the client for all others.
        self.clients: dict[str, HttpClient] = {}

    def open(self) -> bool:
        return False

    def send(self, message: OutgoingMessage) -> Accepted:
        url = f"{self._url}/{message.to}" if self._url else message.to
        client = self.clients.get(message.to, self._client)
        reply = client.request("POST", url, body=message.content.title.encode())
        raise_for_status(reply, self._client.provider, message.at)
        return Accepted(
            make_reason("text", text="Taken."), self._client.provider, f"{message.message_id[:9]}"
        )

    def close(self) -> None:
        pass


class HttpChannel:
    """A channel of one provider."""

    def __init__(self, url: str, deadline_s: float = 5.0) -> None:
        # To create a client takes long: it reads the certificates.
        self._connection = HttpConnection(url, HttpClient("test", deadline_s))

    def find_missing_setting(self) -> str | None:
        return None

    def create_connection(self) -> HttpConnection:
        return self._connection


class HostsChannel(HttpChannel):
    """A channel whose addresses are URLs of users. `hanging` is the URL of a server that gets little time."""

    def __init__(self, deadline_s: float = 5.0, hanging: str = "") -> None:
        super().__init__("", deadline_s)
        self._connection.clients[hanging] = HttpClient("test", 0.05)

    def get_host(self, to: str) -> str:
        return urlsplit(to).netloc


class ChannelOfTwo(HttpChannel):
    """A channel with several providers, the first one preferred."""

    def __init__(self, urls: Sequence[str], deadline_s: float = 5.0) -> None:
        super().__init__(urls[0], deadline_s)
        self._providers = []
        for number, url in enumerate(urls):
            connection = HttpConnection(url, HttpClient(f"p{number}", deadline_s))
            self._providers.append(Provider(f"p{number}", lambda connection=connection: connection))

    def list_providers(self) -> Sequence[Provider]:
        return self._providers


def add_channel(monkeypatch: Any, number: int, channel: Channel) -> ChannelRuntime:
    """Add a line for a channel with this contact type, and let deliver.py use it."""
    name = f"test{number}"
    spec = ChannelSpec(number, name, f"test {number}")
    monkeypatch.setitem(CHANNELS, number, spec)
    monkeypatch.setitem(CONTACT_TYPES, number, spec.title)
    runtime = ChannelRuntime(name, channel, "https://tocsin.example.org")
    monkeypatch.setitem(deliver._runtimes, number, runtime)
    return runtime


def add_contact(user: Any, number: int, value: str, delay: int = 0, urgency: int = 1) -> ContactMethod:
    """Add a verified contact of a user, with a notification rule."""
    contact = ContactMethod.create(
        unique_id=make_uuid(),
        user=user,
        name=f"Contact {value}",
        contact_type=number,
        value=value,
        verified_value=value,
        creation_date=CREATED,
    )
    NotificationRule.create(
        unique_id=f"rule-{contact.id}",
        user=user,
        contact=contact,
        start_delay=delay,
        urgency=urgency,
        creation_date=CREATED,
    )
    return contact


def alert_at(world: World, at: datetime, entity: str = "db1", message: str = "Disk full on db1") -> Incident:
    """Process an alert of exactly this time, and return its incident."""
    accept(world, at, message=message, alert_type="critical", entity_id=entity, exactly=True)
    process_lane.run(world.service.id)
    incident: Incident = Incident.select().order_by(Incident.id.desc()).get()
    return incident
