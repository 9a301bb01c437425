"""Find the people of a policy's steps at a moment, and the assignee of an incident.

Contract section 4.4. The HTTP interface and the commands use `OnCallResolver` too.
"""

from datetime import datetime

from models.domain.effects import AdvanceRoundRobin, Effect
from models.domain.enums import TargetType
from models.domain.facts import OnCallConfig, PersonFacts, PolicyFacts, StepFacts, StepTarget
from models.domain.reasons import Reason, make_reason
from schedules.escalation.person_notifications import get_routing_time
from schedules.oncall.schedule_shifts import Shift, list_on_call


class OnCallResolver:
    """Resolve steps to people at one moment; compute each schedule once for all steps that name it.

    People who left the account and deleted schedules resolve to nobody.
    """

    def __init__(self, config: OnCallConfig, at: datetime) -> None:
        self._config = config
        self._at = get_routing_time(config, at)
        self._by_schedule: dict[str, list[Shift]] = {}

    def get_people(self, step: StepFacts) -> list[PersonFacts]:
        """Return the people whom a step names, directly or by schedules: in order of targets, each once."""
        people = self._config.people
        usernames = {name: None for target in step.targets for name in self._list_usernames(target)}
        return [people[name] for name in usernames if name in people]

    def explain(self, step: StepFacts) -> dict[str, Reason]:
        """Return by username why a person is on call whom a step names only by a schedule."""
        reasons: dict[str, Reason | None] = {}
        for target in step.targets:
            if target.kind is TargetType.USER:
                reasons.setdefault(target.name, None)
                continue
            for shift in self._get_shifts(target.name):
                schedule = self._config.schedules[target.name].name
                reasons.setdefault(shift.username, _explain_shift(shift, schedule))
        return {username: why for username, why in reasons.items() if why is not None}

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


def _explain_shift(shift: Shift, schedule: str) -> Reason:
    name = shift.source.name
    if shift.is_override:
        return make_reason("on_call_by_override", schedule=schedule, override=name)
    return make_reason("on_call_by_layer", schedule=schedule, layer=name)


def get_people(step: StepFacts, config: OnCallConfig, at: datetime) -> list[PersonFacts]:
    """Return the people whom one step names at a moment, as `OnCallResolver.get_people` does."""
    return OnCallResolver(config, at).get_people(step)


def get_people_on_call(schedule: str, config: OnCallConfig, at: datetime) -> list[PersonFacts]:
    """Return the people on call by a schedule, given by its unique_id."""
    return get_people(StepFacts(0, (StepTarget(TargetType.SCHEDULE, schedule),)), config, at)


def find_first_people(policy: PolicyFacts | None, config: OnCallConfig, at: datetime) -> list[PersonFacts]:
    """Return the people of the first step that names anybody; an empty list if none does."""
    resolver = OnCallResolver(config, at)
    found = (resolver.get_people(step) for step in (policy.steps if policy else ()))
    return next((people for people in found if people), [])


def choose_assignee(
    policy: PolicyFacts | None, config: OnCallConfig, next_target: int, at: datetime
) -> tuple[PersonFacts | None, tuple[Effect, ...]]:
    """Choose the assignee of an incident with this policy: the first person of the first step with people.

    With round robin, the targets of a first step without delay are chosen one after the other. The target
    of index `next_target` is chosen. If it names nobody now, the next target that names anybody is chosen.
    The advance is returned as an effect.
    """
    first = policy.steps[0] if policy and policy.steps else None
    if policy is not None and first is not None and is_round_robin(policy):
        count = len(first.targets)
        for index in ((next_target + skipped) % count for skipped in range(count)):
            people = get_people(StepFacts(0, (first.targets[index],)), config, at)
            if people:
                return people[0], (AdvanceRoundRobin(policy.row, next_target, (index + 1) % count),)
    return next(iter(find_first_people(policy, config, at)), None), ()


def is_round_robin(policy: PolicyFacts) -> bool:
    """Return whether the policy assigns incidents by round robin; this needs a first step without delay."""
    return policy.round_robin and bool(policy.steps) and policy.steps[0].delay_minutes == 0
