"""Forms that are costly to read: escaped bytes, JSON in each field, too many fields and parts."""

from collections.abc import Iterator

from bench.siege.attacks.alerts import go_on
from bench.siege.attacks.attack import Attack, Sizes
from bench.siege.attacks.requests import Request, Requests
from bench.siege.tenants import Tenant

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
PARTS = {"Content-Type": "multipart/form-data; boundary=x"}
# Below the limit of a body in the generic form.
BYTES = 480 * 1024
FIELDS = 90


def build(tenant: Tenant, sizes: Sizes) -> Iterator[Attack]:
    """Yield forms and queries that are alerts and cost much, and forms that are refused."""
    tenant.put(tenant.generic.source_path, {"accepts_get": True})
    requests = [*build_requests(tenant.generic.path), *build_queries(tenant.generic.path)]
    yield Requests(
        "forms of 480 KB, forms with too many fields, and queries",
        tenant.base_url,
        lambda number: requests[number % len(requests)],
        threads=2,
        pause_s=0.1,
        finish=go_on,
    )


def build_requests(path: str) -> list[Request]:
    """Return one request for each kind of form."""
    escaped = b"message=m&summary=" + b"%41" * (BYTES // 3)
    per_field = BYTES // FIELDS
    nested = b"&".join(b"f%d=" % number + b"[" * per_field for number in range(FIELDS))
    part = b'--x\r\nContent-Disposition: form-data; name="message"\r\n\r\nm\r\n'
    return [
        Request(path, escaped, FORM),
        Request(path, b"message=m&" + nested, FORM),
        Request(path, b"message=m" + b"&a" * (BYTES // 2), FORM),
        Request(path, part + b"--x\r\n" * (BYTES // 5), PARTS),
        Request(path, part + b"; a=" * (BYTES // 4) + b"\r\n--x--\r\n", PARTS),
    ]


def build_queries(path: str) -> list[Request]:
    """Return requests whose fields are in the query: as many as are allowed, and one with escaped bytes."""
    many = "&".join(f"f{number}=%5B%5B" for number in range(FIELDS))
    return [
        Request(f"{path}?message=m&{many}", method="GET"),
        Request(f"{path}?message=m&summary={'%41' * 2_000}", method="GET"),
    ]
