"""The chain of an incident: whose turn it is, when the next step is due, and who is owed word of it.

Contract section 4.4. Delays count in minutes from the moment the chain began; a policy repeated n
times runs n + 1 passes; steps are numbered through all passes.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from models.effects import Actor, Effect, IncidentState, NoticeState, OweNotice, RecordLog
from models.enums import IncidentStatus, NoticeKind
from models.facts import Directory, PersonFacts, PolicyFacts
from schedules.notices import MINUTE, named, notices_for
from schedules.targets import Duty, is_by_turns


def chain_length(policy: PolicyFacts) -> int:
    """How many steps the chain has, all passes together."""
    return len(policy.steps) * (policy.repeat + 1)


def next_due_at(incident: IncidentState, policy: PolicyFacts | None) -> datetime | None:
    """When the chain goes on; None where it is over. One whose policy was deleted in its middle has
    its last word due at once."""
    if is_over(incident, policy):
        return None
    return incident.chain_started_at if policy is None else due_at(incident, policy, incident.next_step)


def is_over(incident: IncidentState, policy: PolicyFacts | None) -> bool:
    """Whether no step of its chain lies ahead, by the policy as it is now; by what was kept of it where the
    policy is gone. One that was over goes on when its policy is made longer."""
    return incident.chain_over if policy is None else incident.next_step >= chain_length(policy)


def is_climbing(incident: IncidentState) -> bool:
    """Whether it is on its chain: it waits for an answer, for itself, and nobody took it over."""
    is_triggered = incident.status is IncidentStatus.TRIGGERED
    return is_triggered and incident.parent is None and incident.escalating


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
    duty = Duty(directory, now)
    effects: list[Effect] = []
    # A policy that was deleted in the middle of a chain names nobody either, and that is the chain's end.
    if policy is None or _begins_with_nobody(incident, policy, duty, now):
        effects += tell_somebody(incident, directory, actor, now)
        incident = incident.but(reached=True)
    if policy is None:
        return incident.but(chain_over=True), tuple(effects)
    told: set[Told] = set()
    for step in _due_steps(incident, policy, duty, now):
        people = _people(incident, policy, step, duty)
        effects += _take(incident, policy, step, people, directory, duty, actor, now, told)
        incident = incident.but(next_step=step + 1, reached=incident.reached or bool(people))
    # Whoever was on call when the chain began need not have been when it was their turn.
    if not incident.reached and incident.next_step >= len(policy.steps):
        effects += tell_somebody(incident, directory, actor, now)
        incident = incident.but(reached=True)
    return incident.but(chain_over=is_over(incident, policy)), tuple(effects)


# The person, the contact and the rule of a notice.
Told = tuple[int, int | None, int | None]


def _due_steps(incident: IncidentState, policy: PolicyFacts, duty: Duty, now: datetime) -> Iterator[int]:
    """The steps to take now: those that are due, and those that follow a step with nobody in it."""
    hurry = False
    for step in range(incident.next_step, chain_length(policy)):
        index = step % len(policy.steps)
        if due_at(incident, policy, step) > now and not (hurry and index > 0):
            return
        yield step
        hurry = policy.move_to_next and not duty.people_of(policy.steps[index])


def _people(incident: IncidentState, policy: PolicyFacts, step: int, duty: Duty) -> list[PersonFacts]:
    """Who is told by a step: all whom it names or, where turns are told alone, who had this one."""
    index = step % len(policy.steps)
    people = duty.people_of(policy.steps[index])
    if index or not (policy.alone and is_by_turns(policy)):
        return people
    return [person for person in people if person.row == incident.assigned_to] or people


def _begins_with_nobody(incident: IncidentState, policy: PolicyFacts, duty: Duty, now: datetime) -> bool:
    """Whether a chain begins, and none of its steps would reach anybody. One without steps never begins."""
    if incident.reached or incident.next_step > 0 or (policy.steps and now < incident.chain_started_at):
        return False
    return not any(duty.people_of(step) for step in policy.steps)


def _take(
    incident: IncidentState,
    policy: PolicyFacts,
    step: int,
    people: list[PersonFacts],
    directory: Directory,
    duty: Duty,
    actor: Actor,
    now: datetime,
    told: set[Told],
) -> list[Effect]:
    passes, index = divmod(step, len(policy.steps))
    label = f"step {index + 1} of policy {policy.name}" + (f", pass {passes + 1}" if passes else "")
    if not people:
        return [RecordLog(incident.unique_id, now, "escalated", f"{label}: nobody there", actor)]
    why, had_turn = duty.why(policy.steps[index]), not index and policy.alone and is_by_turns(policy)
    notices: list[NoticeState] = []
    for person in people:
        reasons = (f"named by {label}", why.get(person.username, ""), "whose turn it was" if had_turn else "")
        reason = ", ".join(said for said in reasons if said)
        occasion = f"{incident.chain}:{step}"
        notices += notices_for(incident, person, NoticeKind.ESCALATION, occasion, reason, directory, now)
    names = ", ".join(named(person, directory, now) for person in people)
    log = RecordLog(incident.unique_id, now, "escalated", f"{label}: {names}", actor)
    return [log, *(OweNotice(notice) for notice in _fresh(notices, told))]


def _fresh(notices: Iterable[NoticeState], told: set[Told]) -> Iterator[NoticeState]:
    """Those that tell somebody who is not told yet, and that they are from now on."""
    for notice in notices:
        who = (notice.user, notice.contact, notice.rule)
        if who not in told:
            told.add(who)
            yield notice


def tell_somebody(incident: IncidentState, directory: Directory, actor: Actor, now: datetime) -> list[Effect]:
    """A chain that reaches nobody tells the team's managers, then the owner (law 9)."""
    policy = directory.policies.get(incident.escalation_policy or 0)
    why = f"policy {policy.name} reaches nobody" if policy else "there is no escalation policy"
    people, whom = last_resort(directory)
    # A chain that is to begin later has its last resort later too.
    at, occasion = max(now, incident.chain_started_at), str(incident.chain)
    notices = [
        notice
        for person in people
        for notice in notices_for(
            incident, person, NoticeKind.NOBODY_REACHED, occasion, f"{why}: {whom} told", directory, at
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
