"""The alert rules of an integration: contract sections 3.10 and 4.2."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from marshmallow import ValidationError, pre_load, validates_schema

from models.enums import AlertConditionType, RuleType
from models.ids import new_uuid
from models.rules import AlertRule
from models.services import Integration
from models.teams import Team
from pipeline import paths, rulesets
from pipeline.conditions import BadRule, Compiled, compile_rule, patterns
from pipeline.conditions.literals import ALERT_TYPES, code_of
from web import access, rule_actions
from web.auth import viewer
from web.errors import bad
from web.permissions import named
from web.resource import Ordered
from web.rule_actions import ActionShape
from web.shapes import (
    LONG_TEXT,
    Choice,
    Flag,
    MaybeNumber,
    Part,
    RuleJson,
    Said,
    Several,
    Shape,
    Text,
)

MOST_RULES = 1_000
MOST_CONDITIONS = 100
# Of a rule. With all its rules, an integration then names no more than one statement can look up.
MOST_ACTIONS = 30


class ConditionShape(Shape):
    """Alert type: `pattern` names it. Payload: `pattern` is searched for in what is at `alert_field`."""

    unique_id = Text(dump_only=True)
    alert_condition_type = Choice(AlertConditionType, required=True)
    alert_field = Text(limit=paths.LONGEST_PATH)
    pattern = Said(limit=patterns.LONGEST_PATTERN)
    position = MaybeNumber(least=0)

    @validates_schema
    def _has_meaning(self, data: dict[str, Any], **kwargs: Any) -> None:
        for field, read in _CONDITIONS[AlertConditionType(data["alert_condition_type"])].items():
            try:
                read(data.get(field, ""))
            except ValueError as error:
                raise ValidationError(str(error), field) from None


def _read_path(text: str) -> None:
    if not text.strip():
        raise ValueError("Say where in the payload to look.")
    paths.parse(text)


# What the fields of each kind of condition must be.
_CONDITIONS: dict[AlertConditionType, dict[str, Callable[[str], Any]]] = {
    AlertConditionType.ALERT_TYPE: {"pattern": code_of(ALERT_TYPES)},
    AlertConditionType.PAYLOAD: {"alert_field": _read_path, "pattern": patterns.compiled},
}


class AlertRuleShape(Shape):
    unique_id = Text(dump_only=True)
    rule_type = Choice(RuleType)
    description = Text(limit=LONG_TEXT)
    stop = Flag()
    position = MaybeNumber(least=0)
    conditions = Several(Part(ConditionShape), most=MOST_CONDITIONS)
    actions = Several(Part(ActionShape), most=MOST_ACTIONS)
    rule_json = RuleJson()
    is_enabled = Flag()

    @pre_load
    def _one_name(self, data: Any, **kwargs: Any) -> Any:
        if isinstance(data, dict) and "ruleType" in data and "rule_type" not in data:
            return {**data, "rule_type": data["ruleType"]}
        return data


class AlertRules(Ordered):
    """What an integration does to its alerts, in order; several rules may stand at one position."""

    model = AlertRule
    noun = "alert rule"
    schema = AlertRuleShape()
    parent_field = AlertRule.integration
    id_arg = "transformers_id"
    needs = named("integration")
    most = MOST_RULES

    def parent(self, **ids: str) -> Integration:
        return access.access_integration(viewer(), **ids)

    def filled(self, rows: list[AlertRule]) -> list[AlertRule]:
        actions = [action for row in rows for action in row.actions]
        names = rule_actions.names_of(rows[0].integration.service.team, actions) if actions else {}
        for row in rows:
            row.actions = [rule_actions.shown(action, names) for action in row.actions]
        return rows

    def checked(self, values: dict[str, Any], parent: Integration, row: Any) -> dict[str, Any]:
        values = checked_rule(super().checked(values, parent, row), parent.service.team)
        if values.keys() & set(_CONDITIONAL):
            after = row or AlertRule()
            compiled(*(values.get(name, getattr(after, name)) for name in _CONDITIONAL))
        return values


_CONDITIONAL = ("rule_json", "rule_type", "conditions")


def checked_rule(values: dict[str, Any], team: Team | None) -> dict[str, Any]:
    """A rule's conditions and actions as they are kept. BadRequest for what this team may not refer to."""
    if "conditions" in values:
        values["conditions"] = [_condition(*placed) for placed in enumerate(values["conditions"], start=1)]
    if "actions" in values:
        values["actions"] = rule_actions.kept(values["actions"], team)
    return values


def compiled(rule_json: str, rule_type: int, conditions: Sequence[Mapping[str, Any]]) -> Compiled:
    """Both kinds of conditions together, or BadRequest if they cannot be evaluated."""
    try:
        return compile_rule(rule_json, rulesets.conditions_json(RuleType(rule_type), conditions))
    except BadRule as error:
        bad(error.field, error.problem)


def _condition(place: int, given: dict[str, Any]) -> dict[str, Any]:
    return {
        "unique_id": new_uuid(),
        "alert_condition_type": given["alert_condition_type"],
        "alert_field": given.get("alert_field", ""),
        "pattern": given.get("pattern", ""),
        "position": place if given.get("position") is None else given["position"],
    }


ALERT_RULES = AlertRules()
