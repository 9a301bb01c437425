"""Write entities and events."""

from collections.abc import Collection, Iterable, Mapping

from models.domain.effects import EntityState, EventState, ReclaimEntities, ReleaseEntities
from models.domain.enums import AlertType
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
    bulk.insert(
        Entity,
        [
            {
                "integration": entity.integration,
                "entity_id": entity.entity_id,
                "firing": entity.firing,
                "incident": incident_rows[entity.incident] if entity.incident else None,
                "last_incident": incident_rows[entity.last_incident] if entity.last_incident else None,
                "resolved_source_at": entity.resolved_source_at,
                "resolved_at": entity.resolved_at,
                "deferred_alert": entity.deferred_alert,
            }
            for entity in sorted(entities.values(), key=lambda item: item.key)
        ],
        conflict=["integration", "entity_id"],
        replacing=[
            "firing",
            "incident",
            "last_incident",
            "resolved_source_at",
            "resolved_at",
            "deferred_alert",
        ],
    )


def reclaim_entities(effects: Iterable[ReclaimEntities], incident_rows: Mapping[str, int]) -> None:
    for effect in effects:
        _reclaim_entities(incident_rows[effect.incident])


def _reclaim_entities(incident: int) -> None:
    """Give a reopened incident its entities back; they are firing unless their last alert was a resolve.

    A resolve that came while the incident was closed is only stored in the entity.
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
    bulk.insert(
        Event,
        [
            {
                "unique_id": event.unique_id,
                "receipt": event.receipt,
                "position": event.position,
                "integration": event.integration,
                "service": event.service,
                "incident": incident_rows[event.incident] if event.incident else None,
                "incident_created": event.incident_created,
                "message": event.message,
                "summary": event.summary,
                "alert_type": int(event.alert_type),
                "entity_id": event.entity_id,
                "suppressed": event.suppressed,
                "alert": event.alert,
                "source_at": event.source_at,
                "creation_date": event.creation_date,
                "stage": event.stage,
                "state": int(event.state),
                "reasons": event.reasons,
                "rules": event.rules,
                "error": event.error,
            }
            for event in events
        ],
    )
