"""Connections that stay open without a complete request."""

from collections.abc import Iterator

from bench.siege.attacks.attack import Attack, Sizes
from bench.siege.attacks.held_connections import HeldConnections
from bench.siege.tenants import Tenant


def build(tenant: Tenant, sizes: Sizes) -> Iterator[Attack]:
    """Yield bodies whose rest never arrives, silent connections, and headers without an end."""
    head = f"POST {tenant.generic.path} HTTP/1.1\r\nHost: siege\r\n".encode()
    unfinished = [
        head + b"Content-Length: 100\r\n\r\n{",
        head + b"Content-Length: 500000\r\n\r\n" + b" " * 70_000,
    ]
    yield HeldConnections(
        f"{sizes.unfinished} unfinished bodies", tenant.base_url, sizes.unfinished, unfinished, per_turn=64
    )
    yield HeldConnections(
        f"{sizes.idle_connections:,} idle connections",
        tenant.base_url,
        sizes.idle_connections,
        [b""],
        per_turn=50,
    )
    yield HeldConnections(
        f"{sizes.dripping_connections:,} connections with a byte of a header every 0.7 s",
        tenant.base_url,
        sizes.dripping_connections,
        [b"GET / HTTP/1.1\r\nX: "],
        per_turn=500,
        drip_s=0.7,
    )
