"""Effects to rows, in bulk, inside the caller's transaction.

The number of statements does not depend on the number of alerts: each kind of row is read at most
once and written at most twice. Effects are replayed in their order in memory first, so that what is
written is the same however the alerts were cut into batches.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from models.effects import (
    AddNote,
    AddResponder,
    AddTag,
    AddTask,
    ApplyTaskTemplate,
    ArmTimers,
    AssignRole,
    EntityState,
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
    VoidNotices,
)
from models.teams import EscalationPolicy
from models.writing import additions
from models.writing.entities import insert_events, reclaim_entities, release_entities, write_entities
from models.writing.heartbeats import expect_pings
from models.writing.incidents import insert_incidents, insert_logs, update_incidents
from models.writing.notices import Owed, void_owed, write_notices
from models.writing.timers import write_timers


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
    released: list[ReleaseEntities] = field(default_factory=list)
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
    update_incidents([i for i in replay.incidents.values() if i.row is not None])
    insert_incidents([i for i in replay.incidents.values() if i.row is None], known)
    release_entities(replay.released, known)
    for unique_id in replay.reclaimed:
        reclaim_entities(known[unique_id])
    write_entities(replay.entities.values(), known)
    insert_events(outcome.events, known)
    tasks, logs = additions.filled_in(replay.templates)
    insert_logs([*replay.logs, *logs], known)
    additions.write_notes(replay.notes, known)
    additions.write_tags(replay.tags.values(), known)
    additions.write_responders(replay.responders, known)
    additions.write_roles(replay.roles.values(), known)
    additions.write_tasks([*replay.tasks, *tasks], known)
    write_timers(replay.arms, known)
    void_owed(replay.voids, known)
    expect_pings(replay.expected)
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
            case ReleaseEntities(unique_id, is_seen):
                replay.released.append(effect)
                replay.entities = {
                    key: entity.released(is_seen=is_seen) if entity.incident == unique_id else entity
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
