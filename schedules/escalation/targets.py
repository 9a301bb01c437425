"""Whom a policy names at a moment: the people of its steps, and who an incident is assigned to.

Contract section 4.4. The interface's questions about who is on call are answered by `Duty` too.
"""

from datetime import datetime

from models.domain.effects import AdvanceRoundRobin, Effect
from models.domain.enums import TargetType
from models.domain.facts import OnCallConfig, PersonFacts, PolicyFacts, StepFacts, StepTarget
from schedules.escalation.notifications import get_routing_time
from schedules.oncall.oncall import Shift, list_on_call


class OnCallResolver:
    """Who is on call at one moment: each schedule is looked at once, however many steps name it.

    Those who left are nobody, and so is a schedule that was deleted.
    """

    def __init__(self, config: OnCallConfig, at: datetime) -> None:
        self._config = config
        self._at = get_routing_time(config, at)
        self._by_schedule: dict[str, list[Shift]] = {}

    def get_people(self, step: StepFacts) -> list[PersonFacts]:
        """Everybody whom a step names, in its order and each once: persons, and whoever is on call by
        schedules."""
        people = self._config.people
        usernames = {name: None for target in step.targets for name in self._list_usernames(target)}
        return [people[name] for name in usernames if name in people]

    def explain(self, step: StepFacts) -> dict[str, str]:
        """What puts people on call whom a step names by its schedules alone, in words, by username."""
        reasons: dict[str, str] = {}
        for target in step.targets:
            if target.kind is TargetType.USER:
                reasons.setdefault(target.name, "")
                continue
            for shift in self._get_shifts(target.name):
                schedule = self._config.schedules[target.name].name
                kind = "override" if shift.is_override else "layer"
                reasons.setdefault(shift.username, f"on call by {schedule} ({kind} {shift.source.name})")
        return {username: why for username, why in reasons.items() if why}

    def _list_usernames(self, target: StepTarget) -> list[str]:
        if target.kind is TargetType.USER:
            return [target.name]
        return [shift.username for shift in self._get_shifts(target.name)]

    def _get_shifts(self, name: str) -> list[Shift]:
        known = self._by_schedule.get(name)
        if known is None:
            schedule = self._config.schedules.get(name)
            known = self._by_schedule[name] = list_on_call(schedule, self._at) if schedule else []
        return known


def get_people(step: StepFacts, config: OnCallConfig, at: datetime) -> list[PersonFacts]:
    """Everybody whom one step names at a moment, as `Duty.people_of` says."""
    return OnCallResolver(config, at).get_people(step)


def get_people_on_call(schedule: str, config: OnCallConfig, at: datetime) -> list[PersonFacts]:
    """Who is on call by a schedule, which is named by its unique_id."""
    return get_people(StepFacts(0, (StepTarget(TargetType.SCHEDULE, schedule),)), config, at)


def find_first_people(policy: PolicyFacts | None, config: OnCallConfig, at: datetime) -> list[PersonFacts]:
    """The people of the first step that has any."""
    resolver = OnCallResolver(config, at)
    found = (resolver.get_people(step) for step in (policy.steps if policy else ()))
    return next((people for people in found if people), [])


def choose_assignee(
    policy: PolicyFacts | None, config: OnCallConfig, turn: int, at: datetime
) -> tuple[PersonFacts | None, tuple[Effect, ...]]:
    """To whom an incident with this policy is assigned: the first person of the first step that has one.

    Round robin goes by the targets of a first step without delay: the one whose `turn` it is or, where that
    names nobody now, the next that does. The turn that is taken is an effect.
    """
    first = policy.steps[0] if policy and policy.steps else None
    if policy is not None and first is not None and is_round_robin(policy):
        count = len(first.targets)
        for index in ((turn + skipped) % count for skipped in range(count)):
            people = get_people(StepFacts(0, (first.targets[index],)), config, at)
            if people:
                return people[0], (AdvanceRoundRobin(policy.row, turn, (index + 1) % count),)
    return next(iter(find_first_people(policy, config, at)), None), ()


def is_round_robin(policy: PolicyFacts) -> bool:
    """Whether its incidents are assigned by turns: only a first step without delay has them."""
    return policy.round_robin and bool(policy.steps) and policy.steps[0].delay_minutes == 0
