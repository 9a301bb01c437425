"""Incidents and entities as decisions are given to know them: rows to states, in prepared queries."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import peewee

from models.effects import EntityState, IncidentState
from models.enums import IncidentStatus, Urgency
from models.events import Entity
from models.incidents import Incident, IncidentAssignment, IncidentResponder
from models.prepared import Prepared, among, given

# Columns of an incident that a state carries, besides its references and its row number.
STATE_COLUMNS = (
    "unique_id", "incident_key", "title", "summary", "creation_date", "chain_started_at", "acknowledged_date",
    "resolved_date", "context_window_start", "context_window_end", "collecting", "escalating", "chain",
    "next_step", "reached", "promised_from", "answered_at", "snoozed_at", "snoozed_till",
)  # fmt: skip
STATE_REFERENCES = (
    "account",
    "team",
    "service",
    "assigned_to",
    "escalation_policy",
    "sla",
    "team_priority",
    "parent",
)


def incident_state(row: Incident) -> IncidentState:
    values: dict[str, Any] = {name: getattr(row, name) for name in STATE_COLUMNS}
    references: dict[str, Any] = {name: getattr(row, f"{name}_id") for name in STATE_REFERENCES}
    return IncidentState(
        status=IncidentStatus(row.status),
        urgency=Urgency(row.urgency),
        number=row.incident_number,
        row=row.id,
        **values,
        **references,
    )


@dataclass(frozen=True, slots=True)
class LastIncident:
    """The last incident of an entity that none holds now; `ended_at` is when it was over."""

    row: int
    unique_id: str
    ended_at: datetime


def _entities() -> Any:
    last = Incident.alias()
    return (
        Entity.select(
            Entity.integration,
            Entity.entity_id,
            Entity.firing,
            Entity.incident,
            Entity.resolved_source_at,
            Entity.resolved_at,
            Entity.kept_back,
            last.id,
            last.unique_id,
            last.resolved_date,
            last.creation_date,
        )
        .join(last, peewee.JOIN.LEFT_OUTER, on=Entity.last_incident == last.id)
        .where(among(Entity.integration, "integrations"), among(Entity.entity_id, "names"))
    )


_ENTITIES = Prepared(_entities)


def entity_states(
    keys: Collection[tuple[int, str]],
) -> tuple[list[EntityState], list[LastIncident]]:
    """The entities of these keys that exist, each with the incident that holds it; and the last incidents
    of those that are held by none."""
    if not keys:
        return [], []
    integrations, names = {integration for integration, _ in keys}, {name for _, name in keys}
    entities, ended = [], {}
    for row in _ENTITIES.rows(integrations=integrations, names=names):
        integration, name, firing, holder, said_at, resolved_at, kept_back, last, unique_id, over, begun = row
        # Whatever holds an entity is also the last that did.
        held = unique_id if holder is not None else None
        entities.append(
            EntityState(integration, name, firing, held, said_at, resolved_at, unique_id, kept_back)
        )
        if last is not None and held is None:
            ended[last] = LastIncident(last, unique_id, over or begun)
    return entities, list(ended.values())


def _states(where: Callable[[], Any]) -> Prepared:
    """A query for incidents as states."""
    names = ("id", "incident_number", "status", "urgency", *STATE_COLUMNS, *STATE_REFERENCES)
    return Prepared(lambda: Incident.select(*(getattr(Incident, name) for name in names)).where(where()))


_OPEN_ONES = _states(
    lambda: among(Incident.unique_id, "unique_ids") & (Incident.status < IncidentStatus.RESOLVED)
)
_COLLECTING = _states(
    lambda: (
        (Incident.service == given("service"))
        & (Incident.status < IncidentStatus.RESOLVED)
        & Incident.collecting
    )
)


def open_incidents(
    service_row: int, unique_ids: Collection[str], *, collecting: bool = True
) -> list[IncidentState]:
    """The open incidents among these, and the one that the service collects into, if asked for.

    A query for each, so that each has an index of its own, however many incidents of the service are open.
    """
    rows = _OPEN_ONES.rows(unique_ids=unique_ids) if unique_ids else []
    if collecting:
        rows += _COLLECTING.rows(service=service_row)
    return [_state_of(row) for row in {row[0]: row for row in rows}.values()]


def _state_of(row: tuple[Any, ...]) -> IncidentState:
    found, number, status, urgency, *rest = row
    values = dict(zip((*STATE_COLUMNS, *STATE_REFERENCES), rest, strict=True))
    return IncidentState(
        status=IncidentStatus(status), urgency=Urgency(urgency), number=number, row=found, **values
    )


_CHILDREN = _states(
    lambda: (
        Incident.parent.is_null(False)
        & among(Incident.parent, "parents")
        & (Incident.status < IncidentStatus.RESOLVED)
    )
)


def open_children(incidents: Iterable[IncidentState]) -> list[IncidentState]:
    """The open incidents that are merged into one of these."""
    rows = [incident.row for incident in incidents if incident.parent is None]
    return [_state_of(row) for row in _CHILDREN.rows(parents=rows)] if rows else []


def open_incidents_after(service_row: int, row: int, limit: int) -> list[IncidentState]:
    """A locked service's open incidents beyond a row number, in their order: to walk over all of them."""
    query = Incident.select().where(
        Incident.service == service_row, Incident.status < IncidentStatus.RESOLVED, Incident.id > row
    )
    return [incident_state(found) for found in query.order_by(Incident.id).limit(limit)]


_FIRING = Prepared(
    lambda: (
        Entity.select(Entity.incident, peewee.fn.COUNT(Entity.id))
        .where(among(Entity.incident, "incidents"), Entity.firing)
        .group_by(Entity.incident)
    )
)


def firing_counts(incidents: Iterable[IncidentState]) -> dict[str, int]:
    """How many entities fire for each incident."""
    rows = {incident.row: incident.unique_id for incident in incidents}
    if not rows:
        return {}
    return {rows[incident]: count for incident, count in _FIRING.rows(incidents=list(rows))}


_CALLED = Prepared(
    lambda: IncidentResponder.select(
        IncidentResponder.incident, IncidentResponder.user, IncidentResponder.escalation_policy
    ).where(among(IncidentResponder.incident, "incidents"))
)
_ASSIGNED = Prepared(
    lambda: IncidentAssignment.select(
        IncidentAssignment.incident, IncidentAssignment.role, IncidentAssignment.user
    ).where(among(IncidentAssignment.incident, "incidents"))
)


def called_responders(
    incidents: Iterable[IncidentState],
) -> set[tuple[str, int | None, int | None]]:
    """Who was asked to help with these incidents: the incident, and the row of a person or of a policy."""
    rows = {incident.row: incident.unique_id for incident in incidents}
    found = _CALLED.rows(incidents=list(rows)) if rows else []
    return {(rows[incident], user, policy) for incident, user, policy in found}


def assigned_roles(incidents: Iterable[IncidentState]) -> dict[tuple[str, int], int]:
    """Who has which role in these incidents, by the incident and the role's row."""
    rows = {incident.row: incident.unique_id for incident in incidents}
    found = _ASSIGNED.rows(incidents=list(rows)) if rows else []
    return {(rows[incident], role): user for incident, role, user in found}
