"""The actions of alert rules: their schema, their checks and their references.

Contract section 3.10. pipeline/rules/actions.py performs the actions.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from models.domain.enums import RuleAction
from models.store.ids import new_uuid
from models.tables.accounts import User, get_display_name
from models.tables.schedules import Schedule
from models.tables.tasks import TaskTemplate
from models.tables.teams import IncidentRole, Priority, Sla, Tag, Team
from pipeline.rules.actions import REFERENCE_FIELDS
from pipeline.rules.conditions.literals import ALERT_TYPES, build_code_reader
from web.http import access
from web.http.errors import reject
from web.http.fields import LONG_TEXT, Choice, Reference, Schema, Text, TextOrNumber, Username
from web.oncall.escalation_policies import find_usable_schedules
from web.services.services import find_usable_policies

MAX_DELAY_S = 24 * 60 * 60


class ActionSchema(Schema):
    """An action of a rule. A reference is in `value` or in the field of its kind."""

    unique_id = Text(dump_only=True)
    action_type = Choice(RuleAction, required=True)
    key = TextOrNumber()
    value = TextOrNumber(limit=LONG_TEXT)
    value_reference_name = Text(dump_only=True, allow_none=True)
    escalation_policy = Reference()
    escalation_policy_name = Text(dump_only=True, allow_none=True)
    assign_to = Username()
    assign_to_name = Text(dump_only=True, allow_none=True)
    schedule = Reference()
    sla = Reference()
    team_priority = Reference()
    task_template = Reference()


# The fields that may replace `value` in actions with a reference.
REFERENCE_FIELD_NAMES = tuple(REFERENCE_FIELDS.values())

Action = Mapping[str, Any]


def build_actions(new: Iterable[dict[str, Any]], team: Team | None) -> list[dict[str, Any]]:
    """Return a rule's actions as they are stored.

    BadRequest for invalid values, and for references that this team may not use. Without a team, no reference
    is allowed.
    """
    actions = [_build_action(action) for action in new]
    _check_actions(actions, team)
    return actions


def _build_action(new: dict[str, Any]) -> dict[str, Any]:
    """Return an action as it is stored: `value` as sent, and the reference also in the field of its kind."""
    action = {
        "unique_id": new_uuid(),
        "action_type": new["action_type"],
        "key": new.get("key", ""),
        "value": new.get("value", ""),
        **dict.fromkeys(REFERENCE_FIELD_NAMES),
    }
    field = REFERENCE_FIELDS.get(new["action_type"])
    if field is not None:
        action[field] = new.get(field) or action["value"].strip().lower() or None
    return action


@dataclass(frozen=True, slots=True)
class ReferenceKind:
    """A kind of objects that actions refer to.

    `is_id` checks the form of an id. `find` returns the names of the objects that a team may use, by id.
    """

    noun: str
    is_id: Callable[[str], bool]
    find: Callable[[Team, list[str]], dict[str, str]]


def _build_finder(table: Any, name: str = "name") -> Callable[[Team, list[str]], dict[str, str]]:
    def find(team: Team, ids: list[str]) -> dict[str, str]:
        rows = table.select(table.unique_id, getattr(table, name))
        return dict(rows.where(table.team == team, table.unique_id.in_(ids)).tuples())

    return find


def _find_policies(team: Team, ids: list[str]) -> dict[str, str]:
    return {policy.unique_id: policy.name for policy in find_usable_policies(team, ids)}


def _find_schedules(team: Team, ids: list[str]) -> dict[str, str]:
    rows = Schedule.select(Schedule.unique_id, Schedule.name)
    return dict(rows.where(Schedule.unique_id.in_(find_usable_schedules(team, ids))).tuples())


def _find_people(team: Team, usernames: list[str]) -> dict[str, str]:
    present = User.select().where(
        User.account == team.account_id, User.removed_at.is_null(), User.username.in_(usernames)
    )
    return {user.username: get_display_name(user) for user in present}


def _find_responders(team: Team, ids: list[str]) -> dict[str, str]:
    return _find_people(team, ids) | _find_policies(team, ids) | _find_schedules(team, ids)


POLICY = ReferenceKind("escalation policy", access.is_uuid, _find_policies)
USER = ReferenceKind("user", access.is_username, _find_people)
SLA = ReferenceKind("SLA", access.is_uuid, _build_finder(Sla))
PRIORITY = ReferenceKind("priority", access.is_uuid, _build_finder(Priority))
TAG = ReferenceKind("tag", access.is_uuid, _build_finder(Tag))
SCHEDULE = ReferenceKind("schedule", access.is_uuid, _find_schedules)
ROLE = ReferenceKind("incident role", access.is_uuid, _build_finder(IncidentRole, "title"))
TASK_TEMPLATE = ReferenceKind("task template", access.is_uuid, _build_finder(TaskTemplate))
RESPONDER = ReferenceKind(
    "responder", lambda text: access.is_username(text) or access.is_uuid(text), _find_responders
)


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """The checks of an action. `check` raises ValueError for an invalid value.

    `reference` is the kind of object that the action refers to, `key_reference` the kind of its `key`. The
    objects must exist.
    """

    check: Callable[[str], Any] | None = None
    reference: ReferenceKind | None = None
    key_reference: ReferenceKind | None = None


def _check_urgency(value: str) -> None:
    if value.strip() not in ("0", "1"):
        raise ValueError("Must be 0 (low) or 1 (high).")


def _check_delay(value: str) -> None:
    if not re.fullmatch("[0-9]{1,6}", value.strip()) or int(value) > MAX_DELAY_S:
        raise ValueError(f"Must be a number of seconds, up to {MAX_DELAY_S}.")


# For templates and unused values: any text within the limit of the field is valid.
TEXT = ActionSpec()

ACTION_SPECS: dict[RuleAction, ActionSpec] = {
    RuleAction.CHANGE_ALERT_TYPE: ActionSpec(build_code_reader(ALERT_TYPES)),
    RuleAction.ADD_NOTE: TEXT,
    RuleAction.SUPPRESS: TEXT,
    RuleAction.ROUTE_TO_ESCALATION_POLICY: ActionSpec(reference=POLICY),
    RuleAction.ASSIGN_SCHEDULE: ActionSpec(reference=SCHEDULE),
    RuleAction.ASSIGN_USER: ActionSpec(reference=USER),
    RuleAction.CHANGE_URGENCY: ActionSpec(_check_urgency),
    RuleAction.CHANGE_MESSAGE: TEXT,
    RuleAction.CHANGE_SUMMARY: TEXT,
    RuleAction.CHANGE_ENTITY_ID: TEXT,
    RuleAction.ASSIGN_ROLE: ActionSpec(reference=USER, key_reference=ROLE),
    RuleAction.ADD_TAGS: ActionSpec(reference=TAG),
    RuleAction.CREATE_TASK: TEXT,
    RuleAction.ASSIGN_SLA: ActionSpec(reference=SLA),
    RuleAction.ASSIGN_PRIORITY: ActionSpec(reference=PRIORITY),
    RuleAction.APPLY_TASK_TEMPLATE: ActionSpec(reference=TASK_TEMPLATE),
    RuleAction.ADD_RESPONDER: ActionSpec(reference=RESPONDER),
    RuleAction.HASH_ENTITY_ID: TEXT,
    RuleAction.DELAY_NOTIFICATIONS: ActionSpec(_check_delay),
}

Names = Mapping[ReferenceKind, Mapping[str, str]]

_PLACEHOLDER = re.compile(r"\{\{[^{}]*\}\}")


def _get_spec(action: Action) -> ActionSpec:
    return ACTION_SPECS[RuleAction(action["action_type"])]


def _get_field(action: Action) -> str:
    """Return the field that contains the reference of an action."""
    field = REFERENCE_FIELDS.get(RuleAction(action["action_type"]), "value")
    value = action["value"].strip().lower()
    return "value" if field == "value" or (value and action[field] == value) else field


def _get_ids(action: Action) -> list[str]:
    """Return the ids that an action refers to.

    An action can name several tags. Tags that a placeholder names are not known yet and are omitted.
    """
    field = REFERENCE_FIELDS.get(RuleAction(action["action_type"]))
    if field is not None:
        return [action[field] or ""]
    if action["action_type"] != RuleAction.ADD_TAGS:
        return [action["value"].strip().lower()]
    values = [text.strip().lower() for text in _PLACEHOLDER.sub("{{}}", action["value"]).split(",")]
    return [text for text in values if text and "{{}}" not in text] if any(values) else [""]


def load_names(team: Team, actions: Iterable[Action]) -> Names:
    """Load the names of the objects that these actions refer to and that this team may use.

    One query for each kind.
    """
    ids_by_kind: dict[ReferenceKind, set[str]] = {}
    for action in actions:
        for kind, _, ids in _list_references(action):
            ids_by_kind.setdefault(kind, set()).update(filter(kind.is_id, ids))
    return {kind: kind.find(team, list(ids)) for kind, ids in ids_by_kind.items() if ids}


def _list_references(action: Action) -> Iterator[tuple[ReferenceKind, str, list[str]]]:
    """Yield the kind, the field and the ids of each reference of an action."""
    spec = _get_spec(action)
    if spec.reference is not None:
        yield spec.reference, _get_field(action), _get_ids(action)
    if spec.key_reference is not None:
        yield spec.key_reference, "key", [action["key"].strip().lower()]


def _check_actions(actions: list[dict[str, Any]], team: Team | None) -> None:
    for place, action in enumerate(actions):
        _check_action(f"actions.{place}", action)
    names = load_names(team, actions) if team else {}
    for place, action in enumerate(actions):
        for kind, field, ids in _list_references(action):
            if not names.get(kind, {}).keys() >= set(ids):
                reject(f"actions.{place}.{field}", f"The team has no such {kind.noun}.")


def _check_action(where: str, action: Action) -> None:
    spec = _get_spec(action)
    if spec.check is not None:
        try:
            spec.check(action["value"])
        except ValueError as error:
            reject(f"{where}.value", str(error))
    for kind, field, ids in _list_references(action):
        if not all(map(kind.is_id, ids)):
            reject(f"{where}.{field}", f"This is not the id of a {kind.noun}.")


def show_action(action: Action, names: Names) -> dict[str, Any]:
    """Build an action as answers show it. A deleted object has its id but no name."""
    kind = _get_spec(action).reference
    known = names.get(kind, {}) if kind else {}
    name = ", ".join(known[id_] for id_ in _get_ids(action) if id_ in known) or None
    return {
        **action,
        "value_reference_name": name,
        "escalation_policy_name": name if kind is POLICY else None,
        "assign_to_name": name if action["action_type"] == RuleAction.ASSIGN_USER else None,
    }
