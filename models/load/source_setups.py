"""Load what the source of an integration needs besides the body of a request."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from models.domain.enums import AlertType
from models.domain.facts import NO_SETUP, SourceFacts
from models.store.prepared import Prepared, in_bound
from models.tables.services import SourceSetup


def load_source_facts(integration: int | None) -> SourceFacts:
    """Return the facts of an integration by its row number; empty ones for a router, which has none."""
    if integration is None:
        return NO_SETUP
    row = SourceSetup.get_or_none(SourceSetup.integration == integration)
    return NO_SETUP if row is None else SourceFacts(row.secret, row.mapping, tuple(row.topics or ()))


@dataclass(frozen=True, slots=True)
class Declared:
    """What the source of an integration declares for the lane: see IntegrationFacts."""

    is_signed: bool = False
    default_level: AlertType | None = None


NOTHING_DECLARED = Declared()


_SETUPS = Prepared(lambda: SourceSetup.select().where(in_bound(SourceSetup.integration, "integrations")))


def load_declared(integrations: Collection[int]) -> Mapping[int, Declared]:
    """Return what is declared for these integrations, by row number; nothing for those without a setup."""
    return {
        row.integration_id: Declared(row.secret is not None or row.topics is not None, row.default_level)
        for row in _SETUPS.load(SourceSetup, integrations=integrations)
    }
