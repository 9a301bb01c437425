"""Incidents and entities as decisions are given to know them: rows to states, in prepared queries."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import peewee

from models.base import store
from models.effects import EntityState, IncidentState
from models.enums import IncidentStatus, Urgency
from models.events import Entity
from models.incidents import Incident, IncidentAssignment, IncidentResponder
from models.prepared import Prepared, among, given
from models.timers import Timer

# Columns of an incident that a state carries, besides its references and its row number.
STATE_COLUMNS = (
    "unique_id", "incident_key", "title", "summary", "creation_date", "chain_started_at", "acknowledged_date",
    "resolved_date", "context_window_start", "context_window_end", "collecting", "escalating", "chain",
    "next_step", "reached", "chain_over", "promised_from", "answered_at", "timeouts_from", "snoozed_at",
    "snoozed_till",
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


def _states(where: Callable[[], Any], more: Callable[[Any], Any] = lambda query: query) -> Prepared:
    """A query for incidents as states; `more` says in which order, or that they are to be locked."""
    names = ("id", "incident_number", "status", "urgency", *STATE_COLUMNS, *STATE_REFERENCES)
    columns = [getattr(Incident, name) for name in names]
    return Prepared(lambda: more(Incident.select(*columns).where(where())))


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


def _walk(where: Callable[[], Any]) -> Prepared:
    """A query that walks over incidents by row number, a page at a time."""
    return _states(
        lambda: where() & (Incident.id > given("after")),
        lambda query: query.order_by(Incident.id).limit(given("limit")),
    )


def _open_of(column: Any) -> Prepared:
    return _walk(lambda: (column == given("row")) & (Incident.status < IncidentStatus.RESOLVED))


_OPEN_OF_NO_SERVICE = _walk(lambda: Incident.service.is_null() & (Incident.status < IncidentStatus.RESOLVED))
_OPEN_OF = {
    "escalation_policy": _open_of(Incident.escalation_policy),
    "service": _open_of(Incident.service),
    "sla": _open_of(Incident.sla),
}
_OVER_WITH_TIMERS = _walk(
    lambda: (
        (Incident.status == IncidentStatus.RESOLVED)
        & Incident.id.in_(Timer.select(Timer.incident).where(Timer.done_at.is_null()))
    )
)


def open_incidents_after(service_row: int | None, row: int, limit: int) -> list[IncidentState]:
    """Open incidents of a service (None: of those that are deleted) beyond a row number, in their order: to
    walk over all of them."""
    if service_row is not None:
        return open_incidents_of("service", service_row, row, limit)
    return [_state_of(found) for found in _OPEN_OF_NO_SERVICE.rows(after=row, limit=limit)]


def open_incidents_of(column: str, named: int, row: int, limit: int) -> list[IncidentState]:
    """Open incidents that have this policy, service or SLA (`column` says which); as above."""
    return [_state_of(found) for found in _OPEN_OF[column].rows(row=named, after=row, limit=limit)]


def over_with_timers_after(row: int, limit: int) -> list[IncidentState]:
    """Resolved incidents for which timers wait all the same; as above."""
    return [_state_of(row) for row in _OVER_WITH_TIMERS.rows(after=row, limit=limit)]


def _of_families() -> Any:
    """One of these, or merged into one of these."""
    merged = Incident.parent.is_null(False) & among(Incident.parent, "rows")
    return among(Incident.id, "rows") | merged


_SERVICES_OF_FAMILIES = Prepared(lambda: Incident.select(Incident.service).where(_of_families()).distinct())


def services_of_families(incident_rows: Collection[int]) -> set[int]:
    """The services of these incidents and of all that are merged into them."""
    return {row for (row,) in _SERVICES_OF_FAMILIES.rows(rows=incident_rows) if row}


def _locked_families(*, skip_locked: bool) -> Prepared:
    return _states(
        _of_families,
        lambda query: store().for_update(query.order_by(Incident.id), skip_locked=skip_locked),
    )


_FAMILIES = _locked_families(skip_locked=False)
_FREE_FAMILIES = _locked_families(skip_locked=True)


def lock_families_of(incident_rows: Collection[int], *, waits: bool = True) -> list[IncidentState]:
    """These incidents and all that are merged into them, locked; without those that somebody else holds
    where it is not to wait."""
    families = _FAMILIES if waits else _FREE_FAMILIES
    return [_state_of(row) for row in families.rows(rows=incident_rows)]


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
