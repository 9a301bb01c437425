"""The levels for which an integration opens incidents: `create_incidents_for`, contract section 3.6."""

from models.domain.enums import AlertType
from models.domain.facts import IntegrationFacts

LEVELS: dict[int, frozenset[AlertType]] = {
    0: frozenset(),
    1: frozenset({AlertType.CRITICAL}),
    2: frozenset({AlertType.CRITICAL, AlertType.ERROR}),
    3: frozenset({AlertType.CRITICAL, AlertType.ERROR, AlertType.WARNING}),
}


def opens_incident(integration: IntegrationFacts, level: AlertType) -> bool:
    return level in LEVELS[integration.create_incidents_for]


def list_levels(integration: IntegrationFacts) -> tuple[str, ...]:
    """Return the names of the levels, the highest first."""
    levels = sorted(LEVELS[integration.create_incidents_for], reverse=True)
    return tuple(level.name.lower() for level in levels)
