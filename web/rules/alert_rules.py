"""The alert rules of an integration: contract sections 3.10 and 4.2."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from marshmallow import ValidationError, pre_load, validates_schema

from models.domain.enums import AlertConditionType, RuleType
from models.store.ids import make_uuid
from models.tables.rules import AlertRule
from models.tables.services import Integration
from models.tables.teams import Team
from pipeline.rules import rulesets
from pipeline.rules.conditions import BadRule, CompiledCondition, compile_rule, paths, patterns
from pipeline.rules.conditions.literals import ALERT_TYPES, build_code_reader
from web.http import access
from web.http.auth import viewer
from web.http.errors import reject
from web.http.fields import (
    LONG_TEXT,
    Boolean,
    Choice,
    List,
    Nested,
    OptionalNumber,
    RawText,
    RuleJson,
    Schema,
    Text,
    TextOrNumber,
    explain,
)
from web.http.permissions import get_permissions
from web.http.resource import OrderedResource
from web.rules import rule_actions
from web.rules.rule_actions import ActionSchema

MAX_RULES = 1_000
MAX_CONDITIONS = 100
# Actions of one rule. With this limit, one SQL statement can load the references of all rules of an
# integration.
MAX_ACTIONS = 30


class ConditionSchema(Schema):
    """A condition on the alert type or on the payload."""

    unique_id = Text(dump_only=True)
    alert_condition_type = Choice(
        AlertConditionType, required=True, metadata=explain("The part of the alert that is compared.")
    )
    alert_field = RawText(
        limit=paths.MAX_PATH_LENGTH, metadata=explain("The path in the payload, for type 2.")
    )
    pattern = TextOrNumber(
        limit=patterns.MAX_PATTERN_LENGTH,
        metadata=explain("The alert type, or what is searched at the path."),
    )
    position = OptionalNumber(min_value=0, metadata=explain("The place among the conditions."))

    @validates_schema
    def _check_fields(self, data: dict[str, Any], **kwargs: object) -> None:
        for field, check in _CONDITIONS[AlertConditionType(data["alert_condition_type"])].items():
            try:
                check(data.get(field, ""))
            except ValueError as error:
                raise ValidationError(str(error), field) from None


def _check_path(text: str) -> None:
    if not text.strip():
        raise ValueError("Give a path in the payload.")
    paths.parse(text)


# The checks of the fields of each kind of condition.
_CONDITIONS: dict[AlertConditionType, dict[str, Callable[[str], object]]] = {
    AlertConditionType.ALERT_TYPE: {"pattern": build_code_reader(ALERT_TYPES)},
    AlertConditionType.PAYLOAD: {"alert_field": _check_path, "pattern": patterns.compile_pattern},
}


class AlertRuleSchema(Schema):
    unique_id = Text(dump_only=True)
    rule_type = Choice(RuleType, metadata=explain("How many of `conditions` must match; default: 0."))
    description = Text(limit=LONG_TEXT)
    stop = Boolean(metadata=explain("true: after a match, later rules are not evaluated; default: false."))
    position = OptionalNumber(
        min_value=0,
        metadata=explain(
            "The place among the rules; missing or 0: last in a create, unchanged in an update."
        ),
    )
    conditions = List(
        Nested(ConditionSchema),
        max_items=MAX_CONDITIONS,
        metadata=explain("Conditions in addition to `rule_json`."),
    )
    actions = List(
        Nested(ActionSchema),
        max_items=MAX_ACTIONS,
        metadata=explain("What a matching rule does, in this order."),
    )
    rule_json = RuleJson()
    is_enabled = Boolean(metadata=explain("false: the rule is not evaluated; default: true."))

    @pre_load
    def _merge_names(self, data: object, **kwargs: object) -> object:
        if isinstance(data, dict) and "ruleType" in data and "rule_type" not in data:
            return {**data, "rule_type": data["ruleType"]}
        return data


class AlertRules(OrderedResource[AlertRule, Integration]):
    """The rules for the alerts of an integration, in order. Several rules may have the same position."""

    model = AlertRule
    noun = "alert rule"
    schema = AlertRuleSchema()
    parent_field = AlertRule.integration
    id_arg = "transformers_id"
    permissions = get_permissions("integration")
    max_rows = MAX_RULES

    def get_parent(self, **ids: str) -> Integration:
        return access.access_integration(viewer(), **ids)

    def fill(self, rows: list[AlertRule]) -> list[AlertRule]:
        actions = [action for row in rows for action in row.actions]
        names = rule_actions.load_names(rows[0].integration.service.team, actions) if actions else {}
        for row in rows:
            row.actions = [rule_actions.show_action(action, names) for action in row.actions]
        return rows

    def check_values(
        self, values: dict[str, Any], parent: Integration, row: AlertRule | None
    ) -> dict[str, object]:
        values = check_rule(super().check_values(values, parent, row), parent.service.team)
        if values.keys() & set(_CONDITION_FIELDS):
            current = row or AlertRule()
            compile_conditions(*(values.get(name, getattr(current, name)) for name in _CONDITION_FIELDS))
        return values


_CONDITION_FIELDS = ("rule_json", "rule_type", "conditions")


def check_rule(values: dict[str, Any], team: Team | None) -> dict[str, Any]:
    """Return a rule's conditions and actions as they are stored.

    BadRequest for references that this team may not use.
    """
    if "conditions" in values:
        values["conditions"] = [_build_condition(*item) for item in enumerate(values["conditions"], start=1)]
    if "actions" in values:
        values["actions"] = rule_actions.build_actions(values["actions"], team)
    return values


def compile_conditions(
    rule_json: str, rule_type: int, conditions: Sequence[Mapping[str, object]]
) -> CompiledCondition:
    """Compile both kinds of conditions together, or raise BadRequest if they cannot be evaluated."""
    try:
        return compile_rule(rule_json, rulesets.build_conditions_json(RuleType(rule_type), conditions))
    except BadRule as error:
        reject(error.field, error.problem)


def _build_condition(place: int, new: dict[str, object]) -> dict[str, object]:
    return {
        "unique_id": make_uuid(),
        "alert_condition_type": new["alert_condition_type"],
        "alert_field": new.get("alert_field", ""),
        "pattern": new.get("pattern", ""),
        "position": place if new.get("position") is None else new["position"],
    }


ALERT_RULES = AlertRules()
