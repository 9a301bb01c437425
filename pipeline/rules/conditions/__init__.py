"""Conditions of rules: whether a rule_json, in either of its two syntaxes, holds for an alert.

`compile_rule` once when a rule is saved or loaded, `Index` once per list of rules, `evaluate` for each
candidate and alert. Everything here is pure; only engine.py and patterns.py know foreign libraries.
"""

from pipeline.rules.conditions.bad import BadRule
from pipeline.rules.conditions.index import Equality, Index, find_required_equalities
from pipeline.rules.conditions.rule import (
    CompiledCondition,
    TraceStep,
    Verdict,
    compile_rule,
    evaluate,
    reads_history,
    trace,
    translate_rule,
)
from pipeline.rules.conditions.subject import HISTORY, NEVER, Subject, build_subject

__all__ = [
    "HISTORY",
    "NEVER",
    "BadRule",
    "CompiledCondition",
    "Equality",
    "Index",
    "Subject",
    "TraceStep",
    "Verdict",
    "build_subject",
    "compile_rule",
    "evaluate",
    "find_required_equalities",
    "reads_history",
    "trace",
    "translate_rule",
]
