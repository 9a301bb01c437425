"""What attacks: a file for each kind of input. Adding one is a file and a line of BUILDERS.

A builder gets the tenant that attacks and the sizes, stores what its attacks need, and yields them. All
attacks run beside another tenant, first each by itself, then all at the same time (bench/siege/run.py).
"""

from collections.abc import Callable, Iterable, Sequence

from bench.siege.attacks import (
    alerts,
    forms,
    history,
    open_connections,
    open_pages,
    opsgenie_alerts,
    pages,
    questions,
    silent_mail,
    slow_names,
    slow_targets,
    swap_links,
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
    slow_names.build,
    pages.build,
    open_pages.build,
    opsgenie_alerts.build,
    swap_links.build,
    history.build,
)


def build_attacks(tenant: Tenant, sizes: Sizes, only: Sequence[str] = ()) -> list[Attack]:
    """Build the attacks of a tenant whose names contain one of these texts; without texts, all."""
    attacks = [attack for build in BUILDERS for attack in build(tenant, sizes)]
    return [each for each in attacks if not only or any(text in each.name for text in only)]
