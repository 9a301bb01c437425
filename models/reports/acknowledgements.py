"""Find who acknowledged incidents, and when."""

from collections.abc import Collection
from datetime import datetime

import peewee

from models.store.prepared import in_list
from models.tables.incidents import IncidentLog


def find_acknowledgements(incidents: Collection[int]) -> dict[tuple[int, int], datetime]:
    """Return the first acknowledgement by each person, by the row numbers of incident and person."""
    query = (
        IncidentLog.select(IncidentLog.incident, IncidentLog.user, peewee.fn.MIN(IncidentLog.at))
        .where(
            in_list(IncidentLog.incident, incidents),
            IncidentLog.what == "acknowledged",
            IncidentLog.user.is_null(False),
        )
        .group_by(IncidentLog.incident, IncidentLog.user)
    )
    return {(incident, user): at for incident, user, at in query.tuples()}
