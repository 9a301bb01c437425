"""Alerts for contacts that take long: a mail server that is slow, and a host that never answers a webhook."""

import json
import socket
import weakref
from collections.abc import Iterator, Sequence

from bench.servers.sink import SLOW_DOMAIN
from bench.siege.attacks.alerts import go_on
from bench.siege.attacks.attack import Attack, Sizes
from bench.siege.attacks.requests import Request, Requests
from bench.siege.bodies import build_alert
from bench.siege.tenants import Tenant, create_tenant
from models.domain.enums import ContactType, OtherContactType, Urgency
from models.store.ids import make_uuid
from models.store.store import connection, store
from models.tables.accounts import User
from models.tables.users import ContactMethod, NotificationRule

SLOW_MAIL = "mail to five contacts at a slow domain"
SILENT_HOST = "webhooks of five contacts at a host that never answers"
CONTACTS = 5
# Five messages a second would need 12 connections to the slow domain.
PAUSE_S = 1.0


def build(tenant: Tenant, sizes: Sizes) -> Iterator[Attack]:
    """Create a tenant for each, so that the messages of other attacks do not wait behind these."""
    mails = [f"{number}@{SLOW_DOMAIN}" for number in range(CONTACTS)]
    yield _build_attack(tenant.base_url, SLOW_MAIL, "patient", ContactType.EMAIL, mails)
    # The system completes the connections, and nobody reads them.
    host = socket.create_server(("127.0.0.1", 0), backlog=1_000)
    urls = [f"http://127.0.0.1:{host.getsockname()[1]}/{number}" for number in range(CONTACTS)]
    attack = _build_attack(tenant.base_url, SILENT_HOST, "stubborn", OtherContactType.WEBHOOK, urls)
    weakref.finalize(attack, host.close)
    yield attack


def _build_attack(base_url: str, name: str, person: str, kind: int, addresses: Sequence[str]) -> Requests:
    path = create_tenant(base_url, person).generic.path
    add_contacts(f"{person}@example.org", kind, addresses)

    def build_request(number: int) -> Request:
        return Request(path, json.dumps(build_alert(f"{person}-{number}", {})).encode())

    return Requests(name, base_url, build_request, threads=1, pause_s=PAUSE_S, finish=go_on)


def add_contacts(email: str, kind: int, addresses: Sequence[str]) -> None:
    """Let the person with this address be notified at once at these contacts, as verified."""
    with connection(), store().write_transaction():
        user, now = User.get(User.email == email), store().now()
        for address in addresses:
            contact = ContactMethod.create(
                unique_id=make_uuid(), user=user, name=address, contact_type=kind,
                value=address, verified_value=address, creation_date=now,
            )  # fmt: skip
            NotificationRule.create(
                unique_id=make_uuid(), user=user, contact=contact, start_delay=0, urgency=Urgency.HIGH,
                creation_date=now,
            )  # fmt: skip
