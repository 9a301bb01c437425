"""Effects to rows, in bulk, inside the caller's transaction.

The number of statements does not depend on the number of alerts: each kind of row is read at most
once and written at most twice. Effects are replayed in their order in memory first, so that what is
written is the same however the alerts were cut into batches.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from models import bulk
from models.accounts import Account
from models.base import store
from models.effects import (
    DONE_ONCE,
    AddNote,
    AddResponder,
    AddTag,
    AddTask,
    ApplyTaskTemplate,
    ArmTimers,
    AssignRole,
    EntityState,
    EventState,
    ExpectPing,
    IncidentState,
    Outcome,
    OweNotice,
    ReclaimEntities,
    RecordLog,
    ReleaseEntities,
    SaveEntity,
    SaveIncident,
    TakeTurn,
    TimerState,
    VoidNotices,
)
from models.enums import ONCE, AlertType, TimerKind
from models.enums import NoticeState as NoticeStatus
from models.events import Entity, Event
from models.ids import derived_uuid
from models.incident_states import STATE_COLUMNS, STATE_REFERENCES
from models.incidents import (
    Incident,
    IncidentAssignment,
    IncidentLog,
    IncidentNote,
    IncidentResponder,
    IncidentTag,
    IncidentTask,
)
from models.messages import Owed, write_notices
from models.notices import Notice
from models.prepared import Prepared, among
from models.services import Integration
from models.tasks import TaskTemplate, TemplateTask
from models.teams import EscalationPolicy
from models.timers import Timer


@dataclass(frozen=True, slots=True)
class Applied:
    """What was written: `channels` have messages that may be due."""

    channels: frozenset[int] = frozenset()


class Overtaken(Exception):
    """What was decided upon has changed meanwhile: to be decided anew, in another transaction."""


@dataclass(slots=True)
class _Replay:
    """The effects, folded: the last word on each row."""

    incidents: dict[str, IncidentState] = field(default_factory=dict)
    entities: dict[tuple[int, str], EntityState] = field(default_factory=dict)
    released: list[str] = field(default_factory=list)
    reclaimed: list[str] = field(default_factory=list)
    logs: list[RecordLog] = field(default_factory=list)
    arms: list[ArmTimers] = field(default_factory=list)
    owed: dict[str, Owed] = field(default_factory=dict)
    voids: dict[str, list[VoidNotices]] = field(default_factory=dict)
    notes: list[AddNote] = field(default_factory=list)
    tags: dict[tuple[str, int], AddTag] = field(default_factory=dict)
    responders: list[AddResponder] = field(default_factory=list)
    roles: dict[tuple[str, int], AssignRole] = field(default_factory=dict)
    tasks: list[AddTask] = field(default_factory=list)
    templates: dict[tuple[str, int], ApplyTaskTemplate] = field(default_factory=dict)
    turns: dict[int, TakeTurn] = field(default_factory=dict)
    expected: dict[int, datetime] = field(default_factory=dict)


def apply(outcome: Outcome, rows: Mapping[str, int] | None = None) -> Applied:
    """Write an outcome. `rows` are row numbers of incidents that are only referred to, by unique_id.

    Raises Overtaken, before it writes anything, when somebody else took a turn that this outcome takes.
    """
    replay = _replay(outcome)
    _take_turns(replay.turns.values())
    known = dict(rows or {})
    known.update({i.unique_id: i.row for i in replay.incidents.values() if i.row is not None})
    _update_incidents([i for i in replay.incidents.values() if i.row is not None])
    _insert_incidents([i for i in replay.incidents.values() if i.row is None], known)
    _write_entities(replay, known)
    _insert_events(outcome.events, known)
    _fill_in_templates(replay)
    bulk.insert(IncidentLog, [_log_row(log, known) for log in replay.logs])
    _write_additions(replay, known)
    _write_timers(replay.arms, known)
    _void_notices(replay.voids, known)
    _expect_pings(replay.expected)
    channels = write_notices(replay.owed, known)
    return Applied(channels)


def _replay(outcome: Outcome) -> _Replay:
    replay = _Replay()
    for effect in outcome.effects:
        match effect:
            case SaveIncident(incident):
                replay.incidents[incident.unique_id] = incident
            case SaveEntity(entity):
                replay.entities[entity.key] = entity
            case ReleaseEntities(unique_id):
                replay.released.append(unique_id)
                replay.entities = {
                    key: entity.released() if entity.incident == unique_id else entity
                    for key, entity in replay.entities.items()
                }
            case ReclaimEntities(unique_id):
                replay.reclaimed.append(unique_id)
            case RecordLog():
                replay.logs.append(effect)
            case ArmTimers():
                replay.arms.append(effect)
            case OweNotice(notice):
                replay.owed[notice.key] = Owed(notice)
            case VoidNotices(unique_id):
                _replay_void(replay, effect, unique_id)
            case AddNote():
                replay.notes.append(effect)
            case AddTag(unique_id, _, tag):
                replay.tags.setdefault((unique_id, tag), effect)
            case AddResponder():
                replay.responders.append(effect)
            case AssignRole(unique_id, role=role):
                replay.roles[unique_id, role] = effect
            case AddTask():
                replay.tasks.append(effect)
            case ApplyTaskTemplate(unique_id, template):
                replay.templates.setdefault((unique_id, template), effect)
            case TakeTurn(policy, known, turn):
                first = replay.turns.get(policy)
                replay.turns[policy] = TakeTurn(policy, first.known if first else known, turn)
            case ExpectPing(integration, at):
                replay.expected[integration] = max(at, replay.expected.get(integration, at))
    return replay


def _replay_void(replay: _Replay, effect: VoidNotices, unique_id: str) -> None:
    """What is in the store is voided by the first word on it, what this very outcome owes by the next."""
    replay.voids.setdefault(unique_id, []).append(effect)
    for owed in replay.owed.values():
        if owed.notice.incident == unique_id and owed.notice.kind in effect.kinds and owed.void is None:
            owed.void = effect


def _take_turns(turns: Iterable[TakeTurn]) -> None:
    for turn in sorted(turns, key=lambda taken: taken.policy):
        of = (EscalationPolicy.id == turn.policy) & (EscalationPolicy.turn == turn.known)
        if not EscalationPolicy.update(turn=turn.next).where(of).execute():
            raise Overtaken(f"a turn of policy {turn.policy} was taken meanwhile")


def _columns(incident: IncidentState) -> dict[str, Any]:
    values = {name: getattr(incident, name) for name in (*STATE_COLUMNS, *STATE_REFERENCES)}
    return {**values, "status": int(incident.status), "urgency": int(incident.urgency)}


def _insert_incidents(incidents: list[IncidentState], known: dict[str, int]) -> None:
    """New rows with the account's next numbers, in their order; `known` learns their row numbers."""
    if not incidents:
        return
    account = incidents[0].account
    last = _raise_number(account, len(incidents))
    numbers = {
        incident.unique_id: last - len(incidents) + place for place, incident in enumerate(incidents, start=1)
    }
    records = [{**_columns(i), "incident_number": numbers[i.unique_id]} for i in incidents]
    bulk.insert(Incident, records)
    known.update(dict(_INCIDENT_ROWS.rows(unique_ids=list(numbers))))


_INCIDENT_ROWS = Prepared(
    lambda: Incident.select(Incident.unique_id, Incident.id).where(among(Incident.unique_id, "unique_ids"))
)


def _raise_number(account: int, by: int) -> int:
    query = Account.update(last_incident_number=Account.last_incident_number + by)
    (row,) = query.where(Account.id == account).returning(Account.last_incident_number).tuples().execute()
    number: int = row[0]
    return number


# What a move can change; the rest of an incident never changes after its creation.
_CHANGEABLE = (
    "title", "summary", "status", "urgency", "assigned_to", "escalation_policy", "sla", "team_priority",
    "acknowledged_date", "resolved_date", "collecting", "escalating", "chain", "chain_started_at",
    "next_step", "reached", "promised_from", "answered_at", "parent", "snoozed_at", "snoozed_till",
)  # fmt: skip


def _update_incidents(incidents: list[IncidentState]) -> None:
    every = [{"id": incident.row, **_columns(incident)} for incident in incidents]
    bulk.update(Incident, [{name: columns[name] for name in ("id", *_CHANGEABLE)} for columns in every])


def _write_entities(replay: _Replay, known: Mapping[str, int]) -> None:
    released = [known[unique_id] for unique_id in replay.released if unique_id in known]
    if released:
        free = {"firing": False, "incident": None, "kept_back": None}
        Entity.update(free).where(Entity.incident.in_(released)).execute()
    for unique_id in replay.reclaimed:
        _reclaim(known[unique_id])
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
            for _, entity in sorted(replay.entities.items())
        ],
        conflict=["integration", "entity_id"],
        replacing=["firing", "incident", "last_incident", "resolved_source_at", "resolved_at", "kept_back"],
    )


def _reclaim(incident: int) -> None:
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


def _insert_events(events: list[EventState], known: Mapping[str, int]) -> None:
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


def _write_additions(replay: _Replay, known: Mapping[str, int]) -> None:
    """What stands under incidents, a kind at a time."""
    _write_labels(replay, known)
    _write_responders(replay.responders, known)
    _write_roles(replay.roles.values(), known)
    _write_tasks(replay.tasks, known)


def _write_labels(replay: _Replay, known: Mapping[str, int]) -> None:
    bulk.insert(
        IncidentNote,
        [
            {
                "unique_id": note.unique_id,
                "incident": known[note.incident],
                "user": None,
                "note": note.text,
                "creation_date": note.at,
            }
            for note in replay.notes
        ],
    )
    bulk.insert(
        IncidentTag,
        [
            {
                "unique_id": tag.unique_id,
                "incident": known[tag.incident],
                "team_tag": tag.tag,
                "creation_date": tag.at,
            }
            for tag in replay.tags.values()
        ],
        conflict=["incident", "team_tag"],
    )


def _write_responders(responders: Collection[AddResponder], known: Mapping[str, int]) -> None:
    for kind in ("user", "escalation_policy"):
        bulk.insert(
            IncidentResponder,
            [
                {
                    "unique_id": responder.unique_id,
                    "incident": known[responder.incident],
                    "user": responder.user,
                    "escalation_policy": responder.escalation_policy,
                    "subject": responder.subject,
                    "message": responder.message,
                    "creation_date": responder.at,
                }
                for responder in responders
                if getattr(responder, kind) is not None
            ],
            conflict=["incident", kind],
        )


def _write_roles(roles: Collection[AssignRole], known: Mapping[str, int]) -> None:
    bulk.insert(
        IncidentAssignment,
        [
            {
                "unique_id": role.unique_id,
                "incident": known[role.incident],
                "role": role.role,
                "user": role.user,
                "creation_date": role.at,
            }
            for role in roles
        ],
        conflict=["incident", "role"],
        replacing=["user", "creation_date"],
    )


def _write_tasks(tasks: Collection[AddTask], known: Mapping[str, int]) -> None:
    bulk.insert(
        IncidentTask,
        [
            {
                "unique_id": task.unique_id,
                "incident": known[task.incident],
                "title": task.title,
                "description": task.description,
                "due_at": task.due_at,
                "role": task.role,
                "creation_date": task.at,
            }
            for task in tasks
        ],
        conflict=["unique_id"],
    )


def _fill_in_templates(replay: _Replay) -> None:
    """The tasks that templates stand for, in their order, and a word of each template in the log."""
    if not replay.templates:
        return
    found: dict[int, list[tuple[Any, ...]]] = {}
    for template, *task in _TEMPLATE_TASKS.rows(templates={template for _, template in replay.templates}):
        found.setdefault(template, []).append(tuple(task))
    for (incident, template), wanted in replay.templates.items():
        for _, at_once, unique_id, title, description, minutes, role in found.get(template, ()):
            # A task's own time counts; where it has none, the template may say that it is due at once.
            in_minutes = minutes if minutes >= 0 else 0 if at_once else None
            due_at = None if in_minutes is None else wanted.at + timedelta(minutes=in_minutes)
            name = derived_uuid("task of a template", incident, unique_id)
            replay.tasks.append(AddTask(incident, name, title, description, wanted.at, due_at, role))
        if template in found:
            reason = f"the tasks of template {found[template][0][0]}"
            replay.logs.append(RecordLog(incident, wanted.at, "tasks_added", reason, wanted.actor))


_TEMPLATE_TASKS = Prepared(
    lambda: (
        TemplateTask.select(
            TemplateTask.task_template, TaskTemplate.name, TaskTemplate.due_immediately,
            TemplateTask.unique_id, TemplateTask.title, TemplateTask.description, TemplateTask.due_in,
            TemplateTask.role,
        )
        .join(TaskTemplate)
        .where(among(TemplateTask.task_template, "templates"))
        .order_by(TemplateTask.position, TemplateTask.id)
    )
)  # fmt: skip


def _log_row(log: RecordLog, known: Mapping[str, int]) -> dict[str, Any]:
    return {
        "incident": known[log.incident],
        "at": log.at,
        "what": log.what,
        "reason": log.reason,
        "actor_kind": log.actor.kind.value,
        "user": log.actor.user,
        "alert": log.actor.alert,
    }


@dataclass(slots=True)
class _Wait:
    """A timer that waits, while arms are replayed; `row` is None until it is written."""

    timer: TimerState
    row: int | None = None
    changed: bool = False
    done_at: datetime | None = None
    outcome: str | None = None


def _write_timers(arms: list[ArmTimers], known: Mapping[str, int]) -> None:
    """Replay the arms over what waits in the store; insert what is new, end or move what is not."""
    if not arms:
        return
    pending = _pending_timers(arms, known)
    waits = _replay_arms(arms, pending, _done_once(arms, pending, known))
    bulk.insert(
        Timer,
        [
            {
                "incident": known[wait.timer.incident],
                "kind": wait.timer.kind.value,
                "key": wait.timer.key,
                "due_at": wait.timer.due_at,
                "done_at": wait.done_at,
                "outcome": wait.outcome,
            }
            for wait in waits
            if wait.row is None
        ],
    )
    bulk.update(
        Timer,
        [
            {"id": wait.row, "due_at": wait.timer.due_at, "done_at": wait.done_at, "outcome": wait.outcome}
            for wait in waits
            if wait.row is not None and wait.changed
        ],
    )


def _pending_timers(arms: list[ArmTimers], known: Mapping[str, int]) -> list[_Wait]:
    names = {known[arm.incident]: arm.incident for arm in arms}
    return [
        _Wait(TimerState(names[incident], TimerKind(kind), key, due_at), row)
        for row, incident, kind, key, due_at in _PENDING_TIMERS.rows(incidents=list(names))
    ]


_PENDING_TIMERS = Prepared(
    lambda: Timer.select(Timer.id, Timer.incident, Timer.kind, Timer.key, Timer.due_at).where(
        among(Timer.incident, "incidents"), Timer.done_at.is_null()
    )
)


def _done_once(arms: list[ArmTimers], pending: list[_Wait], known: Mapping[str, int]) -> set[tuple[str, str]]:
    """Of what is wanted: the incident and the key of what is done once, and was done before."""
    asked = {(timer.incident, timer.key) for arm in arms for timer in arm.wanted if timer.kind in ONCE}
    asked -= {(wait.timer.incident, wait.timer.key) for wait in pending}
    if not asked:
        return set()
    names = {known[incident]: incident for incident, _ in asked}
    ended = _ENDED_TIMERS.rows(incidents=list(names), keys=list({key for _, key in asked}))
    return {(names[row], key) for row, key, outcome in ended if (outcome or "").startswith(DONE_ONCE)}


_ENDED_TIMERS = Prepared(
    lambda: Timer.select(Timer.incident, Timer.key, Timer.outcome).where(
        among(Timer.incident, "incidents"), among(Timer.key, "keys"), Timer.done_at.is_null(False)
    )
)


def _replay_arms(arms: list[ArmTimers], waits: list[_Wait], done: Collection[tuple[str, str]]) -> list[_Wait]:
    by_incident: dict[str, dict[str, _Wait]] = {}
    for wait in waits:
        by_incident.setdefault(wait.timer.incident, {})[wait.timer.key] = wait
    every = list(waits)
    for arm in arms:
        waiting = by_incident.setdefault(arm.incident, {})
        wanted = {timer.key: timer for timer in arm.wanted if (arm.incident, timer.key) not in done}
        for key in [key for key in waiting if key not in wanted]:
            wait = waiting.pop(key)
            wait.done_at, wait.outcome, wait.changed = arm.at, arm.why, True
        for key, timer in wanted.items():
            if key not in waiting:
                waiting[key] = _Wait(timer)
                every.append(waiting[key])
            elif waiting[key].timer.due_at != timer.due_at:
                waiting[key].timer, waiting[key].changed = timer, True
    return every


def _void_notices(voids: Mapping[str, list[VoidNotices]], known: Mapping[str, int]) -> None:
    by_row = {known[unique_id]: said for unique_id, said in voids.items()}
    if not by_row:
        return
    records = []
    for row, incident, kind in _PENDING_NOTICES.rows(incidents=list(by_row)):
        void = next((one for one in by_row[incident] if kind in one.kinds), None)
        if void is not None:
            ended = {"state": NoticeStatus.VOID, "outcome": void.outcome, "done_at": void.at}
            records.append({"id": row, **ended})
    bulk.update(Notice, records)


# Locked in the order in which a delivery locks them, or each would wait for the other.
_PENDING_NOTICES = Prepared(
    lambda: store().for_update(
        Notice.select(Notice.id, Notice.incident, Notice.kind)
        .where(among(Notice.incident, "incidents"), Notice.state == NoticeStatus.PENDING)
        .order_by(Notice.id)
    )
)


def _expect_pings(expected: Mapping[int, datetime]) -> None:
    """Later moments take the place of earlier ones. All who write them hold the lock of the service."""
    if expected:
        known = dict(_EXPECTED_AT.rows(integrations=list(expected)))
        later = [(row, at) for row, at in expected.items() if row in known and (known[row] or at) <= at]
        bulk.update(Integration, [{"id": row, "expected_at": at} for row, at in later])


_EXPECTED_AT = Prepared(
    lambda: Integration.select(Integration.id, Integration.expected_at).where(
        among(Integration.id, "integrations"), Integration.heartbeat_every > 0
    )
)
