"""The actions of alert rules: their schema, their checks and their references. Contract section 3.10.

All of this is built from the table in pipeline/rules/action_table.py.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import marshmallow

from models.domain.identity import is_uuid
from models.store.fields import Table
from models.store.ids import make_uuid
from models.tables.accounts import User, get_display_name
from models.tables.schedules import Schedule
from models.tables.tasks import TaskTemplate
from models.tables.teams import IncidentRole, Priority, Sla, Tag, Team
from pipeline.rules.action_table import ACTIONS, COMMON_FIELDS, Kind, ReferenceField, TextField, get_ids
from web.http import access
from web.http.errors import reject
from web.http.fields import Choice, Reference, Schema, Text, TextOrNumber, Username, explain
from web.oncall.escalation_policies import find_usable_schedules
from web.services.services import find_usable_policies

_COMMON: dict[str, TextField | ReferenceField] = {field.name: field for field in COMMON_FIELDS}
_OWN = {field.name: field for spec in ACTIONS.values() for field in spec.all_fields}
# The fields of all actions by name, in the order of requests and answers.
FIELDS = {**_COMMON, **_OWN, **_COMMON}
# The names of the actions in words, by number.
ACTION_NAMES = {number: ACTIONS[number].name.replace("_", " ") for number in sorted(ACTIONS)}
# Fields of the contract that have a second field for the name of the object, such as assign_to_name.
NAMED_FIELDS = ("escalation_policy", "assign_to")


def _build_schema() -> type[marshmallow.Schema]:
    """Build the schema of an action. A reference is in `value` or in the field of its kind."""
    found: dict[str, marshmallow.fields.Field[Any]] = {
        "unique_id": Text(dump_only=True),
        "action_type": Choice(names=ACTION_NAMES, required=True, metadata=explain("What the action does.")),
    }
    for name, field in FIELDS.items():
        found[name] = _build_field(field)
        if name == "value":
            found["value_reference_name"] = _build_name("the action")
        if name in NAMED_FIELDS:
            found[f"{name}_name"] = _build_name(f"`{name}`")
    return Schema.from_dict(found, name="ActionSchema")


def _build_field(field: TextField | ReferenceField) -> marshmallow.fields.Field[Any]:
    if isinstance(field, TextField):
        return TextOrNumber(limit=field.max_length, metadata=explain(field.meaning))
    if field.kind is Kind.USER:
        return Username(metadata=explain("The username of the person for the action; null: see `value`."))
    return Reference(
        metadata=explain(f"The unique_id of the {field.kind} for the action; null: see `value`.")
    )


def _build_name(owner: str) -> Text:
    says = explain(f"The name of the object to which {owner} refers; null: none, or it was deleted.")
    return Text(dump_only=True, allow_none=True, metadata=says)


ActionSchema = _build_schema()

Action = Mapping[str, Any]
# An action without any values. Actions that were stored before a field existed do not have it.
BLANK = {name: "" if isinstance(field, TextField) else None for name, field in FIELDS.items()}


def build_actions(new: Iterable[dict[str, Any]], team: Team | None) -> list[dict[str, object]]:
    """Return a rule's actions as they are stored.

    BadRequest for invalid values, and for references that this team may not use. Without a team, no reference
    is allowed.
    """
    actions = [_build_action(action) for action in new]
    _check_actions(actions, team)
    return actions


def _build_action(new: dict[str, Any]) -> dict[str, Any]:
    """Return an action as it is stored: texts as sent, and the reference also in the field of its kind."""
    texts = {name: new[name] for name, blank in BLANK.items() if blank is not None and name in new}
    action = {"unique_id": make_uuid(), "action_type": new["action_type"], **BLANK, **texts}
    for reference in ACTIONS[new["action_type"]].references:
        if reference.has_own_field:
            action[reference.name] = new.get(reference.name) or action["value"].strip().lower() or None
    return action


# Returns the names of the objects that a team may use, by ID.
Finder = Callable[[Team, list[str]], dict[str, str]]


def _build_finder(table: type[Table], name: str = "name") -> Finder:
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


FINDERS: dict[Kind, Finder] = {
    Kind.POLICY: _find_policies,
    Kind.SCHEDULE: _find_schedules,
    Kind.USER: _find_people,
    Kind.RESPONDER: _find_responders,
    Kind.ROLE: _build_finder(IncidentRole, "title"),
    Kind.TAG: _build_finder(Tag),
    Kind.SLA: _build_finder(Sla),
    Kind.PRIORITY: _build_finder(Priority),
    Kind.TASK_TEMPLATE: _build_finder(TaskTemplate),
}


def _is_id(kind: Kind, text: str) -> bool:
    if kind in (Kind.USER, Kind.RESPONDER) and access.is_username(text):
        return True
    return kind is not Kind.USER and is_uuid(text)


Names = Mapping[Kind, Mapping[str, str]]


def load_names(team: Team, actions: Iterable[Action]) -> Names:
    """Load the names of the objects that these actions refer to and that this team may use.

    One query for each kind.
    """
    ids_by_kind: dict[Kind, set[str]] = {}
    for action in actions:
        for kind, _, ids in _list_references(action):
            ids_by_kind.setdefault(kind, set()).update(id_ for id_ in ids if _is_id(kind, id_))
    return {kind: FINDERS[kind](team, list(ids)) for kind, ids in ids_by_kind.items() if ids}


def _list_references(action: Action) -> Iterator[tuple[Kind, str, list[str]]]:
    """Yield the kind, the field as sent and the ids of each reference of an action."""
    value = action["value"].strip().lower()
    for reference in ACTIONS[action["action_type"]].references:
        in_value = reference.has_own_field and value and action[reference.name] == value
        yield reference.kind, "value" if in_value else reference.name, get_ids(action, reference)


def _check_actions(actions: list[dict[str, Any]], team: Team | None) -> None:
    for place, action in enumerate(actions):
        _check_action(f"actions.{place}", action)
    names = load_names(team, actions) if team else {}
    for place, action in enumerate(actions):
        for kind, field, ids in _list_references(action):
            if missing := [id_ for id_ in ids if id_ not in names.get(kind, {})]:
                reject(f"actions.{place}.{field}", f"{missing[0]} is not a {kind} that this team may use.")


def _check_action(where: str, action: Action) -> None:
    for text in ACTIONS[action["action_type"]].fields:
        try:
            text.check(action[text.name])
        except ValueError as error:
            reject(f"{where}.{text.name}", str(error))
    for kind, field, ids in _list_references(action):
        if not all(_is_id(kind, id_) for id_ in ids):
            reject(f"{where}.{field}", f"Must be the id of a {kind}.")


def show_action(action: Action, names: Names) -> dict[str, object]:
    """Build an action as answers show it. A deleted object has its id but no name."""
    first = next(iter(ACTIONS[action["action_type"]].references), None)
    known, ids = (names.get(first.kind, {}), get_ids(action, first)) if first else ({}, [])
    name = ", ".join(known[id_] for id_ in ids if id_ in known) or None
    return {
        **BLANK,
        **action,
        "value_reference_name": name,
        **{f"{field}_name": name if first and first.name == field else None for field in NAMED_FIELDS},
    }
