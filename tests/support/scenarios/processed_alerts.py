"""Alerts that are accepted and processed."""

from models.tables.events import Event
from tests.support.alerts import accept
from workers.alerts import process_lane


def process_alert(world, at, entity="db1", level="critical", **more):
    """Accept and process one alert."""
    accept(world, at, message=more.pop("message", "Disk full"), alert_type=level, entity_id=entity, **more)
    process_lane.run(world.service.id)
    return Event.select().order_by(Event.id.desc()).get()
