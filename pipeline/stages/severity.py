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


def describe_levels(integration: IntegrationFacts) -> str:
    names = [level.name.lower() for level in sorted(LEVELS[integration.create_incidents_for], reverse=True)]
    return " and ".join(names) or "nothing"
