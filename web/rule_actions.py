"""What an alert rule may do: how its actions look, what each must say, and what they refer to.

Contract section 3.10; what each does stands in pipeline/actions.py.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from models.accounts import User, display_name
from models.enums import RuleAction
from models.ids import new_uuid
from models.schedules import Schedule
from models.tasks import TaskTemplate
from models.teams import IncidentRole, Priority, Sla, Tag, Team
from pipeline.actions import REFERENCES
from pipeline.conditions.literals import ALERT_TYPES, code_of
from web import access
from web.errors import bad
from web.policies import usable_schedules
from web.services import usable_policies
from web.shapes import LONG_TEXT, Choice, Reference, Said, Shape, Text, Username

LONGEST_DELAY_S = 24 * 60 * 60


class ActionShape(Shape):
    """What a rule does. What it refers to stands in `value` or in the field of its kind."""

    unique_id = Text(dump_only=True)
    action_type = Choice(RuleAction, required=True)
    key = Said()
    value = Said(limit=LONG_TEXT)
    value_reference_name = Text(dump_only=True, allow_none=True)
    escalation_policy = Reference()
    escalation_policy_name = Text(dump_only=True, allow_none=True)
    assign_to = Username()
    assign_to_name = Text(dump_only=True, allow_none=True)
    schedule = Reference()
    sla = Reference()
    team_priority = Reference()
    task_template = Reference()


# The fields that stand for `value` in actions that refer to something.
TYPED = tuple(REFERENCES.values())

Action = Mapping[str, Any]


def kept(given: Iterable[dict[str, Any]], team: Team | None) -> list[dict[str, Any]]:
    """A rule's actions as they are kept. BadRequest for what has no meaning, or this team may not name;
    without a team, nothing can be named."""
    actions = [_kept(action) for action in given]
    _require_sense(actions, team)
    return actions


def _kept(given: dict[str, Any]) -> dict[str, Any]:
    """As it is kept: `value` as it was sent, and what it refers to also in the field of its kind."""
    made = {
        "unique_id": new_uuid(),
        "action_type": given["action_type"],
        "key": given.get("key", ""),
        "value": given.get("value", ""),
        **dict.fromkeys(TYPED),
    }
    typed = REFERENCES.get(given["action_type"])
    if typed is not None:
        made[typed] = given.get(typed) or made["value"].strip().lower() or None
    return made


@dataclass(frozen=True, slots=True)
class Kind:
    """Something that actions refer to: what its ids look like, and the names of those that a team may
    name, by id."""

    words: str
    is_id: Callable[[str], bool]
    find: Callable[[Team, list[str]], dict[str, str]]


def _of_team(table: Any, name: str = "name") -> Callable[[Team, list[str]], dict[str, str]]:
    def find(team: Team, ids: list[str]) -> dict[str, str]:
        rows = table.select(table.unique_id, getattr(table, name))
        return dict(rows.where(table.team == team, table.unique_id.in_(ids)).tuples())

    return find


def _policies(team: Team, ids: list[str]) -> dict[str, str]:
    return {policy.unique_id: policy.name for policy in usable_policies(team, ids)}


def _schedules(team: Team, ids: list[str]) -> dict[str, str]:
    rows = Schedule.select(Schedule.unique_id, Schedule.name)
    return dict(rows.where(Schedule.unique_id.in_(usable_schedules(team, ids))).tuples())


def _people(team: Team, usernames: list[str]) -> dict[str, str]:
    present = User.select().where(
        User.account == team.account_id, User.removed_at.is_null(), User.username.in_(usernames)
    )
    return {user.username: display_name(user) for user in present}


def _responders(team: Team, ids: list[str]) -> dict[str, str]:
    return _people(team, ids) | _policies(team, ids) | _schedules(team, ids)


POLICY = Kind("escalation policy", access.is_uuid, _policies)
USER = Kind("user", access.is_username, _people)
SLA = Kind("SLA", access.is_uuid, _of_team(Sla))
PRIORITY = Kind("priority", access.is_uuid, _of_team(Priority))
TAG = Kind("tag", access.is_uuid, _of_team(Tag))
SCHEDULE = Kind("schedule", access.is_uuid, _schedules)
ROLE = Kind("incident role", access.is_uuid, _of_team(IncidentRole, "title"))
TASK_TEMPLATE = Kind("task template", access.is_uuid, _of_team(TaskTemplate))
RESPONDER = Kind("responder", lambda text: access.is_username(text) or access.is_uuid(text), _responders)


@dataclass(frozen=True, slots=True)
class Form:
    """What an action must say: `check` raises ValueError for a value that has no meaning; `refers` is
    what it names, and `by_key` what its key names, which must exist."""

    check: Callable[[str], Any] | None = None
    refers: Kind | None = None
    by_key: Kind | None = None


def _urgency(value: str) -> None:
    if value.strip() not in ("0", "1"):
        raise ValueError("Must be 0 (low) or 1 (high).")


def _delay(value: str) -> None:
    if not re.fullmatch("[0-9]{1,6}", value.strip()) or int(value) > LONGEST_DELAY_S:
        raise ValueError(f"Must be a number of seconds, up to {LONGEST_DELAY_S}.")


# Templates, and what is not looked at, may be any text within the limit of the field.
TEXT = Form()

FORMS: dict[RuleAction, Form] = {
    RuleAction.CHANGE_ALERT_TYPE: Form(code_of(ALERT_TYPES)),
    RuleAction.ADD_NOTE: TEXT,
    RuleAction.SUPPRESS: TEXT,
    RuleAction.ROUTE_TO_ESCALATION_POLICY: Form(refers=POLICY),
    RuleAction.ASSIGN_SCHEDULE: Form(refers=SCHEDULE),
    RuleAction.ASSIGN_USER: Form(refers=USER),
    RuleAction.CHANGE_URGENCY: Form(_urgency),
    RuleAction.CHANGE_MESSAGE: TEXT,
    RuleAction.CHANGE_SUMMARY: TEXT,
    RuleAction.CHANGE_ENTITY_ID: TEXT,
    RuleAction.ASSIGN_ROLE: Form(refers=USER, by_key=ROLE),
    RuleAction.ADD_TAGS: Form(refers=TAG),
    RuleAction.CREATE_TASK: TEXT,
    RuleAction.ASSIGN_SLA: Form(refers=SLA),
    RuleAction.ASSIGN_PRIORITY: Form(refers=PRIORITY),
    RuleAction.APPLY_TASK_TEMPLATE: Form(refers=TASK_TEMPLATE),
    RuleAction.ADD_RESPONDER: Form(refers=RESPONDER),
    RuleAction.HASH_ENTITY_ID: TEXT,
    RuleAction.DELAY_NOTIFICATIONS: Form(_delay),
}

Names = Mapping[Kind, Mapping[str, str]]

_PLACEHOLDER = re.compile(r"\{\{[^{}]*\}\}")


def _form(action: Action) -> Form:
    return FORMS[RuleAction(action["action_type"])]


def _field(action: Action) -> str:
    """Where an action says what it refers to."""
    typed = REFERENCES.get(RuleAction(action["action_type"]), "value")
    said = action["value"].strip().lower()
    return "value" if typed == "value" or (said and action[typed] == said) else typed


def _ids(action: Action) -> list[str]:
    """What an action refers to. Tags are several; those that a placeholder will name are nobody's yet."""
    typed = REFERENCES.get(RuleAction(action["action_type"]))
    if typed is not None:
        return [action[typed] or ""]
    if action["action_type"] != RuleAction.ADD_TAGS:
        return [action["value"].strip().lower()]
    said = [text.strip().lower() for text in _PLACEHOLDER.sub("{{}}", action["value"]).split(",")]
    return [text for text in said if text and "{{}}" not in text] if any(said) else [""]


def names_of(team: Team, actions: Iterable[Action]) -> Names:
    """The names of all that these actions refer to and this team may name: a query a kind."""
    wanted: dict[Kind, set[str]] = {}
    for action in actions:
        for kind, _, ids in _references(action):
            wanted.setdefault(kind, set()).update(filter(kind.is_id, ids))
    return {kind: kind.find(team, list(ids)) for kind, ids in wanted.items() if ids}


def _references(action: Action) -> Iterator[tuple[Kind, str, list[str]]]:
    """What an action refers to: of which kind, said in which field, by which ids."""
    form = _form(action)
    if form.refers is not None:
        yield form.refers, _field(action), _ids(action)
    if form.by_key is not None:
        yield form.by_key, "key", [action["key"].strip().lower()]


def _require_sense(actions: list[dict[str, Any]], team: Team | None) -> None:
    for place, action in enumerate(actions):
        _require_form(f"actions.{place}", action)
    names = names_of(team, actions) if team else {}
    for place, action in enumerate(actions):
        for kind, field, ids in _references(action):
            if not names.get(kind, {}).keys() >= set(ids):
                bad(f"actions.{place}.{field}", f"The team has no such {kind.words}.")


def _require_form(where: str, action: Action) -> None:
    form = _form(action)
    if form.check is not None:
        try:
            form.check(action["value"])
        except ValueError as error:
            bad(f"{where}.value", str(error))
    for kind, field, ids in _references(action):
        if not all(map(kind.is_id, ids)):
            bad(f"{where}.{field}", f"This is no id of a {kind.words}.")


def shown(action: Action, names: Names) -> dict[str, Any]:
    """An action as answers show it; what was deleted since has its id and no name."""
    kind = _form(action).refers
    known = names.get(kind, {}) if kind else {}
    name = ", ".join(known[id_] for id_ in _ids(action) if id_ in known) or None
    return {
        **action,
        "value_reference_name": name,
        "escalation_policy_name": name if kind is POLICY else None,
        "assign_to_name": name if action["action_type"] == RuleAction.ASSIGN_USER else None,
    }
