"""Load maintenance windows as facts, in one query for many services."""

from collections.abc import Collection
from datetime import datetime

from models.domain.facts import WindowFacts
from models.load.time_zones import report_unknown_zone
from models.store.prepared import Prepared, bind, in_bound
from models.tables.services import Maintenance, MaintenanceService

_WINDOWS = Prepared(
    lambda: (
        Maintenance.select(
            MaintenanceService.service,
            Maintenance.unique_id,
            Maintenance.name,
            Maintenance.start_time,
            Maintenance.end_time,
            Maintenance.repeat_interval,
            Maintenance.repeat_until,
            Maintenance.time_zone,
        )
        .join(MaintenanceService)
        .where(
            in_bound(MaintenanceService.service, "services"),
            (Maintenance.end_time > bind("since")) | (Maintenance.repeat_interval > 0),
        )
        .order_by(Maintenance.id)
    )
)


def load_windows(services: Collection[int], since: datetime) -> dict[int, tuple[WindowFacts, ...]]:
    """Load the windows of these services that can be active at `since` or later, oldest first.

    Keys are row numbers; services without a window are absent.
    """
    if not services:
        return {}
    found: dict[int, list[WindowFacts]] = {}
    for service, *window in _WINDOWS.rows(services=services, since=since):
        facts = WindowFacts(*window)
        report_unknown_zone("maintenance", facts.unique_id, facts.time_zone)
        found.setdefault(service, []).append(facts)
    return {service: tuple(windows) for service, windows in found.items()}
