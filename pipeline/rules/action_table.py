"""The table of the actions of alert rules. Contract section 3.10.

The HTTP interface builds the schemas, checks and descriptions of actions from this table. Offboarding uses it
to find the actions that name a user.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from models.domain.enums import RuleAction
from pipeline.alert import Alert
from pipeline.rules import actions
from pipeline.rules.actions import Action, ActionContext, Change

MAX_TEXT_LENGTH = 16 * 1024
MAX_DELAY_S = 24 * 60 * 60


class Kind(StrEnum):
    """A kind of objects that actions refer to, in the words of an error."""

    POLICY = "escalation policy"
    SCHEDULE = "schedule"
    USER = "user"
    RESPONDER = "responder"  # a user, an escalation policy or a schedule
    ROLE = "incident role"
    TAG = "tag"
    SLA = "SLA"
    PRIORITY = "priority"
    TASK_TEMPLATE = "task template"


@dataclass(frozen=True, slots=True)
class TextField:
    """A text of an action. `check` raises ValueError if the text is not valid.

    `meaning` is its sentence in the description of the interface. COMMON_FIELDS have those of their names.
    """

    name: str = "value"
    check: Callable[[str], object] = str
    max_length: int = MAX_TEXT_LENGTH
    meaning: str = ""


# The fields of every action. An action that does not use them stores the sent values and ignores them.
COMMON_FIELDS = (
    TextField("key", max_length=255, meaning="The unique_id of the incident role, for action 11."),
    TextField("value", meaning="A text, template, number or ids, or the object if the field for it is null."),
)


@dataclass(frozen=True, slots=True)
class ReferenceField:
    """A field with the ID of an object. If it is not one of COMMON_FIELDS, the ID may also be in `value`.

    `is_list`: the field has IDs with commas between them, and placeholders.
    """

    kind: Kind
    name: str = "value"
    is_list: bool = False

    @property
    def has_own_field(self) -> bool:
        return all(self.name != common.name for common in COMMON_FIELDS)


@dataclass(frozen=True, slots=True)
class RuleActionSpec:
    """An action. Answers show the name of the object of its first reference."""

    number: int
    fields: tuple[TextField, ...]
    references: tuple[ReferenceField, ...]
    act: Callable[[Alert, Action, ActionContext], Change]

    @property
    def name(self) -> str:
        return self.act.__name__

    @property
    def all_fields(self) -> tuple[TextField | ReferenceField, ...]:
        return (*self.fields, *self.references)


def _check_urgency(value: str) -> None:
    if value.strip() not in ("0", "1"):
        raise ValueError("Must be 0 (low) or 1 (high).")


def _check_delay(value: str) -> None:
    if not re.fullmatch("[0-9]{1,6}", value.strip()) or int(value) > MAX_DELAY_S:
        raise ValueError(f"Must be a number of seconds, up to {MAX_DELAY_S}.")


_TEXT = (TextField(),)

# Answers have the own fields of actions in the order of this table.
ACTIONS: dict[int, RuleActionSpec] = {spec.number: spec for spec in (
    RuleActionSpec(1, (TextField(check=actions.read_level),), (), actions.change_alert_type),
    RuleActionSpec(2, _TEXT, (), actions.add_note),
    RuleActionSpec(3, (), (), actions.suppress),
    RuleActionSpec(4, (), (ReferenceField(Kind.POLICY, "escalation_policy"),), actions.route_to_escalation_policy),
    RuleActionSpec(6, (), (ReferenceField(Kind.USER, "assign_to"),), actions.assign_user),
    RuleActionSpec(5, (), (ReferenceField(Kind.SCHEDULE, "schedule"),), actions.assign_schedule),
    RuleActionSpec(7, (TextField(check=_check_urgency),), (), actions.change_urgency),
    RuleActionSpec(8, _TEXT, (), actions.change_message),
    RuleActionSpec(9, _TEXT, (), actions.change_summary),
    RuleActionSpec(10, _TEXT, (), actions.change_entity_id),
    RuleActionSpec(RuleAction.ASSIGN_ROLE, (), (ReferenceField(Kind.USER), ReferenceField(Kind.ROLE, "key")), actions.assign_role),
    RuleActionSpec(12, (), (ReferenceField(Kind.TAG, is_list=True),), actions.add_tags),
    RuleActionSpec(13, _TEXT, (), actions.create_task),
    RuleActionSpec(14, (), (ReferenceField(Kind.SLA, "sla"),), actions.assign_sla),
    RuleActionSpec(15, (), (ReferenceField(Kind.PRIORITY, "team_priority"),), actions.assign_priority),
    RuleActionSpec(16, (), (ReferenceField(Kind.TASK_TEMPLATE, "task_template"),), actions.apply_task_template),
    RuleActionSpec(RuleAction.ADD_RESPONDER, (), (ReferenceField(Kind.RESPONDER),), actions.add_responder),
    RuleActionSpec(18, (), (), actions.hash_entity_id),
    RuleActionSpec(19, (TextField(check=_check_delay),), (), actions.delay_notifications),
)}  # fmt: skip

_PLACEHOLDER = re.compile(r"\{\{[^{}]*\}\}")


def get_ids(action: Action, reference: ReferenceField) -> list[str]:
    """Return the IDs in a field; for an empty field, one empty ID.

    Placeholders are left out: the objects that they name are not known yet.
    """
    text: str = action[reference.name] or ""
    if not reference.has_own_field:
        text = text.strip().lower()
    if not reference.is_list:
        return [text]
    texts = [each.strip() for each in _PLACEHOLDER.sub("{{}}", text).split(",")]
    return [each for each in texts if each and "{{}}" not in each] if any(texts) else [""]


def names_user(action: Action, username: str) -> bool:
    """Return whether an action refers to this user."""
    spec = ACTIONS.get(action["action_type"])
    return spec is not None and any(
        username in (action.get(reference.name), action["value"].strip().lower())
        for reference in spec.references
        if reference.kind in (Kind.USER, Kind.RESPONDER)
    )
