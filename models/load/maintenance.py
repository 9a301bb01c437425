"""Load maintenance windows as facts, in one query for many services."""

from collections.abc import Collection
from datetime import datetime

from models.domain.facts import WindowFacts
from models.load.time_zones import report_unknown_zone
from models.store.prepared import in_list
from models.tables.maintenance import Maintenance, MaintenanceService


def load_windows(services: Collection[int], since: datetime) -> dict[int, tuple[WindowFacts, ...]]:
    """Load the windows of these services that can be active at `since` or later, oldest first.

    Keys are row numbers; services without a window are absent.
    """
    if not services:
        return {}
    query = (
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
            in_list(MaintenanceService.service, services),
            (Maintenance.end_time > since) | (Maintenance.repeat_interval > 0),
        )
        .order_by(Maintenance.id)
    )
    found: dict[int, list[WindowFacts]] = {}
    for service, *window in query.tuples():
        facts = WindowFacts(*window)
        report_unknown_zone("maintenance", facts.unique_id, facts.time_zone)
        found.setdefault(service, []).append(facts)
    return {service: tuple(windows) for service, windows in found.items()}
