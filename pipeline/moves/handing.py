"""Handed on: to a person, another policy, another SLA, another urgency; and who has which role."""

from collections.abc import Iterable
from datetime import datetime

from models.effects import (
    Actor,
    AssignRole,
    Effect,
    IncidentState,
    OweNotice,
    RecordLog,
    SaveIncident,
    VoidNotices,
)
from models.enums import BY_RULES, PROMISED, IncidentStatus, NoticeKind, Urgency
from models.facts import Directory, Named, PersonFacts, ServiceFacts, TellingFacts
from pipeline.moves.chain import new_chain, rearm, start, woken
from schedules.notices import notices_anew, notices_for, recipient, told_at
from schedules.targets import assignee

# Who has an incident, and where it goes, is no concern of what its SLA promises, nor of those who were asked
# to help.
_HANDED_ON = frozenset(NoticeKind) - PROMISED - {NoticeKind.RESPONDER}
_ASSIGNED = frozenset({NoticeKind.ASSIGNMENT})


def assign(
    incident: IncidentState,
    person: PersonFacts | None,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
    reason: str = "",
) -> tuple[Effect, ...]:
    """Somebody takes it over: escalation stops, that person is told, a sleep ends (contract 4.3).

    Left to nobody, the chain that was stopped for somebody begins anew, unless it was acknowledged.
    """
    row = person.row if person else None
    if incident.assigned_to == row:
        return ()
    name = person.name if person else "nobody"
    why = _because(f"assigned to {name} by {actor.name}", reason)
    log = RecordLog(incident.unique_id, now, "assigned", why, actor)
    awake = woken(incident, now).but(assigned_to=row)
    if not incident.is_open:
        return (log, *rearm(awake, service, directory, now, why))
    if person is None:
        void = VoidNotices(incident.unique_id, now, why, _ASSIGNED)
        if incident.status is IncidentStatus.TRIGGERED and not incident.escalating:
            return (void, log, *start(new_chain(awake, now), service, directory, actor, now))
        return (void, log, *rearm(awake, service, directory, now, why))
    # Each assignment is a reason of its own, so it gets a chain number of its own.
    taken = awake.but(escalating=False, chain=awake.chain + 1)
    notices = notices_for(
        taken, person, NoticeKind.ASSIGNMENT, str(taken.chain), f"assigned by {actor.name}", directory, now
    )
    owed = [OweNotice(notice) for notice in notices]
    return (
        VoidNotices(incident.unique_id, now, why, _HANDED_ON),
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
    stay as it is; who keeps it is then told of it still, by the chain if that names them.
    """
    if incident.escalation_policy == policy:
        return ()
    found = directory.policies.get(policy or 0)
    why = _because(f"escalation policy changed to {found.name if found else 'none'} by {actor.name}", reason)
    log = RecordLog(incident.unique_id, now, "rerouted", why, actor)
    changed = woken(incident, now).but(escalation_policy=policy)
    if incident.status is not IncidentStatus.TRIGGERED:
        return (log, *rearm(changed, service, directory, now, why))
    begun = new_chain(changed, now)
    turn: tuple[Effect, ...] = ()
    if not keeps_assignee:
        person, turn = assignee(found, directory, directory.turns.get(policy or 0, 0), now)
        begun = begun.but(assigned_to=person.row if person else None)
    started = start(begun, service, directory, actor, now)
    told = {effect.notice.user for effect in started if isinstance(effect, OweNotice)}
    at = told_at(directory, now)
    # Whoever has it, and is named by the chain, is known; or somebody is told in their place.
    keeper = {recipient(one, at).row for one in directory.people.values() if one.row == begun.assigned_to}
    over = _HANDED_ON - _ASSIGNED if keeps_assignee and not keeper & told else _HANDED_ON
    return (VoidNotices(incident.unique_id, now, why, over), log, *turn, *started)


def change_urgency(
    incident: IncidentState, urgency: Urgency, tellings: Iterable[TellingFacts], actor: Actor, now: datetime
) -> tuple[Effect, ...]:
    """Another urgency: by its rules people are told from now on. `tellings` are what they were told so far,
    and are to be told."""
    raised = urgency > incident.urgency
    why = f"urgency {'raised' if raised else 'lowered'} by {actor.name}"
    changed = incident.but(urgency=urgency)
    owed = notices_anew(changed, tellings, raised=raised, why=why, now=now)
    return (
        SaveIncident(changed),
        VoidNotices(incident.unique_id, now, why, BY_RULES),
        *(OweNotice(notice) for notice in owed),
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
