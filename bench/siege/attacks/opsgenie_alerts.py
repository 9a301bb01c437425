"""Questions with the key of an integration about its alerts, as tools for Opsgenie ask them."""

from collections.abc import Iterator

from bench.siege import bodies, rows
from bench.siege.attacks.attack import Attack, Sizes
from bench.siege.attacks.requests import Request, Requests
from bench.siege.tenants import Tenant, create_tenant

LISTS = "lists of alerts, Opsgenie"
LOOK_UPS = "look-ups of alerts, Opsgenie"
# The last page that the list has.
LAST_PAGE = "limit=100&offset=20000"
# About as long as headers may be.
SLASHES = "/a" * 30_000


def build(tenant: Tenant, sizes: Sizes) -> Iterator[Attack]:
    """Create a tenant with many alerts, and yield questions for pages of them and for single ones."""
    url = tenant.base_url
    reader = create_tenant(url, "reader")
    reader.put(reader.opsgenie.source_path, {"has_alert_access": True})
    rows.write_incidents(reader, sizes.listed_alerts, opened=0)
    lists = [_ask(f"?{query}", reader.opsgenie.key) for query in (LAST_PAGE, "query=status:open&limit=100")]
    names = (rows.get_entity_id(1), "x" * 255, f"x{SLASHES}", "requests/x", "x/y?identifierType=alias")
    look_ups = [_ask(name, reader.opsgenie.key) for name in names] + [_ask("x", bodies.UNKNOWN_KEY)]
    yield Requests(LISTS, url, lambda number: lists[number % len(lists)], threads=8, pause_s=0.05)
    yield Requests(LOOK_UPS, url, lambda number: look_ups[number % len(look_ups)], threads=8, pause_s=0.05)


def _ask(rest: str, key: str) -> Request:
    return Request(f"/v2/alerts/{rest}", headers={"Authorization": f"GenieKey {key}"}, method="GET")
