"""Alerts for contacts whose mail server is slow: each mail holds a connection to the relay for 2.5 s."""

import json
from collections.abc import Iterator

from bench.servers.sink import SLOW_DOMAIN
from bench.siege.attacks.alerts import go_on
from bench.siege.attacks.attack import Attack, Sizes
from bench.siege.attacks.requests import Request, Requests
from bench.siege.bodies import build_alert
from bench.siege.tenants import Tenant, create_tenant
from models.domain.enums import ContactType, Urgency
from models.store.ids import make_uuid
from models.store.store import connection, store
from models.tables.accounts import User
from models.tables.users import ContactMethod, NotificationRule

SLOW_MAIL = "mail to five contacts at a slow domain"
CONTACTS = 5
# Five mails a second would need 12 connections.
PAUSE_S = 1.0


def build(tenant: Tenant, sizes: Sizes) -> Iterator[Attack]:
    """Create a tenant of its own, so that the mails of the other attacks do not wait behind these."""
    patient = create_tenant(tenant.base_url, "patient")
    _add_contacts("patient@example.org")

    def build_request(number: int) -> Request:
        return Request(patient.generic.path, json.dumps(build_alert(f"slow-{number}", {})).encode())

    yield Requests(SLOW_MAIL, tenant.base_url, build_request, threads=1, pause_s=PAUSE_S, finish=go_on)


def _add_contacts(email: str) -> None:
    """Let the person with this address be notified at once at contacts of the slow domain, as verified."""
    with connection(), store().write_transaction():
        user, now = User.get(User.email == email), store().now()
        for number in range(CONTACTS):
            address = f"{number}@{SLOW_DOMAIN}"
            contact = ContactMethod.create(
                unique_id=make_uuid(), user=user, name=address, contact_type=ContactType.EMAIL,
                value=address, verified_value=address, creation_date=now,
            )  # fmt: skip
            NotificationRule.create(
                unique_id=make_uuid(), user=user, contact=contact, start_delay=0, urgency=Urgency.HIGH,
                creation_date=now,
            )  # fmt: skip
