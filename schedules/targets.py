"""Whom a policy names at a moment: the people of its steps, and who an incident is assigned to.

Contract section 4.4. The interface's questions about who is on call are answered by `people_of` too.
"""

from datetime import datetime

from models.effects import Effect, TakeTurn
from models.enums import TargetType
from models.facts import Directory, PersonFacts, PolicyFacts, StepFacts, StepTarget
from schedules.oncall import on_call


def people_of(step: StepFacts, directory: Directory, at: datetime) -> list[PersonFacts]:
    """Everybody whom a step names, in its order and each once: persons, and whoever is on call by schedules.

    Those who left are nobody, and so is a schedule that was deleted.
    """
    named = {name: None for target in step.targets for name in _usernames(target, directory, at)}
    return [directory.people[name] for name in named if name in directory.people]


def _usernames(target: StepTarget, directory: Directory, at: datetime) -> list[str]:
    if target.kind is TargetType.USER:
        return [target.name]
    schedule = directory.schedules.get(target.name)
    if schedule is None:
        return []
    # What has waited for long is for those who are on call by now.
    moment = max(at, directory.told_from) if directory.told_from else at
    return [shift.username for shift in on_call(schedule, moment)]


def people_on_call(schedule: str, directory: Directory, at: datetime) -> list[PersonFacts]:
    """Who is on call by a schedule, which is named by its unique_id."""
    return people_of(StepFacts(0, (StepTarget(TargetType.SCHEDULE, schedule),)), directory, at)


def first_people(policy: PolicyFacts | None, directory: Directory, at: datetime) -> list[PersonFacts]:
    """The people of the first step that has any."""
    steps = policy.steps if policy else ()
    found = (people_of(step, directory, at) for step in steps)
    return next((people for people in found if people), [])


def assignee(
    policy: PolicyFacts | None, directory: Directory, turn: int, at: datetime
) -> tuple[PersonFacts | None, tuple[Effect, ...]]:
    """To whom an incident with this policy is assigned: the first person of the first step that has one.

    Round robin goes by the targets of a first step without delay: the one whose `turn` it is or, where that
    names nobody now, the next that does. The turn that is taken is an effect.
    """
    first = policy.steps[0] if policy and policy.steps else None
    if policy is not None and first is not None and is_by_turns(policy):
        count = len(first.targets)
        for place in ((turn + skipped) % count for skipped in range(count)):
            people = people_of(StepFacts(0, (first.targets[place],)), directory, at)
            if people:
                return people[0], (TakeTurn(policy.row, (place + 1) % count),)
    return next(iter(first_people(policy, directory, at)), None), ()


def is_by_turns(policy: PolicyFacts) -> bool:
    """Whether its incidents are assigned by turns: only a first step without delay has them."""
    return policy.round_robin and bool(policy.steps) and policy.steps[0].delay_minutes == 0
