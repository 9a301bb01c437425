"""What attacks: a file for each kind of input. Adding one is a file and a line of BUILDERS.

A builder gets the tenant that attacks and the sizes, stores what its attacks need, and yields them. All
attacks run beside another tenant, first each by itself, then all at the same time (bench/siege/run.py).
"""

from collections.abc import Callable, Iterable

from bench.siege.attacks import (
    alerts,
    forms,
    open_connections,
    pages,
    questions,
    silent_mail,
    slow_targets,
    unsigned_messages,
    wrong_passwords,
)
from bench.siege.attacks.attack import Attack, Sizes
from bench.siege.tenants import Tenant

BUILDERS: tuple[Callable[[Tenant, Sizes], Iterable[Attack]], ...] = (
    alerts.build,
    forms.build,
    questions.build,
    wrong_passwords.build,
    unsigned_messages.build,
    open_connections.build,
    silent_mail.build,
    slow_targets.build,
    pages.build,
)


def build_attacks(tenant: Tenant, sizes: Sizes) -> list[Attack]:
    """Build all attacks of a tenant."""
    return [attack for build in BUILDERS for attack in build(tenant, sizes)]
