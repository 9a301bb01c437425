"""Write entities and events."""

from collections.abc import Collection, Iterable, Mapping

from models.domain.effects import EntityState, EventState, ReclaimEntities, ReleaseEntities
from models.domain.enums import AlertType
from models.domain.values import list_fields
from models.store import bulk
from models.tables.events import Entity, Event


def release_entities(releases: Collection[ReleaseEntities], incident_rows: Mapping[str, int]) -> None:
    """Release all entities of these incidents and mark them as not firing."""
    values: dict[str, object] = {"firing": False, "incident": None}
    known_releases = [release for release in releases if release.incident in incident_rows]
    for by_person, written in ((False, values), (True, {**values, "deferred_alert": None})):
        released = [
            incident_rows[release.incident] for release in known_releases if release.by_person is by_person
        ]
        if released:
            Entity.update(written).where(Entity.incident.in_(released)).execute()


def write_entities(entities: Mapping[tuple[int, str], EntityState], incident_rows: Mapping[str, int]) -> None:
    """Insert or update entities in the order of their keys, which is the order of locks everywhere."""
    records = []
    for entity in sorted(entities.values(), key=lambda item: item.key):
        holders = {
            name: incident_rows[incident] if incident else None
            for name, incident in (("incident", entity.incident), ("last_incident", entity.last_incident))
        }
        records.append({**_get_columns(entity), **holders})
    key = ("integration", "entity_id")
    changed = [name for name in _COLUMNS[EntityState] if name not in key]
    bulk.insert(Entity, records, conflict=key, replacing=changed)


def reclaim_entities(effects: Iterable[ReclaimEntities], incident_rows: Mapping[str, int]) -> None:
    for effect in effects:
        _reclaim_entities(incident_rows[effect.incident])


def _reclaim_entities(incident: int) -> None:
    """Give a reopened incident its entities back; an entity is firing unless its last alert resolved it.

    A resolved alert that arrived while the incident was resolved is stored only in the entity.
    """
    same = (Entity.integration == Event.integration) & (Entity.entity_id == Event.entity_id)
    query = (
        Event.select(Entity.id, Entity.resolved_at, Event.alert_type, Event.creation_date)
        .join(Entity, on=same)
        .where(Event.incident == incident, Entity.incident.is_null())
        .order_by(Event.id)
    )
    firing: dict[int, bool] = {}
    for entity, resolved_at, alert_type, event_at in query.tuples():
        is_resolved = alert_type == AlertType.RESOLVED or (resolved_at is not None and resolved_at > event_at)
        firing[entity] = not is_resolved
    bulk.update(
        Entity,
        [
            {"id": entity, "incident": incident, "last_incident": incident, "firing": is_firing}
            for entity, is_firing in firing.items()
        ],
    )


def insert_events(events: list[EventState], incident_rows: Mapping[str, int]) -> None:
    events = [event for event in events if not event.is_repeated]
    records = [_get_columns(event) for event in events]
    for record, event in zip(records, events, strict=True):
        record["incident"] = incident_rows[event.incident] if event.incident else None
    bulk.insert(Event, records)


# The fields of these states have the names of the columns.
_COLUMNS = {
    kind: tuple(name for name in list_fields(kind) if name != "is_repeated")
    for kind in (EntityState, EventState)
}


def _get_columns(state: EntityState | EventState) -> dict[str, object]:
    return {name: getattr(state, name) for name in _COLUMNS[type(state)]}
