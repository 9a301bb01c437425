"""Who is on call: contract sections 2.7 and 3.14.

All answers need a constant number of queries. They come from the function that also selects people to notify
(schedules/escalation/targets.py).
"""

from collections.abc import Iterable
from datetime import datetime

import peewee
from marshmallow import fields

from models.load.oncall_config import build_oncall_config
from models.store.prepared import in_list
from models.tables.accounts import User
from models.tables.teams import EscalationPolicy, Team
from schedules.escalation.targets import OnCallResolver
from web.http import access
from web.http.auth import now, viewer
from web.http.fields import Boolean, List, Number, Schema, Text, UserSchema, explain


class OnCallTeamSchema(Schema):
    unique_id = Text()
    name = Text()


class PolicySummarySchema(Schema):
    name = Text()
    summary = Text()
    description = Text()
    unique_id = Text()
    repeat_policy = Number(metadata=explain("How often the steps are repeated after the first time."))
    move_to_next = Boolean(
        metadata=explain("true: if nobody is on call in a step, the next one acts at once.")
    )
    global_ep = Boolean(metadata=explain("true: all teams of the account may use the policy."))


class Serialized(fields.Nested):
    """A nested value that is already serialized, because many policies name the same few people."""

    def _serialize(self, *args: object, **kwargs: object) -> object:
        return args[0]


class OnCallSchema(Schema):
    """Version 1: all people whom any step of a policy would notify now."""

    escalation_policy = fields.Nested(PolicySummarySchema, metadata=explain("The policy."))
    team = fields.Nested(OnCallTeamSchema, metadata=explain("The team of the policy."))
    users = List(
        Serialized(UserSchema), metadata=explain("The people whom any step of the policy would notify now.")
    )


class OnCallStepSchema(Schema):
    ep_rule = Text(metadata=explain("The unique_id of the step."))
    position = Number(metadata=explain("The place among the steps, from 1."))
    delay = Number(metadata=explain("Minutes from the start of the escalation run."))
    oncalls = List(
        Serialized(UserSchema),
        metadata=explain("The people whom the step would notify now; empty: nobody is on call."),
    )


class OnCallPolicySchema(Schema):
    """Version 2: the people whom each step of a policy would notify; an empty list if nobody is on call."""

    unique_id = Text()
    name = Text()
    oncalls = List(fields.Nested(OnCallStepSchema), metadata=explain("The steps of the policy."))


USER = UserSchema()
BY_POLICY = OnCallSchema()
BY_STEP = OnCallPolicySchema()


def list_by_policy(team_id: str) -> list[dict[str, object]]:
    """List who is on call in each escalation policy of a team."""
    team = access.access_team(viewer(), team_id)
    return [
        {
            "escalation_policy": policy,
            "team": team,
            "users": list({user["username"]: user for users in by_step for user in users}.values()),
        }
        for policy, by_step in _find_on_call(team, _select_policies(team), now())
    ]


def list_by_step(team_id: str) -> list[dict[str, object]]:
    """List who is on call in each step of the escalation policies of a team."""
    team = access.access_team(viewer(), team_id)
    return _build_steps(team, _select_policies(team))


def get_policy_on_call(team_id: str, escalation_policy_id: str) -> list[dict[str, object]]:
    """List who is on call in each step of an escalation policy."""
    team = access.access_team(viewer(), team_id)
    return _build_steps(
        team, [access.find(_select_policies(team), EscalationPolicy.unique_id, escalation_policy_id)]
    )


def get_service_on_call(team_id: str, service_id: str) -> list[dict[str, object]]:
    """List who is on call in each step of the escalation policy of a service."""
    service = access.access_service(viewer(), team_id, service_id)
    return _build_steps(service.team, [service.escalation_policy] if service.escalation_policy else [])


def _select_policies(team: Team) -> "peewee.ModelSelect[EscalationPolicy]":
    policies = EscalationPolicy.select().where(EscalationPolicy.team == team)
    return policies.order_by(EscalationPolicy.creation_date, EscalationPolicy.id)


def _build_steps(team: Team, policies: Iterable[EscalationPolicy]) -> list[dict[str, object]]:
    return [
        {
            "unique_id": policy.unique_id,
            "name": policy.name,
            "oncalls": [
                {
                    "ep_rule": rule["unique_id"],
                    "position": rule["position"],
                    "delay": rule["delay"],
                    "oncalls": users,
                }
                for rule, users in zip(policy.rules, by_step, strict=True)
            ],
        }
        for policy, by_step in _find_on_call(team, policies, now())
    ]


def _find_on_call(
    team: Team, policies: Iterable[EscalationPolicy], at: datetime
) -> list[tuple[EscalationPolicy, list[list[dict[str, object]]]]]:
    """Yield each policy with the serialized people whom its steps would notify now."""
    rows = list(policies)
    config = build_oncall_config(team, rows)
    duty = OnCallResolver(config, at)
    by_step = {
        row: [duty.get_people(step) for step in policy.steps] for row, policy in config.policies.items()
    }
    found = {person.row for steps in by_step.values() for people in steps for person in people}
    users = {user.id: USER.dump(user) for user in User.select().where(in_list(User.id, found))}
    return [(row, [[users[person.row] for person in people] for people in by_step[row.id]]) for row in rows]
