"""Escalation policies: whom an incident notifies, step by step. Contract section 3.5."""

from collections.abc import Collection
from typing import Any, NotRequired, TypedDict, TypeVar

import peewee
from marshmallow import post_load, validate

from models.domain.enums import AssigneeStrategy, TargetType
from models.people.provisioning import build_assignment_settings
from models.store.ids import make_uuid
from models.tables.schedules import Schedule
from models.tables.services import Service
from models.tables.teams import EscalationPolicy, Team
from web.http.auth import viewer
from web.http.errors import reject, reject_places
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
    explain,
)
from web.http.permissions import get_permissions
from web.http.resource import Resource, is_in_account, lock_services
from web.teams.teams import get_account_members


class Positioned(TypedDict):
    """An item of a list in a request, with its position if the client sent one."""

    position: NotRequired[int | None]


class NewTarget(Positioned):
    """A target of a step in a request."""

    target_type: int
    target_id: str


class NewStep(Positioned):
    """A step in a request."""

    delay: NotRequired[int]
    targets: list[NewTarget]


Item = TypeVar("Item", bound=Positioned)


class TargetSchema(Schema):
    target_type = Choice(TargetType, required=True, metadata=explain("The kind of the target."))
    target_id = Text(
        required=True,
        limit=64,
        metadata=explain("The unique_id of the schedule, or the username of the person."),
    )
    position = OptionalNumber(
        min_value=0, metadata=explain("The place among the targets, from 0; null: that in the list.")
    )

    @post_load
    def _lower_id(self, target: NewTarget, **kwargs: object) -> NewTarget:
        """Convert the ID to lower case, because all IDs of users and schedules are lower case."""
        return {**target, "target_id": target["target_id"].lower()}


NO_TARGET = "Must name at least one person or schedule: a step without a target notifies nobody."


class EscalationStepSchema(Schema):
    """A step of a policy."""

    delay = Number(
        min_value=0,
        max_value=MINUTES_LIMIT,
        metadata=explain(
            "Minutes from the start of the escalation run; default: 0. Not less than that of the step before."
        ),
    )
    targets = List(
        Nested(TargetSchema),
        required=True,
        validate=validate.Length(min=1, error=NO_TARGET),
        error_messages={"required": NO_TARGET},
        metadata=explain("The people and schedules to notify."),
    )
    position = OptionalNumber(
        min_value=0, metadata=explain("The place among the steps, from 1; null: that in the list.")
    )
    unique_id = Text(dump_only=True, metadata=explain("Identifies the step until the steps are changed."))


class AssignmentSettingsSchema(Schema):
    unique_id = Text(dump_only=True)
    assignee_strategy = Choice(
        AssigneeStrategy,
        metadata=explain(
            "Who becomes the assignee of an incident: the first person on call, or the next one in"
            " turn; default: 1."
        ),
    )
    assignment_index = Number(
        dump_only=True, metadata=explain("The target of the first step that has the next turn, from 0.")
    )
    call_rr_assignee = Boolean(
        metadata=explain("true: with round robin, the first step notifies only the assignee; default: false.")
    )


class PolicySchema(Schema):
    name = Text(required=True)
    summary = Text(limit=LONG_TEXT)
    description = Text(limit=LONG_TEXT)
    rules = List(Nested(EscalationStepSchema), required=True, metadata=explain("The steps of the policy."))
    unique_id = Text(dump_only=True)
    team = Reference(dump_only=True)
    repeat_policy = Number(
        min_value=0,
        max_value=10,
        metadata=explain("How often the steps are repeated after the first time; default: 0."),
    )
    move_to_next = Boolean(
        metadata=explain("true (default): if nobody is on call in a step, the next one acts at once.")
    )
    global_ep = Boolean(
        metadata=explain("true: all teams of the account may use the policy; default: false.")
    )
    connections = Number(dump_only=True, metadata=explain("How many services use the policy."))
    assignment_settings = Nested(
        AssignmentSettingsSchema,
        allow_none=True,
        metadata=explain("How the assignee of an incident is found; null: as by default."),
    )


class AvailablePoliciesSchema(Schema):
    escalations = List(
        Nested(PolicySchema),
        dump_only=True,
        metadata=explain("The escalation policies of all teams in which you may read them."),
    )


class EscalationPolicies(Resource[EscalationPolicy, Team]):
    """The escalation policies of a team. A policy that a service uses cannot be deleted."""

    model = EscalationPolicy
    noun = "escalation policy"
    schema = PolicySchema()
    parent_field = EscalationPolicy.team
    id_arg = "escalation_policy_id"
    permissions = get_permissions("escalation_policy")
    timer_column = "escalation_policy"

    def select_rows(self, parent: Team) -> "peewee.ModelSelect[EscalationPolicy]":
        return self.select_all().where(EscalationPolicy.team == parent)

    def select_all(self) -> "peewee.ModelSelect[EscalationPolicy]":
        """Return a query of the policies of all teams, each with the number of services that use it."""
        users = Service.select(peewee.fn.COUNT(Service.id)).where(
            Service.escalation_policy == EscalationPolicy.id
        )
        query: peewee.ModelSelect[EscalationPolicy] = EscalationPolicy.select(
            EscalationPolicy, users.alias("connections"), Team
        )
        return query.join_from(EscalationPolicy, Team)

    def fill(self, rows: list[EscalationPolicy]) -> list[EscalationPolicy]:
        for row in rows:
            row.assignment_settings = {**row.assignment_settings, "assignment_index": row.next_target}
        return rows

    def check_values(
        self, values: dict[str, Any], parent: Team, row: EscalationPolicy | None
    ) -> dict[str, object]:
        if "rules" in values:
            values["rules"] = _build_rules(
                parent, values["rules"], _get_schedule_ids(row.rules if row else [])
            )
        known = row.assignment_settings if row else build_assignment_settings()
        values["assignment_settings"] = {**known, **(values.get("assignment_settings") or {})}
        # The round robin starts with the first target again when a policy changes (contract 4.4, row 5).
        values["next_target"] = 0
        return values

    def prepare_removal(self, row: EscalationPolicy) -> None:
        if Service.select().where(Service.escalation_policy == row.id).exists():
            reject("escalation_policy", "A service uses this policy.")
        # Incidents of other teams may also have a shared policy.
        lock_services(is_in_account(row.team.account_id))


def list_available() -> dict[str, list[EscalationPolicy]]:
    """List the escalation policies of all teams in which you may read them."""
    return {"escalations": POLICIES.list_visible(viewer())}


def _build_rules(team: Team, items: list[NewStep], known: Collection[str]) -> list[dict[str, object]]:
    """Return the steps as they are stored: in order, numbered from 1, each with an ID.

    `known` are the targets that the policy already has. A client may send them back even if they are deleted
    or not usable any more.
    """
    ordered = sort_by_position(items)
    delays = [rule.get("delay", 0) for rule in ordered]
    if delays != sorted(delays):
        reject(
            "rules",
            "Delays count from the start of the escalation, so no delay may be less than the one before.",
        )
    _require_targets(team, items, known)
    return [
        {
            "unique_id": make_uuid(),
            "delay": delay,
            "position": place,
            "targets": _build_targets(rule["targets"]),
        }
        for place, (rule, delay) in enumerate(zip(ordered, delays, strict=True), start=1)
    ]


def _get_schedule_ids(rules: list[dict[str, Any]]) -> set[str]:
    """Return the unique_ids of the schedules in stored steps."""
    targets = (target for rule in rules for target in rule["targets"])
    return {target["target_id"] for target in targets if target["target_type"] == TargetType.SCHEDULE}


def sort_by_position(items: list[Item]) -> list[Item]:
    """Sort by position if all items have one, else keep their order."""
    if any(item.get("position") is None for item in items):
        return items
    # No position is None here, but the type checker does not know this.
    return sorted(items, key=lambda item: item["position"] or 0)


def _build_targets(items: list[NewTarget]) -> list[dict[str, object]]:
    """Return the targets with positions from 0, or with those of the client if all targets have one.

    A client compares the positions with its own when it reads the policy.
    """
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


def _require_targets(team: Team, rules: list[NewStep], known: Collection[str]) -> None:
    """Raise BadRequest unless all people are in the account and the team may use all schedules."""
    named: dict[int, list[tuple[str, str]]] = {kind: [] for kind in TargetType}
    for step, rule in enumerate(rules):
        for place, target in enumerate(rule["targets"]):
            named[target["target_type"]].append((f"rules.{step}.targets.{place}", target["target_id"]))
    get_account_members(team.account, named[TargetType.USER])
    schedules = {target_id for _, target_id in named[TargetType.SCHEDULE]}
    usable = find_usable_schedules(team, schedules).union(known)
    reject_places(
        (place, f"{target_id} is not a schedule that this team may use.")
        for place, target_id in named[TargetType.SCHEDULE]
        if target_id not in usable
    )


def find_usable_schedules(team: Team, unique_ids: Collection[str]) -> set[str]:
    """Return the schedules that this team may use: its own, and those that other teams share."""
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
AVAILABLE = AvailablePoliciesSchema()
