"""The state of a lane while its batch is processed: each alert sees the effects of the alerts before it."""

from collections.abc import Callable, Collection, Iterable, Mapping
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
    MailStakeholders,
    NotifyRecovery,
    ReclaimEntities,
    ReconcileTimers,
    RecordLog,
    ReleaseEntities,
    SaveEntity,
    SaveGroups,
    SaveIncident,
    SendOutbound,
)
from models.domain.facts import GroupKey, LaneFacts, PastIncident
from pipeline.alert import Alert
from pipeline.rules.rulesets import RuleSet

EntityKey = tuple[int, str]
# What an alert looks up: its entity, and its values by the grouping policies.
LaneKey = EntityKey | GroupKey
# An incident's unique_id, and the row of its responder: a person or a policy.
ResponderKey = tuple[str, int | None, int | None]
# An incident's unique_id, and the row of a role in it.
RoleKey = tuple[str, int]


def split_keys(keys: Iterable[LaneKey]) -> tuple[set[EntityKey], set[GroupKey]]:
    """Return the entities and the values among these keys."""
    listed = list(keys)
    groups = {key for key in listed if isinstance(key, GroupKey)}
    return {key for key in listed if not isinstance(key, GroupKey)}, groups


class LaneState:
    """Entities and open incidents of one service, kept up to date by the effects of each decision.

    Stages do not change it: `run_stages` and the simulation call `apply_effects`. `firing_counts` is, for
    each incident, the number of entities that are still firing, including entities without an alert in this
    batch. `past_incidents` is the last incident of entities whose incident has ended.

    `loaded_keys` are the entities and values that were looked up in the store (None: all). A rule can give an
    alert an entity_id that was not loaded, and only a decision knows the values for grouping policies. They
    are then added to `missing`, and the batch is decided again. `groups` are the open incidents that alerts
    with the looked up values have opened: pairs of a digest and the unique_id of an incident.

    `responders` and `roles` are the responders and role holders of open incidents, loaded only if rules add
    responders or assign roles. The open children of an incident can belong to services outside
    `locked` (None: all are locked). Their services are added to `locks_missing`, and the batch must be
    decided again under their locks. `next_targets` is the position of the next target of each
    round-robin policy, by row.

    `group_keys` are the values of the latest alert (pipeline/incidents/grouping.py). `skipped` is the first
    alert of each integration whose budget did not suffice for its rules.
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
        loaded_keys: Collection[LaneKey] | None = None,
        groups: Iterable[tuple[str, str]] = (),
        responders: Iterable[ResponderKey] = (),
        roles: Mapping[RoleKey, int] | None = None,
        locked: Collection[int] | None = None,
        next_targets: Mapping[int, int] | None = None,
    ) -> None:
        self.facts = facts
        self.rulesets = rulesets or {}
        self.past_incidents = past_incidents or {}
        self.loaded_keys = None if loaded_keys is None else set(loaded_keys)
        self.missing: set[LaneKey] = set()
        self._groups: dict[str, list[str]] = {}
        for digest, unique_id in groups:
            self.add_to_group(digest, unique_id)
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
        self.group_keys: tuple[Alert, tuple[GroupKey, ...]] | None = None
        self.skipped: dict[int, Alert] = {}

    @property
    def service_row(self) -> int:
        return self.facts.service.row

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
        """Return the open incidents that are merged into this one and are resolved with it."""
        ids = self._children.get(incident.row or 0, ())
        found = [one for one in map(self.incidents.__getitem__, ids) if one.is_open]
        if self.locked is not None:
            self.locks_missing.update({one.service for one in found if one.service}.difference(self.locked))
        return found

    def get_collecting(self) -> IncidentState | None:
        """Return the open incident that collects the service's alerts, if there is one."""
        return next((i for i in self.incidents.values() if i.collecting and i.is_open), None)

    def add_to_group(self, digest: str, incident: str) -> None:
        self._groups.setdefault(digest, []).append(incident)

    def find_grouped(self, keys: Iterable[GroupKey], now: datetime) -> IncidentState | None:
        """Return the newest open incident that an alert with one of these values opened within the window.

        A merged incident does not count: people look at its parent.
        """
        found: dict[str, IncidentState] = {}
        for key in keys:
            if self.loaded_keys is not None and key not in self.loaded_keys:
                self.missing.add(key)
            for incident in map(self.incidents.get, self._groups.get(key.digest, ())):
                if incident is None:
                    continue
                is_joinable = incident.is_open and incident.parent is None
                if is_joinable and now - incident.creation_date <= key.window:
                    found[incident.unique_id] = incident
        return max(found.values(), key=lambda one: (one.creation_date, one.unique_id), default=None)

    def count_others_firing(self, incident: IncidentState, entity: EntityState) -> int:
        """Return how many other entities of the incident are firing."""
        own = 1 if entity.firing and entity.incident == incident.unique_id else 0
        return self.firing_counts.get(incident.unique_id, 0) - own

    def record_skipped(self, alert: Alert) -> None:
        """Record that the budget of an alert did not suffice for its rules."""
        self.skipped.setdefault(alert.integration, alert)

    def apply_effects(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            UPDATES[type(effect)](self, effect)


def _save_incident(state: LaneState, effect: SaveIncident) -> None:
    state.incidents[effect.incident.unique_id] = effect.incident


def _save_entity(state: LaneState, effect: SaveEntity) -> None:
    before = state.entities.get(effect.entity.key)
    for entity, step in ((before, -1), (effect.entity, +1)):
        if entity is not None and entity.firing and entity.incident:
            state.firing_counts[entity.incident] = state.firing_counts.get(entity.incident, 0) + step
    state.entities[effect.entity.key] = effect.entity


def _release_entities(state: LaneState, effect: ReleaseEntities) -> None:
    for key, entity in state.entities.items():
        if entity.incident == effect.incident:
            state.entities[key] = entity.without_incident(by_person=effect.by_person)
    state.firing_counts.pop(effect.incident, None)


def _add_responder(state: LaneState, effect: AddResponder) -> None:
    state.responders.add((effect.incident, effect.user, effect.escalation_policy))


def _assign_role(state: LaneState, effect: AssignRole) -> None:
    state.roles[effect.incident, effect.role] = effect.user


def _save_groups(state: LaneState, effect: SaveGroups) -> None:
    for digest in effect.digests:
        state.add_to_group(digest, effect.incident)


def _advance_round_robin(state: LaneState, effect: AdvanceRoundRobin) -> None:
    state.next_targets[effect.policy] = effect.next


def _refuse(_: LaneState, effect: ReclaimEntities) -> None:
    raise ValueError("an alert never reopens an incident")


def _ignore(_: LaneState, effect: Effect) -> None:
    """Do nothing: no decision about a later alert of the batch reads what this effect writes."""


# What an effect changes for the later alerts of the batch.
UPDATES: dict[type[Effect], Callable[..., None]] = {
    SaveIncident: _save_incident,
    SaveEntity: _save_entity,
    ReleaseEntities: _release_entities,
    ReclaimEntities: _refuse,
    AddResponder: _add_responder,
    AssignRole: _assign_role,
    AdvanceRoundRobin: _advance_round_robin,
    SaveGroups: _save_groups,
    **dict.fromkeys((AddNote, AddTag, AddTask, ApplyTaskTemplate, RecordLog), _ignore),
    **dict.fromkeys((ReconcileTimers, CreateNotification, CancelNotifications, ExpectPing), _ignore),
    **dict.fromkeys((MailStakeholders, NotifyRecovery, SendOutbound), _ignore),
}
