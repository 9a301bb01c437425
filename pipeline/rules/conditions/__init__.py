"""Conditions of rules: decide whether a rule_json holds for an alert. A rule_json has one of two syntaxes.

Call `compile_rule` once when a rule is saved or loaded, and create an `Index` once per list of rules. Call
`evaluate` for each candidate and alert. Everything is pure. Only engine.py uses the library for JSON Logic,
and only patterns.py uses the library for regular expressions.
"""

from pipeline.rules.conditions.bad import BadRule
from pipeline.rules.conditions.budget import STEPS, Budget, BudgetExceeded, Work
from pipeline.rules.conditions.index import Index
from pipeline.rules.conditions.rule import (
    CompiledCondition,
    Verdict,
    compile_rule,
    evaluate,
    list_unknown_parts,
    reads_past_incidents,
    trace,
)
from pipeline.rules.conditions.subject import (
    NEVER,
    SECONDS_SINCE_LAST,
    Subject,
    build_subject,
    update_subject,
)

__all__ = [
    "NEVER",
    "SECONDS_SINCE_LAST",
    "STEPS",
    "BadRule",
    "Budget",
    "BudgetExceeded",
    "CompiledCondition",
    "Index",
    "Subject",
    "Verdict",
    "Work",
    "build_subject",
    "compile_rule",
    "evaluate",
    "list_unknown_parts",
    "reads_past_incidents",
    "trace",
    "update_subject",
]
