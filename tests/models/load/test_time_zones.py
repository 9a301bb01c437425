"""A stored time zone that this host does not know is logged when it is loaded, once in a process."""

from datetime import timedelta

import pytest
import structlog

from models.load.maintenance import load_windows
from models.load.schedules import load_schedule_facts
from models.store.ids import make_uuid
from models.tables.services import Maintenance, MaintenanceService
from tests.support.schedules import stored


def load_schedule(world, now, zone):
    row = stored.schedule(world.team, stored.layer(world.alice), time_zone=zone)
    return row, lambda: load_schedule_facts([row], now)


def load_maintenance(world, now, zone):
    row = Maintenance.create(
        unique_id=make_uuid(), team=world.team, start_time=now, end_time=now + timedelta(hours=1),
        creation_date=now, time_zone=zone,
    )  # fmt: skip
    MaintenanceService.create(unique_id=make_uuid(), maintenance=row, service=world.service)
    return row, lambda: load_windows([world.service.id], now)


@pytest.mark.parametrize(
    ("prepare", "kind"), [(load_schedule, "schedule"), (load_maintenance, "maintenance")]
)
@pytest.mark.parametrize(
    ("zone", "is_logged"),
    [("Europe/Atlantis", True), ("Europe", True), ("../UTC", True), ("Europe/Berlin", False), ("UTC", False)],
)
def test_an_unknown_time_zone_is_logged_once(world, now, prepare, kind, zone, is_logged):
    row, load = prepare(world, now, zone)
    with structlog.testing.capture_logs() as logs:
        load()
        load()

    assert logs == [
        {
            "event": "time zone is unknown, using UTC", "log_level": "warning", "kind": kind,
            "unique_id": row.unique_id, "time_zone": zone,
        }
    ] * is_logged  # fmt: skip
