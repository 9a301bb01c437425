"""Incidents and mean times by day."""

from collections.abc import Sequence
from datetime import datetime

import peewee

from models.reports import incident_metrics
from models.reports.incident_metrics import Metrics
from models.tables.incidents import Incident


def measure_by_day(incidents: "peewee.ModelSelect[Incident]", starts: Sequence[datetime]) -> list[Metrics]:
    """Return the metrics of each day. `starts` are the starts of the days, and the end of the last one."""
    day_number = peewee.Case(
        None, [(Incident.creation_date < end, place) for place, end in enumerate(starts[1:])], -1
    )
    found = incident_metrics.measure(incidents, day_number)
    return [found.get(place, Metrics()) for place in range(len(starts) - 1)]
