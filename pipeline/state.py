"""What a lane's alerts see while a batch of them is folded: the world as the earlier ones left it."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from models.effects import (
    AddNote,
    AddResponder,
    AddTag,
    AddTask,
    ApplyTaskTemplate,
    ArmTimers,
    AssignRole,
    Effect,
    EntityState,
    ExpectPing,
    IncidentState,
    OweNotice,
    ReclaimEntities,
    RecordLog,
    ReleaseEntities,
    SaveEntity,
    SaveIncident,
    TakeTurn,
    VoidNotices,
)
from models.facts import LaneFacts, PolicyFacts
from pipeline.alert import Alert
from pipeline.rulesets import RuleSet

Key = tuple[int, str]
# An incident's unique_id, and the row of the person or of the policy that was asked to help with it.
Called = tuple[str, int | None, int | None]
# An incident's unique_id, and the row of a role in it.
Role = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Past:
    """The last incident of an entity that none holds now: its row, and when it was over."""

    row: int
    ended_at: datetime


class LaneState:
    """Entities and open incidents of one service, kept up to date by the effects of each decision.

    Stages read it; only the road's fold calls `absorb`. `firing` counts for each incident the
    entities that still fire, including those that no alert of this batch is about; `past` has the last
    incident of entities whose incident is over. `asked` are the keys of entities that were looked for in
    the store (None: all that there are): asking for another notes it in `missing`, since a rule may give
    an alert an entity_id that nobody foresaw. What was decided with any missing must be decided anew.
    `called` and `roles` are who was asked to help with an open incident, and who has which role in it: only
    where rules ask for helpers and give roles. Open children of the incidents are among the incidents; asking
    for those of a service that is not among the `locked` ones (None: all are) notes it in `unlocked`, and
    what was decided with any must be decided anew, under its lock. `turns` are those of policies that assign
    by turns, by row.
    """

    def __init__(
        self,
        facts: LaneFacts,
        entities: Iterable[EntityState] = (),
        incidents: Iterable[IncidentState] = (),
        firing: dict[str, int] | None = None,
        *,
        rulesets: Mapping[int, RuleSet] | None = None,
        past: Mapping[str, Past] | None = None,
        asked: Collection[Key] | None = None,
        called: Iterable[Called] = (),
        roles: Mapping[Role, int] | None = None,
        locked: Collection[int] | None = None,
        turns: Mapping[int, int] | None = None,
    ) -> None:
        self.facts = facts
        self.rulesets = rulesets or {}
        self.past = past or {}
        self.asked = None if asked is None else set(asked)
        self.missing: set[Key] = set()
        self.entities = {entity.key: entity for entity in entities}
        self.incidents = {incident.unique_id: incident for incident in incidents}
        self.locked = locked
        self.unlocked: set[int] = set()
        self._children: dict[int, list[str]] = {}
        for incident in self.incidents.values():
            if incident.parent is not None:
                self._children.setdefault(incident.parent, []).append(incident.unique_id)
        self.firing = dict(firing or {})
        self.called = set(called)
        self.roles = dict(roles or {})
        self.turns = dict(turns or {})

    def entity(self, integration: int, entity_id: str) -> EntityState:
        key = (integration, entity_id)
        known = self.entities.get(key)
        if known is None and self.asked is not None and key not in self.asked:
            self.missing.add(key)
        return known or EntityState(integration, entity_id)

    def seconds_since_last(self, alert: Alert, now: datetime) -> float | None:
        """Since the last incident of the alert's entity was over or, while it is open, began (contract
        4.2); None when there was none."""
        last = self.entity(alert.integration, alert.entity_id).last_incident
        if last is None:
            return None
        incident = self.incidents.get(last)
        if incident is not None:
            since = incident.resolved_date or incident.creation_date
        elif last in self.past:
            since = self.past[last].ended_at
        else:
            return None
        return max((now - since).total_seconds(), 0.0)

    def holder(self, entity: EntityState) -> IncidentState | None:
        """The open incident that holds an entity."""
        incident = self.incidents.get(entity.incident or "")
        return incident if incident is not None and incident.is_open else None

    def children_of(self, incident: IncidentState) -> list[IncidentState]:
        """The open incidents that are merged into this one, and end with it."""
        named = self._children.get(incident.row or 0, ())
        found = [one for one in map(self.incidents.__getitem__, named) if one.is_open]
        if self.locked is not None:
            self.unlocked.update({one.service for one in found if one.service}.difference(self.locked))
        return found

    def collecting(self) -> IncidentState | None:
        """The incident that gathers the service's alerts, if one is open."""
        return next((i for i in self.incidents.values() if i.collecting and i.is_open), None)

    def turn(self, policy: PolicyFacts | None) -> int:
        """Which target's turn it is, by a policy that assigns by turns."""
        return self.turns.get(policy.row, 0) if policy else 0

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
                case ReleaseEntities(unique_id, is_seen):
                    self._release(unique_id, is_seen)
                case ReclaimEntities():
                    raise ValueError("an alert never reopens an incident")
                case RecordLog() | ArmTimers() | OweNotice() | VoidNotices() | ExpectPing():
                    pass
                case AddNote() | AddTag() | AddTask() | ApplyTaskTemplate():
                    pass
                case AddResponder(unique_id, user=user, escalation_policy=policy):
                    self.called.add((unique_id, user, policy))
                case AssignRole(unique_id, role=role, user=user):
                    self.roles[unique_id, role] = user
                case TakeTurn(policy, next=turn):
                    self.turns[policy] = turn

    def _put(self, entity: EntityState) -> None:
        before = self.entities.get(entity.key)
        for state, step in ((before, -1), (entity, +1)):
            if state is not None and state.firing and state.incident:
                self.firing[state.incident] = self.firing.get(state.incident, 0) + step
        self.entities[entity.key] = entity

    def _release(self, unique_id: str, is_seen: bool) -> None:
        for key, entity in self.entities.items():
            if entity.incident == unique_id:
                self.entities[key] = entity.released(is_seen=is_seen)
        self.firing.pop(unique_id, None)
