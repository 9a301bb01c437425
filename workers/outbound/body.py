"""Build the body of a delivery: an incident as the contract describes it (section 4.8)."""

from datetime import UTC, datetime

import peewee

from models.domain.enums import ServiceStatus
from models.tables.accounts import User
from models.tables.incidents import Incident
from models.tables.services import Service


def load_incident(row: int) -> dict[str, object] | None:
    """Return the incident as it is now; None if it was deleted."""
    parent = Incident.alias()
    query = (
        Incident.select(Incident, User, parent.unique_id)
        .join(User, peewee.JOIN.LEFT_OUTER, on=Incident.assigned_to)
        .switch(Incident)
        .join(parent, peewee.JOIN.LEFT_OUTER, on=(Incident.parent == parent.id), attr="merged")
        .where(Incident.id == row)
    )
    incident = query.get_or_none()
    if incident is None:
        return None
    merged = getattr(incident, "merged", None)
    return {
        "unique_id": incident.unique_id,
        "incident_number": incident.incident_number,
        "incident_key": incident.incident_key,
        "title": incident.title,
        "summary": incident.summary,
        "status": incident.status,
        "urgency": incident.urgency,
        "creation_date": _format(incident.creation_date),
        "acknowledged_date": _format(incident.acknowledged_date),
        "resolved_date": _format(incident.resolved_date),
        "context_window_start": _format(incident.context_window_start),
        "context_window_end": _format(incident.context_window_end),
        "merged_with": merged.unique_id if merged is not None else None,
        "assigned_to": _build_person(incident.assigned_to),
        "service": _load_service(incident.service_id) if incident.service_id else None,
    }


def _build_person(user: User | None) -> dict[str, str] | None:
    if user is None:
        return None
    names = ("username", "first_name", "last_name", "email")
    return {name: getattr(user, name) for name in names}


# The fields of a service that are columns of its own table (contract section 3.6).
_SERVICE_FIELDS = (
    "unique_id", "name", "summary", "description", "status", "under_maintenance", "auto_resolve_timeout",
    "acknowledgement_timeout_enabled", "acknowledgement_timeout", "collation", "collation_time",
)  # fmt: skip


def _load_service(row: int) -> dict[str, object] | None:
    service = Service.get_or_none(Service.id == row)
    if service is None:
        return None
    references = ("team", "escalation_policy", "sla", "team_priority", "task_template")
    return {
        **{name: getattr(service, name) for name in _SERVICE_FIELDS},
        "status": int(ServiceStatus(service.status)),
        "creation_date": _format(service.creation_date),
        "created_by": service.created_by.username,
        **{name: each.unique_id if (each := getattr(service, name)) else None for name in references},
    }


def _format(at: datetime | None) -> str | None:
    """Return a time as the HTTP interface writes it."""
    return None if at is None else f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
