"""Write effects as rows, in bulk, inside the caller's transaction.

The number of statements does not depend on the number of alerts: each kind of row is read at most once and
written at most twice. Effects are first applied in memory, in their order. Therefore the result does not
depend on how the alerts were divided into batches.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
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
    ChangeSet,
    CreateNotification,
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
from models.tables.teams import EscalationPolicy
from models.write import incident_details
from models.write.entities import insert_events, reclaim_entities, release_entities, write_entities
from models.write.heartbeats import write_pings
from models.write.incidents import insert_incidents, insert_logs, update_incidents
from models.write.notifications import NewNotification, cancel_pending, write_notifications
from models.write.timers import write_timers


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The result of apply(). `channels` have new messages, which may be due."""

    channels: frozenset[int] = frozenset()


class Conflict(Exception):
    """Another transaction changed the facts of a decision: decide again in a new transaction."""


@dataclass(slots=True)
class _Folded:
    """The effects of a change set, reduced to the last state of each row."""

    incidents: dict[str, IncidentState] = field(default_factory=dict)
    entities: dict[tuple[int, str], EntityState] = field(default_factory=dict)
    releases: list[ReleaseEntities] = field(default_factory=list)
    reclaims: list[str] = field(default_factory=list)
    logs: list[RecordLog] = field(default_factory=list)
    timers: list[ReconcileTimers] = field(default_factory=list)
    pending: dict[str, NewNotification] = field(default_factory=dict)
    cancellations: dict[str, list[CancelNotifications]] = field(default_factory=dict)
    notes: list[AddNote] = field(default_factory=list)
    tags: dict[tuple[str, int], AddTag] = field(default_factory=dict)
    responders: list[AddResponder] = field(default_factory=list)
    roles: dict[tuple[str, int], AssignRole] = field(default_factory=dict)
    tasks: list[AddTask] = field(default_factory=list)
    templates: dict[tuple[str, int], ApplyTaskTemplate] = field(default_factory=dict)
    round_robins: dict[int, AdvanceRoundRobin] = field(default_factory=dict)
    expected_pings: dict[int, datetime] = field(default_factory=dict)


def apply(changes: ChangeSet, rows: Mapping[str, int] | None = None) -> ApplyResult:
    """Write a change set. `rows`: row numbers by unique_id of incidents that effects only refer to.

    Raises Conflict, before it writes other rows, if another transaction advanced the same round robin.
    """
    folded = _fold(changes)
    _advance_round_robins(folded.round_robins.values())
    incident_rows = dict(rows or {})
    incident_rows.update({i.unique_id: i.row for i in folded.incidents.values() if i.row is not None})
    update_incidents([i for i in folded.incidents.values() if i.row is not None])
    insert_incidents([i for i in folded.incidents.values() if i.row is None], incident_rows)
    release_entities(folded.releases, incident_rows)
    for unique_id in folded.reclaims:
        reclaim_entities(incident_rows[unique_id])
    write_entities(folded.entities.values(), incident_rows)
    insert_events(changes.events, incident_rows)
    tasks, logs = incident_details.expand_templates(folded.templates)
    insert_logs([*folded.logs, *logs], incident_rows)
    incident_details.write_notes(folded.notes, incident_rows)
    incident_details.write_tags(folded.tags.values(), incident_rows)
    incident_details.write_responders(folded.responders, incident_rows)
    incident_details.write_roles(folded.roles.values(), incident_rows)
    incident_details.write_tasks([*folded.tasks, *tasks], incident_rows)
    write_timers(folded.timers, incident_rows)
    cancel_pending(folded.cancellations, incident_rows)
    write_pings(folded.expected_pings)
    channels = write_notifications(folded.pending, incident_rows)
    return ApplyResult(channels)


def _fold(changes: ChangeSet) -> _Folded:
    folded = _Folded()
    for effect in changes.effects:
        match effect:
            case SaveIncident(incident):
                folded.incidents[incident.unique_id] = incident
            case SaveEntity(entity):
                folded.entities[entity.key] = entity
            case ReleaseEntities(unique_id, by_person):
                folded.releases.append(effect)
                folded.entities = {
                    key: entity.without_incident(by_person=by_person)
                    if entity.incident == unique_id
                    else entity
                    for key, entity in folded.entities.items()
                }
            case ReclaimEntities(unique_id):
                folded.reclaims.append(unique_id)
            case RecordLog():
                folded.logs.append(effect)
            case ReconcileTimers():
                folded.timers.append(effect)
            case CreateNotification(notification):
                folded.pending[notification.key] = NewNotification(notification)
            case CancelNotifications(unique_id):
                _fold_cancel(folded, effect, unique_id)
            case AddNote():
                folded.notes.append(effect)
            case AddTag(unique_id, _, tag):
                folded.tags.setdefault((unique_id, tag), effect)
            case AddResponder():
                folded.responders.append(effect)
            case AssignRole(unique_id, role=role):
                folded.roles[unique_id, role] = effect
            case AddTask():
                folded.tasks.append(effect)
            case ApplyTaskTemplate(unique_id, template):
                folded.templates.setdefault((unique_id, template), effect)
            case AdvanceRoundRobin(policy, current, turn):
                first = folded.round_robins.get(policy)
                folded.round_robins[policy] = AdvanceRoundRobin(
                    policy, first.current if first else current, turn
                )
            case ExpectPing(integration, at):
                folded.expected_pings[integration] = max(at, folded.expected_pings.get(integration, at))
    return folded


def _fold_cancel(folded: _Folded, effect: CancelNotifications, unique_id: str) -> None:
    """Add a cancellation, and apply it to the notifications that the change set has created so far.

    The first matching cancellation counts; for stored notifications see cancel_pending().
    """
    folded.cancellations.setdefault(unique_id, []).append(effect)
    for pending in folded.pending.values():
        if (
            pending.notification.incident == unique_id
            and pending.notification.kind in effect.kinds
            and pending.cancelled_by is None
        ):
            pending.cancelled_by = effect


def _advance_round_robins(round_robins: Iterable[AdvanceRoundRobin]) -> None:
    for turn in sorted(round_robins, key=lambda effect: effect.policy):
        unchanged = (EscalationPolicy.id == turn.policy) & (EscalationPolicy.next_target == turn.current)
        if not EscalationPolicy.update(next_target=turn.next).where(unchanged).execute():
            raise Conflict(f"another transaction advanced the round robin of policy {turn.policy}")
