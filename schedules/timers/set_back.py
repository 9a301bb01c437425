"""Correct the times of an incident that was written while the clock was ahead."""

from datetime import datetime
from typing import Any

from models.domain.effects import IncidentState

# The times from which the due times of timers count. The creation and a snooze are corrected apart.
STARTS = (
    "run_started_at",
    "acknowledged_date",
    "sla_started_at",
    "sla_acknowledged_at",
    "timeouts_started_at",
)


def correct_times(incident: IncidentState, now: datetime) -> IncidentState:
    """Return the incident with all times from which something counts limited to the present.

    The window of collation and the end of a snooze keep their distances from these times.
    """
    changes: dict[str, Any] = {
        name: now for name in STARTS if (moment := getattr(incident, name)) is not None and moment > now
    }
    if incident.creation_date > now:
        ahead = incident.creation_date - now
        changes["creation_date"] = now
        for name in ("context_window_start", "context_window_end"):
            moment = getattr(incident, name)
            changes[name] = None if moment is None else moment - ahead
    if incident.snoozed_at is not None and incident.snoozed_till is not None and incident.snoozed_at > now:
        changes["snoozed_till"] = incident.snoozed_till - (incident.snoozed_at - now)
        changes["snoozed_at"] = now
    return incident.with_changes(**changes)
