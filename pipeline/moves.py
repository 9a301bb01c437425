"""The incident state machine: what it means to acknowledge, resolve, reopen, assign or re-route.

Used alike by alerts, timers, the HTTP interface and signed links. Each function answers with the
whole change; nothing here looks at a clock or a table. Contract sections 4.3 and 4.4.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from models.effects import (
    Actor,
    ApplyTaskTemplate,
    ArmTimers,
    AssignRole,
    Effect,
    IncidentState,
    OweNotice,
    ReclaimEntities,
    RecordLog,
    ReleaseEntities,
    SaveIncident,
    VoidNotices,
)
from models.enums import PROMISED, IncidentStatus, NoticeKind
from models.facts import Directory, Named, PersonFacts, ServiceFacts
from schedules import escalation, timers
from schedules.notices import notices_for, recipient, told_at
from schedules.targets import assignee

# Whom a chain may name that does not go on.
NOBODY = Directory()

# Who has an incident, and where it goes, is no concern of what its SLA promises; nor is an answer of its end.
_UNPROMISED = frozenset(NoticeKind) - PROMISED
_ANSWERED = frozenset(NoticeKind) - {NoticeKind.SLA_RESOLVE}


def rearm(
    incident: IncidentState,
    service: ServiceFacts | None,
    directory: Directory,
    now: datetime,
    why: str = "planned anew",
) -> tuple[Effect, ...]:
    """The incident as it is now, and exactly the timers that follow from it."""
    armed = ArmTimers(incident.unique_id, timers.wanted(incident, service, directory), now, why)
    return (SaveIncident(incident), armed)


def open_incident(
    incident: IncidentState,
    actor: Actor,
    now: datetime,
    reason: str,
    *,
    templates: Iterable[int | None] = (),
) -> tuple[Effect, ...]:
    """A new incident, logged, with the tasks of these templates. `start` must follow: it tells people and
    sets the timers."""
    name = incident.unique_id
    tasks = [ApplyTaskTemplate(name, template, now, actor) for template in templates if template]
    return (SaveIncident(incident), RecordLog(name, now, "opened", reason, actor), *tasks)


def start(
    incident: IncidentState,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
) -> tuple[Effect, ...]:
    """Begin the chain: the steps that are due at once, and the timer of the next."""
    incident, effects = escalation.advance(incident, directory, actor, now)
    return (*effects, *rearm(incident, service, directory, now, "first step taken"))


def start_assigned(
    incident: IncidentState,
    person: PersonFacts | None,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
) -> tuple[Effect, ...]:
    """Begin the chain of a new incident that somebody was chosen for: they are told, by it or besides it."""
    effects = start(incident, service, directory, actor, now)
    if person is None:
        return effects
    # A chain that begins later tells its first people then: who is on call by then is not known.
    at = max(now, incident.chain_started_at)
    known = directory if at == now else replace(directory, schedules={})
    _, first = escalation.advance(incident, known, actor, at)
    told = recipient(person, told_at(directory, at))
    if any(effect.notice.user == told.row for effect in first if isinstance(effect, OweNotice)):
        return effects
    reason = f"assigned by {actor.name}"
    notices = notices_for(incident, person, NoticeKind.ASSIGNMENT, "0", reason, directory, at)
    return (*effects, *(OweNotice(notice) for notice in notices))


def move(
    incident: IncidentState,
    to: IncidentStatus,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
    reason: str,
    children: Iterable[IncidentState] = (),
) -> tuple[Effect, ...]:
    """Any state to any state (contract 4.3); nothing when it is there already.

    Resolved, it takes with it those of its `children` that are open. Triggered again or reopened, it is
    awake and stands alone.
    """
    if incident.status is to:
        return ()
    if to is IncidentStatus.TRIGGERED:
        return _trigger_again(incident, service, directory, actor, now, reason)
    reopened = () if incident.is_open else _back(incident, actor, now)
    if to is IncidentStatus.ACKNOWLEDGED:
        # A reopened one has its whole time again, or its time-outs would be over at once.
        before = incident if incident.is_open else _reopened(incident, now).but(acknowledged_date=None)
        moved = before.but(
            status=to,
            acknowledged_date=before.acknowledged_date or now,
            answered_at=before.answered_at or now,
            resolved_date=None,
            assigned_to=before.assigned_to or actor.user,
        )
        word, over = "acknowledged", _ANSWERED
        freed: tuple[Effect, ...] = ()
    else:
        moved = _awake(incident).but(status=to, resolved_date=now, collecting=False)
        word, over = "resolved", frozenset(NoticeKind)
        freed = (
            ReleaseEntities(incident.unique_id, actor.is_person),
            *_children_resolved(incident, children, actor, now),
        )
    why = f"{word} by {actor.name}"
    return (
        *rearm(moved, service, directory, now, why),
        *freed,
        *reopened,
        VoidNotices(incident.unique_id, now, why, over),
        RecordLog(incident.unique_id, now, word, reason, actor),
    )


def _trigger_again(
    incident: IncidentState,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
    reason: str,
) -> tuple[Effect, ...]:
    reopened = _back(incident, actor, now)
    begun = _new_chain(incident, now) if incident.is_open else _reopened(incident, now)
    again = begun.but(status=IncidentStatus.TRIGGERED, acknowledged_date=None, resolved_date=None)
    return (
        *reopened,
        RecordLog(incident.unique_id, now, "triggered", reason, actor),
        *start(again, service, directory, actor, now),
    )


def _back(incident: IncidentState, actor: Actor, now: datetime) -> tuple[Effect, ...]:
    """What an incident takes back that needs somebody again, and that it does so by itself."""
    entities = () if incident.is_open else (ReclaimEntities(incident.unique_id),)
    if incident.parent is None:
        return entities
    return (
        *entities,
        RecordLog(incident.unique_id, now, "unmerged", "it needs somebody by itself again", actor),
    )


def _children_resolved(
    incident: IncidentState, children: Iterable[IncidentState], actor: Actor, now: datetime
) -> tuple[Effect, ...]:
    reason = f"merged into {_called(incident)}, which is resolved"
    over = [move(child, IncidentStatus.RESOLVED, None, NOBODY, actor, now, reason) for child in children]
    return tuple(effect for effects in over for effect in effects)


def _called(incident: IncidentState) -> str:
    """As people call it; they know of no other before they can ask for anything."""
    return f"#{incident.number}"


def _awake(incident: IncidentState) -> IncidentState:
    return incident.but(snoozed_at=None, snoozed_till=None)


def _new_chain(incident: IncidentState, now: datetime) -> IncidentState:
    """All begins anew: awake, on its own, every time-out with its whole time."""
    begun = incident.but(escalating=True, chain=incident.chain + 1, chain_started_at=now, next_step=0)
    return _awake(begun).but(reached=False, parent=None)


def _reopened(incident: IncidentState, now: datetime) -> IncidentState:
    """Open again: its promises run anew too."""
    return _new_chain(incident, now).but(promised_from=now, answered_at=None)


def _woken(incident: IncidentState, now: datetime) -> IncidentState:
    """As it is, but for a sleep: what it put off must not all be over at once."""
    return incident if incident.snoozed_till is None else _new_chain(incident, now)


def assign(
    incident: IncidentState,
    person: PersonFacts | None,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
    reason: str = "",
) -> tuple[Effect, ...]:
    """Somebody takes it over: escalation stops, that person is told, a sleep ends (contract 4.3)."""
    row = person.row if person else None
    if incident.assigned_to == row:
        return ()
    name = person.name if person else "nobody"
    why = _because(f"assigned to {name} by {actor.name}", reason)
    log = RecordLog(incident.unique_id, now, "assigned", why, actor)
    awake = _woken(incident, now).but(assigned_to=row)
    if person is None or not incident.is_open:
        return (log, *rearm(awake, service, directory, now, why))
    # Each assignment is a reason of its own, so it gets a chain number of its own.
    taken = awake.but(escalating=False, chain=awake.chain + 1)
    notices = notices_for(
        taken, person, NoticeKind.ASSIGNMENT, str(taken.chain), f"assigned by {actor.name}", directory, now
    )
    owed = [OweNotice(notice) for notice in notices]
    return (
        VoidNotices(incident.unique_id, now, why, _UNPROMISED),
        log,
        *owed,
        *rearm(taken, service, directory, now, why),
    )


def give_role(
    incident: str, unique_id: str, role: Named, person: Named, actor: Actor, now: datetime
) -> tuple[Effect, ...]:
    """A person has a role in an incident from now on, in the place of whoever had it."""
    reason = f"{role.name} is {person.name} by {actor.name}"
    log = RecordLog(incident, now, "role_given", reason, actor)
    return (AssignRole(incident, unique_id, role.row, person.row, now), log)


def change_policy(
    incident: IncidentState,
    policy: int | None,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
    reason: str = "",
    *,
    keeps_assignee: bool = False,
) -> tuple[Effect, ...]:
    """Another escalation policy: its chain starts from the first rule, a sleep ends (contract 4.3).

    Where nobody has acknowledged, it is assigned as a new incident of that policy is, unless it is said to
    stay as it is.
    """
    if incident.escalation_policy == policy:
        return ()
    found = directory.policies.get(policy or 0)
    why = _because(f"escalation policy changed to {found.name if found else 'none'} by {actor.name}", reason)
    log = RecordLog(incident.unique_id, now, "rerouted", why, actor)
    changed = _woken(incident, now).but(escalation_policy=policy)
    if incident.status is not IncidentStatus.TRIGGERED:
        return (log, *rearm(changed, service, directory, now, why))
    begun = _new_chain(changed, now)
    turn: tuple[Effect, ...] = ()
    if not keeps_assignee:
        person, turn = assignee(found, directory, directory.turns.get(policy or 0, 0), now)
        begun = begun.but(assigned_to=person.row if person else None)
    return (
        VoidNotices(incident.unique_id, now, why, _UNPROMISED),
        log,
        *turn,
        *start(begun, service, directory, actor, now),
    )


def change_sla(
    incident: IncidentState,
    sla: int | None,
    service: ServiceFacts | None,
    directory: Directory,
    now: datetime,
    why: str,
) -> tuple[Effect, ...]:
    """Another SLA, or none: what it promises is counted from when this one's was; what this one still owed is
    owed no more."""
    return (
        VoidNotices(incident.unique_id, now, why, PROMISED),
        *rearm(incident.but(sla=sla), service, directory, now, why),
    )


def _because(what: str, reason: str) -> str:
    return f"{what}: {reason}" if reason else what


def against_snoozing(incident: IncidentState) -> str | None:
    """Why it cannot be put to sleep, in words."""
    if incident.status is not IncidentStatus.ACKNOWLEDGED:
        return "Only an acknowledged incident can be snoozed."
    return None if incident.parent is None else "It is merged into another one, and silent already."


def snooze(
    incident: IncidentState,
    until: datetime,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
) -> tuple[Effect, ...]:
    """Nothing more is heard of an acknowledged incident until then, when it is triggered again."""
    why = f"until {until:%Y-%m-%d %H:%M:%S} UTC by {actor.name}"
    asleep = incident.but(snoozed_at=now, snoozed_till=until)
    return (
        VoidNotices(incident.unique_id, now, f"snoozed {why}", _UNPROMISED),
        RecordLog(incident.unique_id, now, "snoozed", why, actor),
        *rearm(asleep, service, directory, now, f"snoozed {why}"),
    )


def wake(
    incident: IncidentState,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
) -> tuple[Effect, ...]:
    """Acknowledged as before its sleep, its time-outs with their whole time; nothing when it is awake."""
    if incident.snoozed_till is None:
        return ()
    why = f"woken by {actor.name}"
    log = RecordLog(incident.unique_id, now, "woken", why, actor)
    return (log, *rearm(_woken(incident, now), service, directory, now, why))


def against_merging(parent: IncidentState, children: Sequence[IncidentState]) -> str | None:
    """Why these cannot be merged into that one, in words that name them."""
    if not parent.is_open or parent.parent is not None:
        return f"{_called(parent)} is {'resolved' if parent.parent is None else 'merged into another one'}."
    for child in children:
        if child.row == parent.row:
            return "An incident cannot be merged into itself."
        if not child.is_open:
            return f"{_called(child)} is resolved."
        if child.parent is not None:
            return f"{_called(child)} is merged into another one, or into this, already."
    return None


def merge(
    parent: IncidentState,
    children: Sequence[IncidentState],
    grandchildren: Iterable[IncidentState],
    actor: Actor,
    now: datetime,
) -> tuple[Effect, ...]:
    """These become children of the parent: acknowledged and silent (contract 4.3).

    `grandchildren`, all that is merged into them, become its children too: families have two generations.
    Nothing may be against it, see `against_merging`.
    """
    names = ", ".join(map(_called, children))
    said = RecordLog(parent.unique_id, now, "merged", f"{names} merged into it by {actor.name}", actor)
    why = f"merged into {_called(parent)} by {actor.name}"
    taken = [_taken_in(child, parent, actor, now, why) for child in children]
    moved = [_moved_over(child, parent, actor, now, why) for child in grandchildren]
    return (said, *(effect for effects in (*taken, *moved) for effect in effects))


def _taken_in(
    child: IncidentState, parent: IncidentState, actor: Actor, now: datetime, why: str
) -> tuple[Effect, ...]:
    # What its service is told from here on must not be gathered where nobody hears of it.
    merged = _awake(child).but(parent=parent.row, collecting=False)
    acknowledged = move(merged, IncidentStatus.ACKNOWLEDGED, None, NOBODY, actor, now, why)
    return (
        *acknowledged,
        RecordLog(child.unique_id, now, "merged", why, actor),
        VoidNotices(child.unique_id, now, why),
        *rearm(after(merged, acknowledged), None, NOBODY, now, why),
    )


def _moved_over(
    child: IncidentState, parent: IncidentState, actor: Actor, now: datetime, why: str
) -> tuple[Effect, ...]:
    log = RecordLog(child.unique_id, now, "merged", f"its parent is {why}", actor)
    return (SaveIncident(child.but(parent=parent.row)), log)


def unmerge(
    child: IncidentState,
    parent: IncidentState,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
) -> tuple[Effect, ...]:
    """Stands alone again, acknowledged or resolved as it is, its time-outs with their whole time.

    Who is acknowledged or resolved has no chain: of the directory, only what SLAs promise is asked for.
    """
    why = f"no longer merged into {_called(parent)}, said {actor.name}"
    alone = _new_chain(child, now) if child.is_open else child.but(parent=None)
    log = RecordLog(child.unique_id, now, "unmerged", why, actor)
    return (log, *rearm(alone, service, directory, now, why))


def after(incident: IncidentState, effects: Iterable[Effect]) -> IncidentState:
    """The incident as these effects leave it."""
    said = [effect.incident for effect in effects if isinstance(effect, SaveIncident)]
    return next((one for one in reversed(said) if one.unique_id == incident.unique_id), incident)
