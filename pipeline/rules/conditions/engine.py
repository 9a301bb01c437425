"""JSON Logic: the only place that knows the engine, so that another could take its place.

`program` compiles and `run` evaluates to a value; `verdict_program` and `holds` do the same for a verdict.
Programs are made from JSON text, since the engine crashes the process on very deep Python objects.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import datalogic_py
import msgspec

from pipeline.rules.conditions import paths, patterns

# The core and plain functions of text and numbers. No clock (`now`), no raising of errors, nothing quadratic.
FAMILIES = ["ExtString", "ExtControl", "ExtMath"]
# Operations of one evaluation: some 10 ms at most. Ordinary rules need fewer than 50.
BUDGET = 100_000
# Makes true or false of any value.
_VERDICT = "!!"
# What patterns may cost in one evaluation, in characters times steps: about a third of a second at worst.
PATTERN_WORK = 80_000_000


class InvalidLogic(ValueError):
    """Logic that the engine will not run, and why."""


class EvaluationError(Exception):
    """An evaluation that came to no value: types that cannot be compared, or too much work."""


_work = threading.local()


def _matches(arguments: str) -> str:
    """Our operator `matches`: whether a text contains a pattern. Gets and gives JSON text."""
    text, pattern = msgspec.json.decode(arguments)
    text = paths.to_text(text)
    regexp = patterns.compile_pattern(pattern)
    _work.remaining -= (len(text) + 1) * regexp.size
    if _work.remaining < 0:
        raise patterns.BadPattern("the patterns had too much text to search")
    return "true" if regexp.is_found_in(text) else "false"


CUSTOM: dict[str, Callable[[str], str]] = {"matches": _matches}

_ENGINE = datalogic_py.Engine(
    families=FAMILIES,
    custom_operators=CUSTOM,
    # Unlike types are unequal, as in the language that JSON Logic comes from, not an error.
    config={"ops_budget": BUDGET, "loose_equality_errors": False},
)
ITERATORS = frozenset(
    {"filter", "map", "reduce", "all", "some", "none"}
    | {each["name"] for each in _ENGINE.operators() if each["scoped_arg"] is not None}
)


@dataclass(frozen=True, slots=True)
class Program:
    """Compiled logic. `reads`: the paths of the variables it reads, or None if they are only known
    while it runs."""

    rule: datalogic_py.Rule
    reads: tuple[tuple[str, ...], ...] | None


def compile_logic(logic: Any) -> Program:
    """Compile any JSON value as logic. Raises Refused, for unknown operators and wrong arguments too."""
    try:
        rule = _ENGINE.compile_checked(msgspec.json.encode(logic).decode())
    except datalogic_py.CompileError as error:
        raise InvalidLogic(_format_diagnosis(error)) from None
    except datalogic_py.DataLogicError as error:
        raise InvalidLogic(str(error)) from None
    facts = rule.facts()
    known = not facts["computed_reads"] and [] not in facts["reads"]
    return Program(rule, tuple(tuple(path) for path in facts["reads"]) if known else None)


def compile_verdict(logic: Any) -> Program:
    """The same, to be asked by `holds`."""
    return compile_logic({_VERDICT: [logic]})


def _format_diagnosis(error: datalogic_py.CompileError) -> str:
    errors = [each for each in error.diagnostics if each["severity"] == "error"]
    return "; ".join(f"{each['message']} (at {_format_location(each['pointer'])})" for each in errors[:3])


def _format_location(pointer: str) -> str:
    return pointer.removeprefix(f"/{_VERDICT}/0") or "the top"


def run(compiled: Program, data: Any) -> str:
    """The value of the logic for these data, as JSON text. Raises Failed, and nothing else for what a
    rule or an alert can hold."""
    _work.remaining = PATTERN_WORK
    try:
        result, _ = compiled.rule.evaluate_metered(data, BUDGET)
    except datalogic_py.DataLogicError as error:
        raise EvaluationError(_get_reason(error)) from None
    except BaseException as error:
        # A panic of the engine is no Exception; an interrupt is none either, and goes on.
        if type(error).__name__ != "PanicException":
            raise
        raise EvaluationError("the engine gave up") from None
    return str(result)


def is_true(compiled: Program, data: Any) -> bool:
    """Whether a `verdict_program` comes to true. Raises Failed."""
    return run(compiled, data) == "true"


_REASONS = {
    "BudgetExceeded": "the condition takes too much work",
    "Custom": "the patterns had too much text to search",
}


def _get_reason(error: datalogic_py.DataLogicError) -> str:
    known = _REASONS.get(error.error_type)
    if known:
        return known
    where = f" in {error.operator!r}" if error.operator else ""
    return f"values that do not fit together{where}"
