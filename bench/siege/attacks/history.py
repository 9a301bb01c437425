"""The history of the configuration: a loop of changes and their undoing, and filters over many changes."""

import json
from collections.abc import Iterator

from bench.siege import rows
from bench.siege.attacks.attack import Attack, Sizes
from bench.siege.attacks.requests import Request, Requests
from bench.siege.tenants import Tenant, create_tenant
from models.store.store import connection
from models.tables.changes import Change
from models.tables.services import Integration, Service
from models.tables.teams import Team

UNDO_LOOP = "changes, each undone"
FILTERS = "filters of the history"
# From a filter that matches every change to one that matches none, and pages that only a scan would find.
QUERIES = (
    "", "kind=service", "way=interface&action=changed", "from=2000-01-01&to=2100-01-01",
    "page=400&page_size=100", "kind=team&from=2100-01-01", "object=x", "kind=service&page=200&page_size=100",
)  # fmt: skip


def build(tenant: Tenant, sizes: Sizes) -> Iterator[Attack]:
    """Create a tenant with many changes of one object, and yield a loop of undoing and questions."""
    url = tenant.base_url
    editor, historian = create_tenant(url, "editor"), create_tenant(url, "historian")
    with connection():
        service = _find_service(editor)
        path = f"/api/account/teams/{service.team.unique_id}/services/{service.unique_id}/"
        long_known = _find_service(historian)
        rows.write_changes(long_known, sizes.changes)
    asked = [
        Request(f"/api/tocsin/changes/?{query}", headers=historian.headers, method="GET") for query in QUERIES
    ]
    deletion = f"/api/tocsin/objects/{long_known.unique_id}/deletion/"
    asked.append(Request(deletion, headers=historian.headers, method="GET"))
    loop = Requests(UNDO_LOOP, url, _Loop(editor, path, service.unique_id).build, threads=8, pause_s=0.05)
    yield loop
    yield Requests(FILTERS, url, lambda number: asked[number % len(asked)], threads=8, pause_s=0.05)


def _find_service(tenant: Tenant) -> Service:
    query = Service.select(Service, Team).join(Team).switch(Service).join(Integration)
    service: Service = query.where(Integration.unique_id == tenant.generic.unique_id).get()
    return service


class _Loop:
    """Changes a service, undoes the last change, undoes the undo, and so on."""

    def __init__(self, tenant: Tenant, path: str, service: str) -> None:
        self._tenant, self._path, self._service = tenant, path, service

    def build(self, number: int) -> Request:
        last = self._find_last() if number % 3 else None
        if last is None:
            body = json.dumps({"summary": f"{number} {'x' * 1_000}"}).encode()
            return Request(self._path, body, self._tenant.headers, "PATCH")
        return Request(f"/api/tocsin/changes/{last}/undo/", headers=self._tenant.headers)

    def _find_last(self) -> str | None:
        with connection():
            own = Change.select(Change.unique_id).where(Change.object_id == self._service)
            last: str | None = own.order_by(Change.id.desc()).limit(1).scalar()
        return last
