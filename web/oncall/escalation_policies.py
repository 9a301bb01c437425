"""Escalation policies: whom an incident tells, step by step. Contract section 3.5."""

from collections.abc import Collection
from typing import Any

import peewee
from marshmallow import post_load

from models.domain.enums import AssigneeStrategy, TargetType
from models.lifecycle.provisioning import build_assignment_settings
from models.store.ids import new_uuid
from models.tables.schedules import Schedule
from models.tables.services import Service
from models.tables.teams import EscalationPolicy, Team
from web.http.errors import reject
from web.http.fields import (
    LONG_TEXT,
    MINUTES_LIMIT,
    Boolean,
    Choice,
    List,
    Nested,
    Number,
    OptionalNumber,
    Reference,
    Schema,
    Text,
)
from web.http.permissions import get_permissions
from web.http.resource import Resource, is_in_account, lock_services
from web.teams.teams import get_account_members


class TargetSchema(Schema):
    target_type = Choice(TargetType, required=True)
    target_id = Text(required=True, limit=64)
    position = OptionalNumber(min_value=0)

    @post_load
    def _lower_id(self, target: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Ids of ours are written in small letters; both kinds of targets have such."""
        return {**target, "target_id": target["target_id"].lower()}


class EscalationStepSchema(Schema):
    """A step: `delay` minutes after the chain began, tell these."""

    delay = Number(min_value=0, max_value=MINUTES_LIMIT)
    targets = List(Nested(TargetSchema))
    position = OptionalNumber(min_value=0)
    unique_id = Text(dump_only=True)


class AssignmentSettingsSchema(Schema):
    unique_id = Text(dump_only=True)
    assignee_strategy = Choice(AssigneeStrategy)
    assignment_index = Number(dump_only=True)
    call_rr_assignee = Boolean()


class PolicySchema(Schema):
    name = Text(required=True)
    summary = Text(limit=LONG_TEXT)
    description = Text(limit=LONG_TEXT)
    rules = List(Nested(EscalationStepSchema), required=True)
    unique_id = Text(dump_only=True)
    team = Reference(dump_only=True)
    repeat_policy = Number(min_value=0, max_value=10)
    move_to_next = Boolean()
    global_ep = Boolean()
    connections = Number(dump_only=True)
    assignment_settings = Nested(AssignmentSettingsSchema, allow_none=True)


class EscalationPolicies(Resource):
    """The chains of a team. One that a service uses cannot be deleted."""

    model = EscalationPolicy
    noun = "escalation policy"
    schema = PolicySchema()
    parent_field = EscalationPolicy.team
    id_arg = "escalation_policy_id"
    permissions = get_permissions("escalation_policy")
    timer_column = "escalation_policy"

    def select_rows(self, parent: Team) -> Any:
        users = Service.select(peewee.fn.COUNT(Service.id)).where(
            Service.escalation_policy == EscalationPolicy.id
        )
        columns = (EscalationPolicy, users.alias("connections"))
        return EscalationPolicy.select(*columns).where(EscalationPolicy.team == parent)

    def fill(self, rows: list[Any]) -> list[Any]:
        for row in rows:
            row.assignment_settings = {**row.assignment_settings, "assignment_index": row.next_target}
        return rows

    def check_values(self, values: dict[str, Any], parent: Team, row: Any) -> dict[str, Any]:
        if "rules" in values:
            values["rules"] = _build_rules(
                parent, values["rules"], _get_schedule_ids(row.rules if row else [])
            )
        known = row.assignment_settings if row else build_assignment_settings()
        values["assignment_settings"] = {**known, **(values.get("assignment_settings") or {})}
        # Whose turn it is starts over when a policy changes (contract 4.4, row 5).
        values["next_target"] = 0
        return values

    def remove(self, row: Any) -> None:
        if Service.select().where(Service.escalation_policy == row.id).exists():
            reject("escalation_policy", "A service uses this policy.")
        # Incidents of other teams may have it too, where it is shared.
        lock_services(is_in_account(row.team.account_id))
        super().remove(row)


def _build_rules(team: Team, items: list[dict[str, Any]], known: Collection[str]) -> list[dict[str, Any]]:
    """The steps as they are kept: in order, numbered from 1, with ids of their own.

    What the policy names already, `known`, may be sent back when it is gone, or not to be used any more.
    """
    ordered = sort_by_position(items)
    delays = [rule.get("delay", 0) for rule in ordered]
    if delays != sorted(delays):
        reject(
            "rules", "Delays count from the beginning of the chain, so none may be less than the one before."
        )
    _require_targets(team, ordered, known)
    return [
        {
            "unique_id": new_uuid(),
            "delay": delay,
            "position": place,
            "targets": _build_targets(rule.get("targets", [])),
        }
        for place, (rule, delay) in enumerate(zip(ordered, delays, strict=True), start=1)
    ]


def _get_schedule_ids(rules: list[dict[str, Any]]) -> set[str]:
    """The schedules that steps as they are kept name."""
    targets = (target for rule in rules for target in rule["targets"])
    return {target["target_id"] for target in targets if target["target_type"] == TargetType.SCHEDULE}


def sort_by_position(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By position when all have one, else as listed."""
    if any(item.get("position") is None for item in items):
        return items
    return sorted(items, key=lambda item: item["position"])


def _build_targets(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Positions from 0; those that a client gave to all targets stay, as it compares them when it reads."""
    ordered = sort_by_position(items)
    keeps_positions = all(item.get("position") is not None for item in items)
    return [
        {
            "target_type": target["target_type"],
            "target_id": target["target_id"],
            "position": target["position"] if keeps_positions else place,
        }
        for place, target in enumerate(ordered)
    ]


def _require_targets(team: Team, rules: list[dict[str, Any]], known: Collection[str]) -> None:
    """Everybody named is a member of the account, and each schedule one that this team may use."""
    target_ids: dict[int, set[str]] = {kind: set() for kind in TargetType}
    for rule in rules:
        for target in rule.get("targets", []):
            target_ids[target["target_type"]].add(target["target_id"])
    get_account_members(team.account, target_ids[TargetType.USER], "rules")
    if not target_ids[TargetType.SCHEDULE] <= find_usable_schedules(
        team, target_ids[TargetType.SCHEDULE]
    ).union(known):
        reject("rules", "The team has no such schedule.")


def find_usable_schedules(team: Team, unique_ids: Collection[str]) -> set[str]:
    """Those of these schedules that this team may use: its own, and those of teams that let others attach."""
    found = (
        Schedule.select(Schedule.unique_id, Team.id, Team.account_permissions)
        .join(Team)
        .where(Team.account == team.account_id, Schedule.unique_id.in_(unique_ids))
    )
    return {
        schedule.unique_id
        for schedule in found
        if schedule.team.id == team.id or "schedule_attach" in schedule.team.account_permissions
    }


POLICIES = EscalationPolicies()
