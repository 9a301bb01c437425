"""Alerts that are costly to accept or to process."""

import threading
from collections.abc import Iterator

from bench.siege import bodies
from bench.siege.attacks.attack import Attack, Sizes
from bench.siege.attacks.requests import Request, Requests
from bench.siege.tenants import Tenant
from models.domain.enums import WorkState
from models.store.store import connection
from models.tables.events import Receipt

COSTLY_ALERTS = "alerts of 480 KB, costly rules"
LARGE_BODIES = "8 MB bodies to unknown keys"
POLL_S = 0.25


def build(tenant: Tenant, sizes: Sizes) -> Iterator[Attack]:
    """Store costly rules, and yield alerts for them, large groups, and large bodies of a stranger."""
    for rule in bodies.build_rules():
        tenant.post(tenant.generic.rules_path, rule)
    costly = [bodies.build_costly_alert(number) for number in range(2)]
    large = bodies.build_large_body(sizes.large_body)
    unknown = f"/api/integration/prometheus/{bodies.UNKNOWN_KEY}/"
    url = tenant.base_url
    yield Requests(
        COSTLY_ALERTS,
        url,
        lambda number: Request(tenant.generic.path, costly[number % 2]),
        threads=2,
        pause_s=0.5,
        finish=go_on,
    )
    yield Requests(LARGE_BODIES, url, lambda _: Request(unknown, large), threads=8, pause_s=0.5)
    yield Requests(
        f"groups of {sizes.group:,} alerts",
        url,
        lambda number: Request(tenant.prometheus.path, bodies.build_group(number, sizes.group)),
        threads=1,
        pause_s=0.5,
        finish=block_until_processed,
    )


def go_on(trace_id: str, stopping: threading.Event) -> None:
    """Send the next alert after the pause, also if this one is pending."""


def block_until_processed(trace_id: str, stopping: threading.Event) -> None:
    """Return when a receipt is processed, so that one large group is pending at a time."""
    while not stopping.wait(POLL_S):
        with connection():
            found = Receipt.select(Receipt.state).where(Receipt.trace_id == trace_id).scalar()
        if found != WorkState.PENDING:
            return
