"""The chain of an incident: whose turn it is, when the next step is due, and who is owed word of it.

Contract section 4.4. Delays count in minutes from the moment the chain began; a policy repeated n
times runs n + 1 passes; steps are numbered through all passes.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from models.effects import Actor, Effect, IncidentState, NoticeState, OweNotice, RecordLog
from models.enums import ContactType, NoticeKind
from models.facts import Directory, PersonFacts, PolicyFacts

MINUTE = timedelta(minutes=1)


def chain_length(policy: PolicyFacts) -> int:
    """How many steps the chain has, all passes together."""
    return len(policy.steps) * (policy.repeat + 1)


def due_at(incident: IncidentState, policy: PolicyFacts, step: int) -> datetime:
    """When a step is due: its delay after the chain began, plus the passes before it."""
    passes, index = divmod(step, len(policy.steps))
    delay = policy.steps[index].delay_minutes * MINUTE
    return incident.chain_started_at + passes * _pass_length(policy) + delay


def _pass_length(policy: PolicyFacts) -> timedelta:
    """The last delay and once more the gap before it, at least a minute (contract 4.4, row 4)."""
    delays = [0, *(step.delay_minutes for step in policy.steps)]
    return delays[-1] * MINUTE + max(MINUTE, (delays[-1] - delays[-2]) * MINUTE)


def advance(
    incident: IncidentState, directory: Directory, actor: Actor, now: datetime
) -> tuple[IncidentState, tuple[Effect, ...]]:
    """Take every step that is due, in order; one notice per person and contact, however many steps.

    The incident comes back with its next step; it is for the caller to save it.
    """
    policy = directory.policies.get(incident.escalation_policy or 0)
    effects: list[Effect] = []
    # A policy that was deleted in the middle of a chain names nobody either.
    if policy is None or (incident.next_step == 0 and not _names_anybody(policy, directory)):
        effects += tell_somebody(incident, directory, actor, now)
    if policy is None:
        return incident, tuple(effects)
    told: set[tuple[int, int | None, int | None]] = set()
    for step in _due_steps(incident, policy, directory, now):
        effects += _take(incident, policy, step, directory, actor, now, told)
        incident = incident.but(next_step=step + 1)
    return incident, tuple(effects)


def _due_steps(
    incident: IncidentState, policy: PolicyFacts, directory: Directory, now: datetime
) -> Iterator[int]:
    """The steps to take now: those that are due, and those that follow a step with nobody in it."""
    hurry = False
    for step in range(incident.next_step, chain_length(policy)):
        index = step % len(policy.steps)
        if due_at(incident, policy, step) > now and not (hurry and index > 0):
            return
        yield step
        hurry = policy.move_to_next and not _people(policy, index, directory)


def _people(policy: PolicyFacts, index: int, directory: Directory) -> list[PersonFacts]:
    usernames = dict.fromkeys(policy.steps[index].usernames)
    return [directory.people[name] for name in usernames if name in directory.people]


def _names_anybody(policy: PolicyFacts | None, directory: Directory) -> bool:
    return policy is not None and any(_people(policy, index, directory) for index in range(len(policy.steps)))


def first_people(policy: PolicyFacts | None, directory: Directory) -> list[PersonFacts]:
    """The people of the first step that has any."""
    if policy is None:
        return []
    people = (_people(policy, index, directory) for index in range(len(policy.steps)))
    return next((found for found in people if found), [])


def first_person(policy: PolicyFacts | None, directory: Directory) -> PersonFacts | None:
    """To whom a new incident is assigned: the first person of the first step that has one."""
    return next(iter(first_people(policy, directory)), None)


def _take(
    incident: IncidentState,
    policy: PolicyFacts,
    step: int,
    directory: Directory,
    actor: Actor,
    now: datetime,
    told: set[tuple[int, int | None, int | None]],
) -> list[Effect]:
    passes, index = divmod(step, len(policy.steps))
    label = f"step {index + 1} of policy {policy.name}" + (f", pass {passes + 1}" if passes else "")
    people = _people(policy, index, directory)
    if not people:
        return [RecordLog(incident.unique_id, now, "escalated", f"{label}: nobody there", actor)]
    notices = [
        notice
        for person in people
        for notice in notices_for(
            incident, person, NoticeKind.ESCALATION, f"{incident.chain}:{step}", f"named by {label}", now
        )
    ]
    fresh = [n for n in notices if (n.user, n.contact, n.rule) not in told]
    told.update((n.user, n.contact, n.rule) for n in notices)
    names = ", ".join(person.name for person in people)
    log = RecordLog(incident.unique_id, now, "escalated", f"{label}: {names}", actor)
    return [log, *(OweNotice(notice) for notice in fresh)]


def tell_somebody(incident: IncidentState, directory: Directory, actor: Actor, now: datetime) -> list[Effect]:
    """A chain that reaches nobody tells the team's managers, then the owner (law 9)."""
    policy = directory.policies.get(incident.escalation_policy or 0)
    why = f"policy {policy.name} reaches nobody" if policy else "there is no escalation policy"
    people, whom = last_resort(directory)
    # A chain that is to begin later has its last resort later too.
    at = max(now, incident.chain_started_at)
    notices = [
        notice
        for person in people
        for notice in notices_for(
            incident, person, NoticeKind.NOBODY_REACHED, str(incident.chain), f"{why}: {whom} told", at
        )
    ]
    log = RecordLog(incident.unique_id, now, "escalated", f"{why}: {whom} told", actor)
    return [log, *(OweNotice(notice) for notice in notices)]


def last_resort(directory: Directory) -> tuple[list[PersonFacts], str]:
    """Who is told when nobody is reached, and what to call them."""
    managers = [directory.people[name] for name in directory.managers if name in directory.people]
    if managers:
        return managers, "the team's managers"
    owner = directory.people.get(directory.owner or "")
    return [owner] if owner else [], "the account's owner"


def owed_for(incident: str, kind: NoticeKind, occasion: str) -> str:
    """What the keys of all notices begin with that an incident owes for one reason."""
    return f"{incident}:{kind}:{occasion}:"


def notices_for(
    incident: IncidentState,
    person: PersonFacts,
    kind: NoticeKind,
    occasion: str,
    reason: str,
    now: datetime,
) -> list[NoticeState]:
    """What a person is owed: a notice per notification rule of the incident's urgency.

    Somebody without such a rule is told at the address of the account, at once. `occasion` tells
    one reason of this kind from the next (the chain and step).
    """
    rules = [rule for rule in person.rules if rule.urgency is incident.urgency]
    prefix = f"{owed_for(incident.unique_id, kind, occasion)}{person.username}"
    if not rules:
        urgency = incident.urgency.name.lower()
        return [
            NoticeState(
                key=f"{prefix}:account:-",
                incident=incident.unique_id,
                user=person.row,
                contact=None,
                channel=ContactType.EMAIL,
                rule=None,
                kind=kind,
                reason=f"{reason}; no usable rule for {urgency} urgency, so the account's address",
                not_before=now,
                bundle=f"{kind}:{occasion}:0",
            )
        ]
    return [
        NoticeState(
            key=f"{prefix}:{rule.contact}:{rule.row}",
            incident=incident.unique_id,
            user=person.row,
            contact=rule.contact,
            channel=rule.channel,
            rule=rule.row,
            kind=kind,
            reason=reason,
            not_before=now + rule.start_delay_minutes * MINUTE,
            bundle=f"{kind}:{occasion}:{rule.start_delay_minutes}",
        )
        for rule in rules
    ]
