"""Entities and the events that speak of them to rows."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from models import bulk
from models.effects import EntityState, EventState, ReleaseEntities
from models.enums import AlertType
from models.events import Entity, Event


def release_entities(releases: Collection[ReleaseEntities], known: Mapping[str, int]) -> None:
    """These incidents hold nothing any more, and nothing of what they held fires."""
    free: dict[str, Any] = {"firing": False, "incident": None}
    known_ones = [one for one in releases if one.incident in known]
    for is_seen, written in ((False, free), (True, {**free, "kept_back": None})):
        released = [known[one.incident] for one in known_ones if one.is_seen is is_seen]
        if released:
            Entity.update(written).where(Entity.incident.in_(released)).execute()


def write_entities(entities: Iterable[EntityState], known: Mapping[str, int]) -> None:
    """In the order of their keys, in which all lock them."""
    bulk.insert(
        Entity,
        [
            {
                "integration": entity.integration,
                "entity_id": entity.entity_id,
                "firing": entity.firing,
                "incident": known[entity.incident] if entity.incident else None,
                "last_incident": known[entity.last_incident] if entity.last_incident else None,
                "resolved_source_at": entity.resolved_source_at,
                "resolved_at": entity.resolved_at,
                "kept_back": entity.kept_back,
            }
            for entity in sorted(entities, key=lambda each: each.key)
        ],
        conflict=["integration", "entity_id"],
        replacing=["firing", "incident", "last_incident", "resolved_source_at", "resolved_at", "kept_back"],
    )


def reclaim_entities(incident: int) -> None:
    """Give a reopened incident its entities back, firing unless the last word on them was resolved.

    That word may have come while the incident was closed; then only the entity knows of it.
    """
    same = (Entity.integration == Event.integration) & (Entity.entity_id == Event.entity_id)
    query = (
        Event.select(Entity.id, Entity.resolved_at, Event.alert_type, Event.creation_date)
        .join(Entity, on=same)
        .where(Event.incident == incident, Entity.incident.is_null())
        .order_by(Event.id)
    )
    firing: dict[int, bool] = {}
    for entity, resolved_at, alert_type, said_at in query.tuples():
        silent = alert_type == AlertType.RESOLVED or (resolved_at is not None and resolved_at > said_at)
        firing[entity] = not silent
    bulk.update(
        Entity,
        [
            {"id": entity, "incident": incident, "last_incident": incident, "firing": fires}
            for entity, fires in firing.items()
        ],
    )


def insert_events(events: list[EventState], known: Mapping[str, int]) -> None:
    bulk.insert(
        Event,
        [
            {
                "unique_id": event.unique_id,
                "receipt": event.receipt,
                "position": event.position,
                "integration": event.integration,
                "service": event.service,
                "incident": known[event.incident] if event.incident else None,
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
