"""Advance the escalation run of an incident: which step is due, when, and which people it notifies.

Contract section 4.4. Delays count in minutes from the start of the run. A policy that repeats n times runs
n + 1 passes. Steps are numbered through all passes.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import chain

from models.domain.effects import CreateNotification, Effect, IncidentState
from models.domain.enums import IncidentStatus, NotificationKind
from models.domain.facts import IncidentContext, OnCallConfig, PersonFacts, PolicyFacts
from models.domain.reasons import Reason, make_reason
from models.domain.values import replace
from schedules.escalation.person_notifications import MINUTE, build_notifications, list_names
from schedules.escalation.targets import OnCallResolver, is_round_robin


def count_steps(policy: PolicyFacts) -> int:
    """Return the number of steps of a run, all passes together."""
    return len(policy.steps) * (policy.repeat + 1)


def get_next_due_at(incident: IncidentState, policy: PolicyFacts | None) -> datetime | None:
    """Return when the next step is due; None if the run is exhausted.

    If the policy was deleted during the run, the last resort is due immediately.
    """
    if is_exhausted(incident, policy):
        return None
    return (
        incident.run_started_at if policy is None else get_step_due_at(incident, policy, incident.next_step)
    )


def is_exhausted(incident: IncidentState, policy: PolicyFacts | None) -> bool:
    """Return whether the run has no step left, by the present policy.

    If the policy was deleted, the stored value counts. An exhausted run continues if its policy gets a step.
    """
    return incident.exhausted if policy is None else incident.next_step >= count_steps(policy)


def is_running(incident: IncidentState) -> bool:
    """Return whether the run continues: the incident is triggered, is not merged and still escalates."""
    is_triggered = incident.status is IncidentStatus.TRIGGERED
    return is_triggered and incident.parent is None and incident.escalating


def get_step_due_at(incident: IncidentState, policy: PolicyFacts, step: int) -> datetime:
    """Return when a step is due: start of the run, plus all completed passes, plus the delay of the step."""
    passes, index = divmod(step, len(policy.steps))
    delay = policy.steps[index].delay_minutes * MINUTE
    return incident.run_started_at + passes * _get_pass_length(policy) + delay


def _get_pass_length(policy: PolicyFacts) -> timedelta:
    """Return the last delay plus its distance from the delay before, at least a minute.

    Source: contract 4.4, row 4.
    """
    delays = [0, *(step.delay_minutes for step in policy.steps)]
    return delays[-1] * MINUTE + max(MINUTE, (delays[-1] - delays[-2]) * MINUTE)


def advance(context: IncidentContext) -> tuple[IncidentState, tuple[Effect, ...]]:
    """Take all due steps in order. Return the incident with its next step, and the effects.

    A person whom several of these steps name gets one notification for each contact and rule. The caller
    saves the incident.
    """
    incident, policy = context.incident, context.policy
    resolver = OnCallResolver(context.config, context.now)
    effects: list[Effect] = []
    # A policy that was deleted during the run names nobody either, and the run ends.
    if policy is None or _reaches_nobody(context, policy, resolver):
        effects += notify_last_resort(context)
        incident = incident.with_changes(paged_someone=True)
    if policy is None:
        return incident.with_changes(exhausted=True), tuple(effects)
    notified: set[NotifiedKey] = set()
    for step in _list_due_steps(context, policy, resolver):
        people = _list_people(incident, policy, step, resolver)
        effects += _take_step(context, policy, step, people, resolver, notified)
        incident = incident.with_changes(
            next_step=step + 1, paged_someone=incident.paged_someone or bool(people)
        )
    # The people who were on call at the start of the run may be off call when their step is due.
    if not incident.paged_someone and incident.next_step >= len(policy.steps):
        effects += notify_last_resort(context)
        incident = incident.with_changes(paged_someone=True)
    return incident.with_changes(exhausted=is_exhausted(incident, policy)), tuple(effects)


def take_step_early(
    context: IncidentContext, run: int, step: int
) -> tuple[IncidentState, tuple[Effect, ...]] | None:
    """Take the step after `step` of a run now, and all later steps so much earlier.

    Return the incident and the effects, as advance() does; None if the run is not at this step any more, or
    has no step left.
    """
    incident, policy = context.incident, context.policy
    if not is_running(incident) or policy is None or is_exhausted(incident, policy):
        return None
    if (incident.escalation_run, incident.next_step) != (run, step + 1):
        return None
    early = get_step_due_at(incident, policy, incident.next_step) - context.now
    if early <= timedelta():
        return None
    passes, index = divmod(step, len(policy.steps))
    why = make_reason("step_early", step=_describe_step(policy, index + 1, passes + 1))
    moved = incident.with_changes(run_started_at=incident.run_started_at - early)
    updated, effects = advance(replace(context, incident=moved))
    return updated, (context.build_log("escalated", why), *(_add_reason(each, why) for each in effects))


def _add_reason(effect: Effect, why: Reason) -> Effect:
    if not isinstance(effect, CreateNotification):
        return effect
    return replace(
        effect, notification=replace(effect.notification, reason=effect.notification.reason.add(why))
    )


# The person, the contact and the rule of a notification.
NotifiedKey = tuple[int, int | None, int | None]


def _list_due_steps(context: IncidentContext, policy: PolicyFacts, resolver: OnCallResolver) -> Iterator[int]:
    """Yield the steps to take now: due steps, and with `move_to_next` those after a step without people."""
    incident, skip_delay = context.incident, False
    for step in range(incident.next_step, count_steps(policy)):
        index = step % len(policy.steps)
        if get_step_due_at(incident, policy, step) > context.now and not (skip_delay and index > 0):
            return
        yield step
        skip_delay = policy.move_to_next and not resolver.get_people(policy.steps[index])


def _list_people(
    incident: IncidentState, policy: PolicyFacts, step: int, resolver: OnCallResolver
) -> list[PersonFacts]:
    """Return the people whom a step notifies: all that it names, or only the assignee (`assignee_only`)."""
    index = step % len(policy.steps)
    people = resolver.get_people(policy.steps[index])
    if index or not (policy.assignee_only and is_round_robin(policy)):
        return people
    return [person for person in people if person.row == incident.assigned_to] or people


def _reaches_nobody(context: IncidentContext, policy: PolicyFacts, resolver: OnCallResolver) -> bool:
    """Return whether the run begins now and no step of the policy names anybody.

    A policy without steps does not wait for the start of the run.
    """
    incident = context.incident
    is_early = policy.steps and context.now < incident.run_started_at
    if incident.paged_someone or incident.next_step > 0 or is_early:
        return False
    return not any(resolver.get_people(step) for step in policy.steps)


def _take_step(
    context: IncidentContext,
    policy: PolicyFacts,
    step: int,
    people: list[PersonFacts],
    resolver: OnCallResolver,
    notified: set[NotifiedKey],
) -> list[Effect]:
    passes, index = divmod(step, len(policy.steps))
    label = _describe_step(policy, index + 1, passes + 1)
    if not people:
        return [context.build_log("escalated", make_reason("step_names_nobody", step=label))]
    shifts = resolver.explain(policy.steps[index])
    is_next = not index and policy.assignee_only and is_round_robin(policy)
    round_robin = make_reason("next_in_round_robin") if is_next else None
    created: list[CreateNotification] = []
    for person in people:
        named = _explain_step(policy, index + 1, passes + 1, label)
        why = named.add(shifts.get(person.username), round_robin)
        reason_key = f"{context.incident.escalation_run}:{step}"
        created += build_notifications(context, person, NotificationKind.ESCALATION, reason_key, why)
    names = list_names(people, context.config, context.now)
    log = make_reason("step_notifies", step=label, people=names)
    return [context.build_log("escalated", log), *_drop_duplicates(created, notified)]


def _describe_step(policy: PolicyFacts, number: int, repeat: int) -> Reason:
    if repeat == 1:
        return make_reason("step", number=number, policy=policy.name)
    return make_reason("step_of_pass", number=number, policy=policy.name, repeat=repeat)


def _explain_step(policy: PolicyFacts, number: int, repeat: int, label: Reason) -> Reason:
    """Return why a step notifies a person. In a later pass, it is that nobody has acknowledged."""
    if repeat == 1:
        return make_reason("named_by_step", step=label)
    if number == 1:
        return make_reason("policy_begins_again", policy=policy.name, repeat=repeat, number=number)
    return make_reason("policy_goes_on", policy=policy.name, repeat=repeat, number=number)


def _drop_duplicates(
    created: Iterable[CreateNotification], notified: set[NotifiedKey]
) -> Iterator[CreateNotification]:
    """Yield notifications with a new person, contact and rule, and add these to `notified`."""
    for effect in created:
        key = (effect.notification.user, effect.notification.contact, effect.notification.rule)
        if key not in notified:
            notified.add(key)
            yield effect


def notify_last_resort(context: IncidentContext) -> list[Effect]:
    """Notify the team's managers, or else the account's owner, since the run reaches nobody.

    Invariant 9 (design, section 2).
    """
    incident, policy = context.incident, context.policy
    cause = make_reason("policy_reaches_nobody", policy=policy.name) if policy else make_reason("no_policy")
    people, whom = get_last_resort(context.config)
    why = cause.add(whom)
    # If the run begins later, the last resort is notified later too.
    later = replace(context, now=max(context.now, incident.run_started_at))
    kind, reason_key = NotificationKind.NOBODY_PAGED, str(incident.escalation_run)
    created = [build_notifications(later, person, kind, reason_key, why) for person in people]
    return [context.build_log("escalated", why), *chain.from_iterable(created)]


def get_last_resort(config: OnCallConfig) -> tuple[list[PersonFacts], Reason]:
    """Return the people to notify if nobody else is notified, and the reason that names their role."""
    managers = [config.people[name] for name in config.managers if name in config.people]
    if managers:
        return managers, make_reason("managers_notified")
    owner = config.people.get(config.owner or "")
    return [owner] if owner else [], make_reason("owner_notified")
