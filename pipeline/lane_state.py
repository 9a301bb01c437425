"""The state of a lane while its batch is processed: each alert sees the effects of the alerts before it."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from models.domain.effects import (
    AddNote,
    AddResponder,
    AddTag,
    AddTask,
    AdvanceRoundRobin,
    ApplyTaskTemplate,
    AssignRole,
    CancelNotifications,
    CreateNotification,
    Effect,
    EntityState,
    ExpectPing,
    IncidentState,
    ReclaimEntities,
    ReconcileTimers,
    RecordLog,
    ReleaseEntities,
    SaveEntity,
    SaveIncident,
)
from models.domain.facts import LaneFacts, PolicyFacts
from pipeline.alert import Alert
from pipeline.rules.rulesets import RuleSet

EntityKey = tuple[int, str]
# An incident's unique_id, and the row of its responder: a person or a policy.
ResponderKey = tuple[str, int | None, int | None]
# An incident's unique_id, and the row of a role in it.
RoleKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class PastIncident:
    """The last incident of an entity that has no open one: its row, and when it ended."""

    row: int
    ended_at: datetime


class LaneState:
    """Entities and open incidents of one service, kept up to date by the effects of each decision.

    Stages only read it; `run_stages` calls `apply_effects`. `firing_counts` is, for each incident, the number
    of entities that are still firing, including entities without an alert in this batch. `past_incidents` is
    the last incident of entities whose incident has ended.

    `loaded_keys` are the entities that were looked up in the store (None: all). A rule can give an alert an
    entity_id that was not loaded. It is then added to `missing`, and the batch must be decided again.

    `responders` and `roles` are the responders and role holders of open incidents. They are loaded only if
    rules add responders or assign roles. The open children of an incident can belong to services outside
    `locked` (None: all are locked). Their services are added to `locks_missing`, and the batch must be
    decided again under their locks. `next_targets` is the place of the next target of each round-robin
    policy, by row.
    """

    def __init__(
        self,
        facts: LaneFacts,
        entities: Iterable[EntityState] = (),
        incidents: Iterable[IncidentState] = (),
        firing_counts: dict[str, int] | None = None,
        *,
        rulesets: Mapping[int, RuleSet] | None = None,
        past_incidents: Mapping[str, PastIncident] | None = None,
        loaded_keys: Collection[EntityKey] | None = None,
        responders: Iterable[ResponderKey] = (),
        roles: Mapping[RoleKey, int] | None = None,
        locked: Collection[int] | None = None,
        next_targets: Mapping[int, int] | None = None,
    ) -> None:
        self.facts = facts
        self.rulesets = rulesets or {}
        self.past_incidents = past_incidents or {}
        self.loaded_keys = None if loaded_keys is None else set(loaded_keys)
        self.missing: set[EntityKey] = set()
        self.entities = {entity.key: entity for entity in entities}
        self.incidents = {incident.unique_id: incident for incident in incidents}
        self.locked = locked
        self.locks_missing: set[int] = set()
        self._children: dict[int, list[str]] = {}
        for incident in self.incidents.values():
            if incident.parent is not None:
                self._children.setdefault(incident.parent, []).append(incident.unique_id)
        self.firing_counts = dict(firing_counts or {})
        self.responders = set(responders)
        self.roles = dict(roles or {})
        self.next_targets = dict(next_targets or {})

    def get_entity(self, integration: int, entity_id: str) -> EntityState:
        key = (integration, entity_id)
        known = self.entities.get(key)
        if known is None and self.loaded_keys is not None and key not in self.loaded_keys:
            self.missing.add(key)
        return known or EntityState(integration, entity_id)

    def get_seconds_since_last(self, alert: Alert, now: datetime) -> float | None:
        """Return the seconds since the last incident of the alert's entity ended or, if it is open, was
        created.

        None: there was no incident. Contract 4.2.
        """
        last = self.get_entity(alert.integration, alert.entity_id).last_incident
        if last is None:
            return None
        incident = self.incidents.get(last)
        if incident is not None:
            since = incident.resolved_date or incident.creation_date
        elif last in self.past_incidents:
            since = self.past_incidents[last].ended_at
        else:
            return None
        return max((now - since).total_seconds(), 0.0)

    def get_open_incident(self, entity: EntityState) -> IncidentState | None:
        """Return the open incident that holds an entity."""
        incident = self.incidents.get(entity.incident or "")
        return incident if incident is not None and incident.is_open else None

    def get_children(self, incident: IncidentState) -> list[IncidentState]:
        """Return the open incidents that are merged into this one. They are resolved with it."""
        ids = self._children.get(incident.row or 0, ())
        found = [one for one in map(self.incidents.__getitem__, ids) if one.is_open]
        if self.locked is not None:
            self.locks_missing.update({one.service for one in found if one.service}.difference(self.locked))
        return found

    def get_collecting(self) -> IncidentState | None:
        """Return the open incident that collects the service's alerts, if there is one."""
        return next((i for i in self.incidents.values() if i.collecting and i.is_open), None)

    def get_turn(self, policy: PolicyFacts | None) -> int:
        """Return the place of the next target of a round-robin policy."""
        return self.next_targets.get(policy.row, 0) if policy else 0

    def count_others_firing(self, incident: IncidentState, entity: EntityState) -> int:
        """Return how many other entities of the incident are firing."""
        own = 1 if entity.firing and entity.incident == incident.unique_id else 0
        return self.firing_counts.get(incident.unique_id, 0) - own

    def apply_effects(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case SaveIncident(incident):
                    self.incidents[incident.unique_id] = incident
                case SaveEntity(entity):
                    self._save_entity(entity)
                case ReleaseEntities(unique_id, by_person):
                    self._release_entities(unique_id, by_person)
                case ReclaimEntities():
                    raise ValueError("an alert never reopens an incident")
                case (
                    RecordLog()
                    | ReconcileTimers()
                    | CreateNotification()
                    | CancelNotifications()
                    | ExpectPing()
                ):
                    pass
                case AddNote() | AddTag() | AddTask() | ApplyTaskTemplate():
                    pass
                case AddResponder(unique_id, user=user, escalation_policy=policy):
                    self.responders.add((unique_id, user, policy))
                case AssignRole(unique_id, role=role, user=user):
                    self.roles[unique_id, role] = user
                case AdvanceRoundRobin(policy, next=turn):
                    self.next_targets[policy] = turn

    def _save_entity(self, entity: EntityState) -> None:
        before = self.entities.get(entity.key)
        for state, step in ((before, -1), (entity, +1)):
            if state is not None and state.firing and state.incident:
                self.firing_counts[state.incident] = self.firing_counts.get(state.incident, 0) + step
        self.entities[entity.key] = entity

    def _release_entities(self, unique_id: str, by_person: bool) -> None:
        for key, entity in self.entities.items():
            if entity.incident == unique_id:
                self.entities[key] = entity.without_incident(by_person=by_person)
        self.firing_counts.pop(unique_id, None)
