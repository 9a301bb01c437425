"""Load incidents and entities as states for decisions, by prepared queries."""

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from typing import Any

import peewee

from models.domain.effects import EntityState, IncidentState
from models.domain.enums import IncidentStatus, Urgency
from models.domain.facts import PastIncident
from models.domain.values import list_fields
from models.store.peewee_internals import get_fields
from models.store.prepared import Prepared, bind, in_bound, in_bound_pairs, on_found_rows
from models.store.store import store
from models.tables.events import Entity
from models.tables.incidents import Incident, IncidentAssignment, IncidentGroup, IncidentResponder
from models.tables.timers import Timer

# The columns that a state has under the same name: all of its fields but the row number and the number.
STATE_COLUMNS = tuple(name for name in list_fields(IncidentState) if name in get_fields(Incident))


def _select_entities() -> peewee.ModelSelect:
    last = Incident.alias()
    return (
        Entity.select(
            Entity.integration,
            Entity.entity_id,
            Entity.firing,
            Entity.incident,
            Entity.resolved_source_at,
            Entity.resolved_at,
            Entity.deferred_alert,
            Entity.expires_at,
            Entity.repeats_at,
            last.id,
            last.unique_id,
            last.resolved_date,
            last.creation_date,
        )
        .join(last, peewee.JOIN.LEFT_OUTER, on=Entity.last_incident == last.id)
        .where(in_bound_pairs((Entity.integration, "integrations"), (Entity.entity_id, "names"), "text"))
    )


_ENTITIES = Prepared(_select_entities)


def load_entities(
    keys: Collection[tuple[int, str]],
) -> tuple[list[EntityState], dict[str, PastIncident]]:
    """Load the stored entities of these keys, and the last incidents of entities that no incident holds.

    The incidents are by unique_id. The result can contain more entities: other combinations of the
    integrations and entity_ids in the keys.
    """
    if not keys:
        return [], {}
    integrations, names = zip(*keys, strict=True)
    entities: list[EntityState] = []
    ended: dict[str, PastIncident] = {}
    for row in _ENTITIES.rows(integrations=integrations, names=names):
        (
            integration,
            name,
            firing,
            held_row,
            source_at,
            resolved_at,
            deferred_alert,
            expires_at,
            repeats_at,
            last,
            unique_id,
            resolved_date,
            created,
        ) = row
        # The incident that holds an entity is also its last incident.
        holder_id = unique_id if held_row is not None else None
        entities.append(
            EntityState(
                integration,
                name,
                firing,
                holder_id,
                source_at,
                resolved_at,
                unique_id,
                deferred_alert,
                expires_at,
                repeats_at,
            )
        )
        if last is not None and holder_id is None:
            ended[unique_id] = PastIncident(last, resolved_date or created)
    return entities, ended


def _prepare_states(
    where: Callable[[], peewee.Expression],
    refine: Callable[[peewee.ModelSelect], peewee.ModelSelect] = lambda query: query,
) -> Prepared:
    """Prepare a query for incidents as states. `refine` adds an order, a limit or a lock."""
    columns = [getattr(Incident, name) for name in ("id", "incident_number", *STATE_COLUMNS)]
    return Prepared(lambda: refine(Incident.select(*columns).where(where())))


def _is_open() -> peewee.Expression:
    condition: peewee.Expression = Incident.status < IncidentStatus.RESOLVED
    return condition


_OPEN_BY_ID = _prepare_states(lambda: in_bound(Incident.unique_id, "unique_ids") & on_found_rows(_is_open()))
_COLLECTING = _prepare_states(
    lambda: in_bound(Incident.service, "services") & _is_open() & Incident.collecting
)


def load_open_incidents(
    unique_ids: Collection[str], collecting_of: Collection[int] = ()
) -> list[IncidentState]:
    """Load the open incidents with these unique_ids, and the collecting incidents of some services (rows).

    There are two queries, so that each uses its own index, even if a service has many open incidents.
    """
    rows = _OPEN_BY_ID.rows(unique_ids=unique_ids) if unique_ids else []
    if collecting_of:
        rows += _COLLECTING.rows(services=collecting_of)
    return [_build_state(row) for row in {row[0]: row for row in rows}.values()]


def _build_state(row: tuple[Any, ...]) -> IncidentState:
    found, number, *rest = row
    values = dict(zip(STATE_COLUMNS, rest, strict=True))
    values["status"], values["urgency"] = IncidentStatus(values["status"]), Urgency(values["urgency"])
    return IncidentState(number=number, row=found, **values)


_BY_ROW = _prepare_states(lambda: in_bound(Incident.id, "rows"))


def load_states(incident_rows: Collection[int]) -> list[IncidentState]:
    """Load these incidents without a lock, in no order: for messages, not for decisions."""
    return [_build_state(row) for row in _BY_ROW.rows(rows=incident_rows)]


# The longest time window of a grouping policy (contract section 3.12).
MAX_GROUP_WINDOW = timedelta(minutes=20)

_GROUPS = Prepared(
    lambda: (
        IncidentGroup.select(IncidentGroup.digest, Incident.unique_id)
        .join(Incident)
        .where(
            in_bound(IncidentGroup.digest, "digests"),
            IncidentGroup.created_at >= bind("since"),
            on_found_rows(_is_open()),
        )
    )
)


def load_groups(digests: Collection[str], at: datetime) -> list[tuple[str, str]]:
    """Load the open incidents that alerts with these values opened shortly before `at`: pairs of a digest and
    a unique_id.
    """
    if not digests:
        return []
    return [
        (digest, incident) for digest, incident in _GROUPS.rows(digests=digests, since=at - MAX_GROUP_WINDOW)
    ]


_CHILDREN = _prepare_states(
    lambda: Incident.parent.is_null(False) & in_bound(Incident.parent, "parents") & on_found_rows(_is_open())
)


def load_open_children(incidents: Iterable[IncidentState]) -> list[IncidentState]:
    """Load the open incidents that are merged into one of these."""
    rows = [incident.row for incident in incidents if incident.parent is None]
    return [_build_state(row) for row in _CHILDREN.rows(parents=rows)] if rows else []


def _prepare_page(where: Callable[[], peewee.Expression]) -> Prepared:
    """Prepare a query for a page of incidents, ordered by row number."""
    return _prepare_states(
        lambda: where() & (Incident.id > bind("after")),
        lambda query: query.order_by(Incident.id).limit(bind("limit")),
    )


def _prepare_open(column: peewee.Field) -> Prepared:
    return _prepare_page(lambda: (column == bind("row")) & _is_open())


_OPEN_WITHOUT_SERVICE = _prepare_page(lambda: Incident.service.is_null() & _is_open())
_OPEN_BY_COLUMN = {
    "escalation_policy": _prepare_open(Incident.escalation_policy),
    "service": _prepare_open(Incident.service),
    "sla": _prepare_open(Incident.sla),
}
_RESOLVED_WITH_TIMERS = _prepare_page(
    lambda: (
        (Incident.status == IncidentStatus.RESOLVED)
        & Incident.id.in_(Timer.select(Timer.incident).where(Timer.done_at.is_null()))
    )
)


def list_open_incidents(service_row: int | None, row: int, limit: int) -> list[IncidentState]:
    """Return a page of the open incidents of a service, ordered by row number.

    `service_row` None: of deleted services. `row`: the last row number of the previous page.
    """
    if service_row is not None:
        return list_open_incidents_with("service", service_row, row, limit)
    return [_build_state(found) for found in _OPEN_WITHOUT_SERVICE.rows(after=row, limit=limit)]


def list_open_incidents_with(column: str, owner: int, row: int, limit: int) -> list[IncidentState]:
    """Return a page of the open incidents with this policy, service or SLA (`column`); `row` as above."""
    return [_build_state(found) for found in _OPEN_BY_COLUMN[column].rows(row=owner, after=row, limit=limit)]


def list_resolved_with_timers(row: int, limit: int) -> list[IncidentState]:
    """Return a page of the resolved incidents that still have pending timers; `row` as above."""
    return [_build_state(row) for row in _RESOLVED_WITH_TIMERS.rows(after=row, limit=limit)]


def _match_with_children() -> peewee.Expression:
    """Return the condition for these incidents and all that are merged into them."""
    merged = Incident.parent.is_null(False) & in_bound(Incident.parent, "rows")
    return in_bound(Incident.id, "rows") | merged


_SERVICES = Prepared(lambda: Incident.select(Incident.service).where(_match_with_children()).distinct())


def find_services(incident_rows: Collection[int]) -> set[int]:
    """Return the services of these incidents and of all that are merged into them."""
    return {row for (row,) in _SERVICES.rows(rows=incident_rows) if row}


def _prepare_lock(*, skip_locked: bool) -> Prepared:
    return _prepare_states(
        _match_with_children,
        lambda query: store().for_update(query.order_by(Incident.id), skip_locked=skip_locked),
    )


_LOCKED = _prepare_lock(skip_locked=False)
_LOCKED_IF_FREE = _prepare_lock(skip_locked=True)


def lock_incident_rows(incident_rows: Collection[int], *, blocking: bool = True) -> list[IncidentState]:
    """Lock and load these incidents and all that are merged into them.

    `blocking` False: do not wait for locks, and leave out incidents that another transaction has locked.
    """
    query = _LOCKED if blocking else _LOCKED_IF_FREE
    return [_build_state(row) for row in query.rows(rows=incident_rows)]


_FIRING = Prepared(
    lambda: (
        Entity.select(Entity.incident, peewee.fn.COUNT(Entity.id))
        .where(in_bound(Entity.incident, "incidents"), Entity.firing)
        .group_by(Entity.incident)
    )
)


def count_firing(incidents: Iterable[IncidentState]) -> dict[str, int]:
    """Return the number of firing entities by incident; incidents without any are absent."""
    rows = {incident.row: incident.unique_id for incident in incidents}
    if not rows:
        return {}
    return {rows[incident]: count for incident, count in _FIRING.rows(incidents=list(rows))}


_RESPONDERS = Prepared(
    lambda: IncidentResponder.select(
        IncidentResponder.incident, IncidentResponder.user, IncidentResponder.escalation_policy
    ).where(in_bound(IncidentResponder.incident, "incidents"))
)
_ROLES = Prepared(
    lambda: IncidentAssignment.select(
        IncidentAssignment.incident, IncidentAssignment.role, IncidentAssignment.user
    ).where(in_bound(IncidentAssignment.incident, "incidents"))
)


def load_responders(
    incidents: Iterable[IncidentState],
) -> set[tuple[str, int | None, int | None]]:
    """Load the responders of these incidents as (incident, user row, policy row); one of the rows is None."""
    rows = {incident.row: incident.unique_id for incident in incidents}
    found = _RESPONDERS.rows(incidents=list(rows)) if rows else []
    return {(rows[incident], user, policy) for incident, user, policy in found}


def load_roles(incidents: Iterable[IncidentState]) -> dict[tuple[str, int], int]:
    """Load the user rows with a role in these incidents, by incident and row of the role."""
    rows = {incident.row: incident.unique_id for incident in incidents}
    found = _ROLES.rows(incidents=list(rows)) if rows else []
    return {(rows[incident], role): user for incident, role, user in found}
