"""Questions of a tenant that are costly to answer."""

from collections.abc import Iterator

from bench.siege import bodies
from bench.siege.attacks.attack import Attack, Sizes
from bench.siege.attacks.requests import Request, Requests
from bench.siege.tenants import Tenant

TRY = "rules/try"
SIMULATE = "simulate"


def build(tenant: Tenant, sizes: Sizes) -> Iterator[Attack]:
    """Yield a costly draft of a rule, and the simulation of a costly alert."""
    question = Request("/api/tocsin/rules/try/", bodies.build_question(), tenant.headers)
    simulation = bodies.build_simulation(tenant.generic.unique_id)
    simulated = Request("/api/tocsin/simulate/", simulation, tenant.headers)
    yield Requests(TRY, tenant.base_url, lambda _: question, threads=4, pause_s=0.2)
    yield Requests(SIMULATE, tenant.base_url, lambda _: simulated, threads=4, pause_s=0.2)
