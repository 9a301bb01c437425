"""Who is on call: contract sections 2.7 and 3.14. Everything is answered in a constant number of queries."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from marshmallow import fields

from models.accounts import Account, User
from models.enums import TargetType
from models.schedules import Schedule, ScheduleOverride
from models.teams import EscalationPolicy, Team
from web import access
from web.auth import now, viewer
from web.shapes import Flag, Number, Several, Shape, Text, UserShape

# Users by what a step names: the kind of target, and its id.
OnCall = Mapping[tuple[int, str], list[User]]


class NamedTeamShape(Shape):
    unique_id = Text()
    name = Text()


class NamedPolicyShape(Shape):
    name = Text()
    summary = Text()
    description = Text()
    unique_id = Text()
    repeat_policy = Number()
    move_to_next = Flag()
    global_ep = Flag()


class OnCallShape(Shape):
    """The first version: everybody whom a policy would tell by now, whatever the step."""

    escalation_policy = fields.Nested(NamedPolicyShape)
    team = fields.Nested(NamedTeamShape)
    users = Several(fields.Nested(UserShape))


class OnCallStepShape(Shape):
    ep_rule = Text()
    position = Number()
    delay = Number()
    oncalls = Several(fields.Nested(UserShape))


class OnCallPolicyShape(Shape):
    """The second version: whom each step of a policy would tell; nobody is an empty list."""

    unique_id = Text()
    name = Text()
    oncalls = Several(fields.Nested(OnCallStepShape))


FIRST = OnCallShape()
SECOND = OnCallPolicyShape()


def of_team(team_id: str) -> list[dict[str, Any]]:
    """List who is on call by each escalation policy of a team"""
    policies = list(_policies(access.access_team(viewer(), team_id)))
    on_call = _on_call(viewer().account, policies, now())
    return [
        {
            "escalation_policy": policy,
            "team": policy.team,
            "users": _users((target for rule in policy.rules for target in rule["targets"]), on_call),
        }
        for policy in policies
    ]


def of_team_by_step(team_id: str) -> list[dict[str, Any]]:
    """List who is on call by each step of a team's escalation policies"""
    return _by_step(_policies(access.access_team(viewer(), team_id)))


def of_policy(team_id: str, escalation_policy_id: str) -> list[dict[str, Any]]:
    """Retrieve who is on call by each step of an escalation policy"""
    policies = _policies(access.access_team(viewer(), team_id))
    return _by_step([access.find(policies, EscalationPolicy.unique_id, escalation_policy_id)])


def of_service(team_id: str, service_id: str) -> list[dict[str, Any]]:
    """Retrieve who is on call by each step of a service's escalation policy"""
    service = access.access_service(viewer(), team_id, service_id)
    return _by_step([service.escalation_policy] if service.escalation_policy else [])


def _policies(team: Team) -> Any:
    policies = EscalationPolicy.select(EscalationPolicy, Team).join(Team)
    return policies.where(EscalationPolicy.team == team).order_by(
        EscalationPolicy.creation_date, EscalationPolicy.id
    )


def _by_step(policies: Iterable[EscalationPolicy]) -> list[dict[str, Any]]:
    policies = list(policies)
    on_call = _on_call(viewer().account, policies, now())
    return [
        {
            "unique_id": policy.unique_id,
            "name": policy.name,
            "oncalls": [
                {
                    "ep_rule": rule["unique_id"],
                    "position": rule["position"],
                    "delay": rule["delay"],
                    "oncalls": _users(rule["targets"], on_call),
                }
                for rule in policy.rules
            ],
        }
        for policy in policies
    ]


def _users(targets: Iterable[dict[str, Any]], on_call: OnCall) -> list[User]:
    """Everybody behind these targets, in their order, each once."""
    found = [user for target in targets for user in on_call.get(_named(target), [])]
    return list({user.username: user for user in found}.values())


def _named(target: dict[str, Any]) -> tuple[int, str]:
    return target["target_type"], target["target_id"]


def _on_call(account: Account, policies: Iterable[EscalationPolicy], at: datetime) -> OnCall:
    """Who is behind what these policies name; who left is nobody, and so is a schedule that was deleted."""
    named = {_named(target) for policy in policies for rule in policy.rules for target in rule["targets"]}
    people = User.select().where(
        User.account == account,
        User.removed_at.is_null(),
        User.username.in_([name for kind, name in named if kind == TargetType.USER]),
    )
    schedules = by_schedule(account, [name for kind, name in named if kind == TargetType.SCHEDULE], at)
    return {
        **{(int(TargetType.USER), user.username): [user] for user in people},
        **{(int(TargetType.SCHEDULE), schedule): users for schedule, users in schedules.items()},
    }


def by_schedule(account: Account, schedules: Collection[str], at: datetime) -> dict[str, list[User]]:
    """Who is on call at this moment by each of these schedules of the account, which are named by their ids.

    Those whom an override names, in the order in which overrides were given. Layers count for nobody: where
    no override holds, a schedule has nobody on call, and is left out.
    """
    holding = (
        ScheduleOverride.select(ScheduleOverride, Schedule, User)
        .join(Schedule)
        .join(Team)
        .join_from(ScheduleOverride, User)
        .where(
            Team.account == account,
            Schedule.unique_id.in_(schedules),
            ScheduleOverride.start_time <= at,
            ScheduleOverride.end_time > at,
            User.removed_at.is_null(),
        )
        .order_by(ScheduleOverride.id)
    )
    found: dict[str, list[User]] = {}
    for override in holding:
        found.setdefault(override.schedule.unique_id, []).append(override.user)
    return found
