"""Find maintenance that has lasted for more than a week and has no end."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import peewee

from models.domain.enums import ServiceStatus
from models.store.prepared import in_list
from models.tables.events import Entity, Event
from models.tables.services import Integration, Maintenance, Service
from schedules.oncall.shifts import format_local
from web.checks.finding import Finding

LONG = timedelta(days=7)


def find_endless(
    services: Sequence[Service], windows: Sequence[Maintenance], now: datetime
) -> Iterator[Finding]:
    """Find services that are switched to maintenance, and windows that began more than a week ago.

    A service that is switched to maintenance has no end. It is a minor finding until an alert has been
    deferred for a week, since Tocsin does not store when it was switched.
    """
    switched = [
        service
        for service in services
        if service.under_maintenance and service.status != ServiceStatus.DISABLED
    ]
    oldest = _find_oldest_deferred([service.id for service in switched])
    for service in switched:
        since = oldest.get(service.id)
        is_long = since is not None and since <= now - LONG
        waits = f", and an alert waits since {format_local('UTC', since)}" if since is not None else ""
        what = f"the service {service.name} is under maintenance without an end{waits}"
        yield Finding("maintenance", service.team.name, f"service {service.name}", what, not is_long)
    for window in windows:
        if not window.repeat_interval and window.start_time <= now - LONG and window.end_time - now > LONG:
            name = window.name or window.unique_id
            begins, ends = (format_local(window.time_zone, at) for at in (window.start_time, window.end_time))
            what = f"the maintenance {name} is in force since {begins} and ends only at {ends}"
            yield Finding("maintenance", window.team.name, f"maintenance {name}", what)


def _find_oldest_deferred(services: Sequence[int]) -> dict[int, datetime]:
    """Return when the oldest alert arrived that each service still defers."""
    if not services:
        return {}
    query = (
        Entity.select(Integration.service, peewee.fn.MIN(Event.creation_date))
        .join(Integration)
        .switch(Entity)
        .join(Event, on=Event.unique_id == Entity.deferred_alert)
        .where(in_list(Integration.service, services), Entity.deferred_alert.is_null(False))
        .group_by(Integration.service)
    )
    return dict(query.tuples())
