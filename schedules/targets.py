"""Whom a policy names at a moment: the people of its steps, and who an incident is assigned to.

Contract section 4.4. The interface's questions about who is on call are answered by `Duty` too.
"""

from datetime import datetime

from models.effects import Effect, TakeTurn
from models.enums import TargetType
from models.facts import Directory, PersonFacts, PolicyFacts, StepFacts, StepTarget
from schedules.notices import told_at
from schedules.oncall import Shift, on_call


class Duty:
    """Who is on call at one moment: each schedule is looked at once, however many steps name it.

    Those who left are nobody, and so is a schedule that was deleted.
    """

    def __init__(self, directory: Directory, at: datetime) -> None:
        self._directory = directory
        self._at = told_at(directory, at)
        self._by_schedule: dict[str, list[Shift]] = {}

    def people_of(self, step: StepFacts) -> list[PersonFacts]:
        """Everybody whom a step names, in its order and each once: persons, and whoever is on call by
        schedules."""
        people = self._directory.people
        named = {name: None for target in step.targets for name in self._usernames(target)}
        return [people[name] for name in named if name in people]

    def why(self, step: StepFacts) -> dict[str, str]:
        """What puts people on call whom a step names by its schedules alone, in words, by username."""
        said: dict[str, str] = {}
        for target in step.targets:
            if target.kind is TargetType.USER:
                said.setdefault(target.name, "")
                continue
            for shift in self._shifts(target.name):
                schedule = self._directory.schedules[target.name].name
                kind = "override" if shift.is_override else "layer"
                said.setdefault(shift.username, f"on call by {schedule} ({kind} {shift.source.name})")
        return {username: why for username, why in said.items() if why}

    def _usernames(self, target: StepTarget) -> list[str]:
        if target.kind is TargetType.USER:
            return [target.name]
        return [shift.username for shift in self._shifts(target.name)]

    def _shifts(self, name: str) -> list[Shift]:
        known = self._by_schedule.get(name)
        if known is None:
            schedule = self._directory.schedules.get(name)
            known = self._by_schedule[name] = on_call(schedule, self._at) if schedule else []
        return known


def people_of(step: StepFacts, directory: Directory, at: datetime) -> list[PersonFacts]:
    """Everybody whom one step names at a moment, as `Duty.people_of` says."""
    return Duty(directory, at).people_of(step)


def people_on_call(schedule: str, directory: Directory, at: datetime) -> list[PersonFacts]:
    """Who is on call by a schedule, which is named by its unique_id."""
    return people_of(StepFacts(0, (StepTarget(TargetType.SCHEDULE, schedule),)), directory, at)


def first_people(policy: PolicyFacts | None, directory: Directory, at: datetime) -> list[PersonFacts]:
    """The people of the first step that has any."""
    duty = Duty(directory, at)
    found = (duty.people_of(step) for step in (policy.steps if policy else ()))
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
                return people[0], (TakeTurn(policy.row, turn, (place + 1) % count),)
    return next(iter(first_people(policy, directory, at)), None), ()


def is_by_turns(policy: PolicyFacts) -> bool:
    """Whether its incidents are assigned by turns: only a first step without delay has them."""
    return policy.round_robin and bool(policy.steps) and policy.steps[0].delay_minutes == 0
