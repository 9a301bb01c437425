"""Incidents, schedules and people who look at them."""

from datetime import UTC, datetime

import pytest

from models.tables.incidents import Incident
from tests.support.alerts import accept
from workers.alerts import process_lane


@pytest.fixture
def open_incident(world):
    """open_incident("Disk full"): open an incident with an alert, and return it."""

    def open_incident(message: str = "Disk full on db1", **alert) -> Incident:
        accept(
            world, datetime.now(UTC), message=message, alert_type="critical", entity_id=message[:100], **alert
        )
        process_lane.run(world.service.id)
        return Incident.select().order_by(Incident.id.desc()).get()

    return open_incident
