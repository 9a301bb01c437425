"""JSON Logic. This is the only module that uses the engine, so that the engine can be replaced.

`compile_logic` compiles and `run` evaluates to a value; `compile_verdict` and `is_true` do the same for a
verdict. Programs are compiled from JSON text, since very deep Python objects crash the engine.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

import datalogic_py
import msgspec

from pipeline.rules.conditions import paths, patterns

# The core, and plain functions for text and numbers. No operator reads the clock, raises errors, or needs
# quadratic time.
OPERATOR_GROUPS = ["ExtString", "ExtControl", "ExtMath"]
# Operations of one evaluation: about 10 ms at most. Ordinary rules need fewer than 50.
BUDGET = 100_000
# Converts any value to true or false.
_VERDICT = "!!"
# The most that patterns can cost in one evaluation, in characters times steps: about a third of a second.
PATTERN_WORK = 80_000_000


class InvalidLogic(ValueError):
    """The engine cannot compile this logic; the error says why."""


class EvaluationError(Exception):
    """An evaluation without a value: types that cannot be compared, or too much work."""


_work = threading.local()


def _matches(arguments: str) -> str:
    """Return whether a text contains a pattern: our operator `matches`. Input and output are JSON text."""
    text, pattern = msgspec.json.decode(arguments)
    text = paths.to_text(text)
    regexp = patterns.compile_pattern(pattern)
    _work.remaining -= (len(text) + 1) * regexp.size
    if _work.remaining < 0:
        raise patterns.BadPattern("the patterns had too much text to search")
    return "true" if regexp.is_found_in(text) else "false"


CUSTOM: dict[str, Callable[[str], str]] = {"matches": _matches}

_ENGINE = datalogic_py.Engine(
    families=OPERATOR_GROUPS,
    custom_operators=CUSTOM,
    # Values of different types are unequal, as in JavaScript, and not an error.
    config={"ops_budget": BUDGET, "loose_equality_errors": False},
)
ITERATORS = frozenset(
    {"filter", "map", "reduce", "all", "some", "none"}
    | {each["name"] for each in _ENGINE.operators() if each["scoped_arg"] is not None}
)


@dataclass(frozen=True, slots=True)
class Program:
    """Compiled logic.

    `reads` are the paths of the variables that it reads. None: they are known only while it runs.
    """

    rule: datalogic_py.Rule
    reads: tuple[tuple[str, ...], ...] | None


def compile_logic(logic: object) -> Program:
    """Compile any JSON value as logic.

    Raises InvalidLogic, also for unknown operators and wrong arguments.
    """
    try:
        rule = _ENGINE.compile_checked(msgspec.json.encode(logic).decode())
    except datalogic_py.CompileError as error:
        raise InvalidLogic(_format_diagnosis(error)) from None
    except datalogic_py.DataLogicError as error:
        raise InvalidLogic(str(error)) from None
    facts = rule.facts()
    known = not facts["computed_reads"] and [] not in facts["reads"]
    return Program(rule, tuple(tuple(path) for path in facts["reads"]) if known else None)


def compile_verdict(logic: object) -> Program:
    """Compile logic whose verdict `is_true` returns."""
    return compile_logic({_VERDICT: [logic]})


def _format_diagnosis(error: datalogic_py.CompileError) -> str:
    errors = [each for each in error.diagnostics if each["severity"] == "error"]
    return "; ".join(f"{each['message']} (at {_format_location(each['pointer'])})" for each in errors[:3])


def _format_location(pointer: str) -> str:
    return pointer.removeprefix(f"/{_VERDICT}/0") or "the top"


def run(compiled: Program, data: object) -> str:
    """Return the value of the logic for these data, as JSON text.

    Raises EvaluationError, and no other error for any content of a rule or an alert.
    """
    _work.remaining = PATTERN_WORK
    try:
        result, _ = compiled.rule.evaluate_metered(data, BUDGET)
    except datalogic_py.DataLogicError as error:
        raise EvaluationError(_get_reason(error)) from None
    except BaseException as error:
        # A panic of the engine is a BaseException, as an interrupt is. An interrupt must be raised again.
        if type(error).__name__ != "PanicException":
            raise
        raise EvaluationError("the engine failed") from None
    return str(result)


def is_true(compiled: Program, data: object) -> bool:
    """Return whether a program of `compile_verdict` evaluates to true. Raises EvaluationError."""
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
    return f"values of types that cannot be compared{where}"
