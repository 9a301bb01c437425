"""What a lane's alerts see while a batch of them is folded: the world as the earlier ones left it."""

from collections.abc import Iterable

from models.effects import (
    Effect,
    EntityState,
    IncidentState,
    ReclaimEntities,
    ReleaseEntities,
    SaveEntity,
    SaveIncident,
)
from models.facts import LaneFacts


class LaneState:
    """Entities and open incidents of one service, kept up to date by the effects of each decision.

    Stages read it; only the road's fold calls `absorb`. `firing` counts for each incident the
    entities that still fire, including those that no alert of this batch is about.
    """

    def __init__(
        self,
        facts: LaneFacts,
        entities: Iterable[EntityState] = (),
        incidents: Iterable[IncidentState] = (),
        firing: dict[str, int] | None = None,
    ) -> None:
        self.facts = facts
        self.entities = {entity.key: entity for entity in entities}
        self.incidents = {incident.unique_id: incident for incident in incidents}
        self.firing = dict(firing or {})

    def entity(self, integration: int, entity_id: str) -> EntityState:
        key = (integration, entity_id)
        return self.entities.get(key) or EntityState(integration, entity_id)

    def holder(self, entity: EntityState) -> IncidentState | None:
        """The open incident that holds an entity."""
        incident = self.incidents.get(entity.incident or "")
        return incident if incident is not None and incident.is_open else None

    def collecting(self) -> IncidentState | None:
        """The incident that gathers the service's alerts, if one is open."""
        return next((i for i in self.incidents.values() if i.collecting and i.is_open), None)

    def others_firing(self, incident: IncidentState, entity: EntityState) -> int:
        """How many of an incident's entities fire besides this one."""
        mine = 1 if entity.firing and entity.incident == incident.unique_id else 0
        return self.firing.get(incident.unique_id, 0) - mine

    def absorb(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case SaveIncident(incident):
                    self.incidents[incident.unique_id] = incident
                case SaveEntity(entity):
                    self._put(entity)
                case ReleaseEntities(unique_id):
                    self._release(unique_id)
                case ReclaimEntities():
                    raise ValueError("an alert never reopens an incident")
                case _:
                    pass

    def _put(self, entity: EntityState) -> None:
        before = self.entities.get(entity.key)
        for state, step in ((before, -1), (entity, +1)):
            if state is not None and state.firing and state.incident:
                self.firing[state.incident] = self.firing.get(state.incident, 0) + step
        self.entities[entity.key] = entity

    def _release(self, unique_id: str) -> None:
        for key, entity in self.entities.items():
            if entity.incident == unique_id:
                self.entities[key] = entity.released()
        self.firing.pop(unique_id, None)
