"""Alerts in maintenance windows."""

from datetime import timedelta

from models.reports import alert_trace
from models.tables.accounts import bump_version
from models.tables.events import Entity
from models.tables.services import Service
from workers.alerts import process_lane

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


DISK = "[Checkout] #1 Disk full on db1 (critical)"


NEW = "The entity has no open incident."


def set_service(world, **columns):
    Service.update(columns).where(Service.id == world.service.id).execute()
    bump_version(world.account.id)


def get_stage_reasons(trace_id):
    """Return stage and reason from the trace of a receipt's only alert, from dedupe on."""
    (alert,) = alert_trace.build_trace(alert_trace.find_receipt(trace_id))["alerts"]
    steps = [(step["stage"], step["reason"]) for step in alert["stages"]]
    return steps[[stage for stage, _ in steps].index("dedupe") :]


def use_segments(timeline, monkeypatch, parts):
    """Process the lane with a pipeline of these parts."""
    service = timeline.world.service.id
    monkeypatch.setattr(process_lane, "_segments", parts)
    monkeypatch.setattr(
        timeline,
        "_run_lanes",
        lambda: [process_lane.run(service, part.name, now=timeline.now) for part in parts],
    )


def deferred_alert():
    return [entity.deferred_alert for entity in Entity.select().order_by(Entity.id) if entity.deferred_alert]
