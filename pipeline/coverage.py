"""Which levels an integration makes incidents of: `create_incidents_for`, contract section 3.6."""

from models.enums import AlertType
from models.facts import IntegrationFacts

COVERED: dict[int, frozenset[AlertType]] = {
    0: frozenset(),
    1: frozenset({AlertType.CRITICAL}),
    2: frozenset({AlertType.CRITICAL, AlertType.ERROR}),
    3: frozenset({AlertType.CRITICAL, AlertType.ERROR, AlertType.WARNING}),
}


def covers(integration: IntegrationFacts, level: AlertType) -> bool:
    return level in COVERED[integration.create_incidents_for]


def described(integration: IntegrationFacts) -> str:
    names = [level.name.lower() for level in sorted(COVERED[integration.create_incidents_for], reverse=True)]
    return " and ".join(names) or "nothing"
