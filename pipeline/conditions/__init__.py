"""Conditions of rules: whether a rule_json, in either of its two syntaxes, holds for an alert.

`compile_rule` once when a rule is saved or loaded, `Index` once per list of rules, `evaluate` for each
candidate and alert. Everything here is pure; only engine.py and patterns.py know foreign libraries.
"""

from pipeline.conditions.bad import BadRule
from pipeline.conditions.index import Equality, Index, required_equalities
from pipeline.conditions.rule import (
    Compiled,
    Step,
    Verdict,
    compile_rule,
    evaluate,
    reads_history,
    trace,
    translated,
)
from pipeline.conditions.subject import HISTORY, NEVER, Subject, subject_of

__all__ = [
    "HISTORY",
    "NEVER",
    "BadRule",
    "Compiled",
    "Equality",
    "Index",
    "Step",
    "Subject",
    "Verdict",
    "compile_rule",
    "evaluate",
    "reads_history",
    "required_equalities",
    "subject_of",
    "trace",
    "translated",
]
