"""Decide by outgoing rules which incidents an outbound integration sends (contract sections 3.12 and 4.8)."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from models.domain.reasons import Reason, make_reason
from models.tables.incidents import Drill
from models.tables.rules import OutgoingRule
from pipeline.rules.conditions.bad import BadRule
from pipeline.rules.conditions.budget import Budget
from pipeline.rules.conditions.rule import CompiledCondition, compile_rule, evaluate


def find_obstacle(incident: int, integration: int, content: Mapping[str, object] | None) -> Reason | None:
    """Return why an integration does not send an incident (row numbers); None: it does.

    `content` is the body of the incident; None: it was deleted.
    """
    if Drill.select().where(Drill.incident == incident).exists():
        return make_reason("outbound_drill")
    if content is None or not is_sent(load_rules(integration), content):
        return make_reason("outbound_filtered")
    return None


def load_rules(integration: int) -> list[str]:
    """Return the conditions of the enabled rules of an integration (row number)."""
    query = OutgoingRule.select(OutgoingRule.rule_json).where(
        OutgoingRule.integration == integration, OutgoingRule.is_enabled
    )
    return [text for (text,) in query.order_by(OutgoingRule.id).tuples()]


def is_sent(rules: Sequence[str], incident: Mapping[str, object]) -> bool:
    """Return whether an incident is sent: there are no rules, or one of them matches.

    The rules of an incident have one budget of work. A rule that cannot be read, or that exceeds the budget,
    does not match.
    """
    if not rules:
        return True
    # The query builder knows the title as the message of an alert.
    fields = {**incident, "message": incident.get("title")}
    subject = {**fields, "incident": fields}
    budget = Budget()
    compiled = (_compile(text) for text in rules)
    return any(rule is not None and evaluate(rule, subject, budget).matches for rule in compiled)


@lru_cache(maxsize=256)
def _compile(rule_json: str) -> CompiledCondition | None:
    try:
        return compile_rule(rule_json)
    except BadRule:
        return None
