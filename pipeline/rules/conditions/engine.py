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
from pipeline.rules.conditions.budget import STEPS, Budget, BudgetExceeded, Work

# The core, and plain functions for text and numbers. No operator reads the clock, raises errors, or needs
# quadratic time.
OPERATOR_GROUPS = ["ExtString", "ExtControl", "ExtMath"]
# Operations of one evaluation: about 10 ms at most. Ordinary rules need fewer than 50.
MAX_OPERATIONS = 100_000
# Operations that count as one step of an alert's budget. Measured: at most 0.1 microseconds each.
OPERATIONS_PER_STEP = 4
# Steps of any evaluation, however simple.
MIN_STEPS = 10
# Steps of an evaluation that failed with an iterator in it: the engine does not say how far it came.
FAILED_STEPS = 5_000
# Converts any value to true or false.
_VERDICT = "!!"


class InvalidLogic(ValueError):
    """The engine cannot compile this logic; the error says why."""


class EvaluationError(Exception):
    """An evaluation without a value: types that cannot be compared, or too much work."""


class _Current(threading.local):
    """The budget of the evaluation in this thread, and the error of a pattern that exceeded it."""

    budget: Budget
    exceeded: BudgetExceeded | None


_current = _Current()


def _matches(arguments: str) -> str:
    """Return whether a text contains a pattern: our operator `matches`. Input and output are JSON text."""
    text, pattern = msgspec.json.decode(arguments)
    text = paths.to_text(text)
    regexp = patterns.compile_pattern(pattern)
    try:
        _current.budget.spend(Work.SEARCHED, regexp.get_cost(text))
    except BudgetExceeded as error:
        _current.exceeded = error
        raise
    return "true" if regexp.is_found_in(text) else "false"


CUSTOM: dict[str, Callable[[str], str]] = {"matches": _matches}

_ENGINE = datalogic_py.Engine(
    families=OPERATOR_GROUPS,
    custom_operators=CUSTOM,
    # Values of different types are unequal, as in JavaScript, and not an error.
    config={"ops_budget": MAX_OPERATIONS, "loose_equality_errors": False},
)
ITERATORS = frozenset(
    {"filter", "map", "reduce", "all", "some", "none"}
    | {each["name"] for each in _ENGINE.operators() if each["scoped_arg"] is not None}
)


@dataclass(frozen=True, slots=True)
class Program:
    """Compiled logic.

    `reads` are the paths of the variables that it reads. None: they are known only while it runs.
    `may_iterate`: it can take more operations than it has nodes. `may_search`: it can search for a pattern.
    """

    rule: datalogic_py.Rule
    reads: tuple[tuple[str, ...], ...] | None
    may_iterate: bool
    may_search: bool


def compile_logic(logic: object) -> Program:
    """Compile any JSON value as logic.

    Raises InvalidLogic, also for unknown operators and wrong arguments.
    """
    text = msgspec.json.encode(logic).decode()
    try:
        rule = _ENGINE.compile_checked(text)
    except datalogic_py.CompileError as error:
        raise InvalidLogic(_format_diagnosis(error)) from None
    except datalogic_py.DataLogicError as error:
        raise InvalidLogic(str(error)) from None
    facts = rule.facts()
    known = not facts["computed_reads"] and [] not in facts["reads"]
    reads = tuple(tuple(path) for path in facts["reads"]) if known else None
    may_iterate = any(f'"{name}"' in text for name in ITERATORS)
    return Program(rule, reads, may_iterate, any(f'"{name}"' in text for name in CUSTOM))


def compile_verdict(logic: object) -> Program:
    """Compile logic whose verdict `is_true` returns."""
    return compile_logic({_VERDICT: [logic]})


def _format_diagnosis(error: datalogic_py.CompileError) -> str:
    errors = [each for each in error.diagnostics if each["severity"] == "error"]
    return "; ".join(f"{each['message']} (at {_format_location(each['pointer'])})" for each in errors[:3])


def _format_location(pointer: str) -> str:
    return pointer.removeprefix(f"/{_VERDICT}/0") or "the top"


def run(compiled: Program, data: object, budget: Budget) -> str:
    """Return the value of the logic for these data, as JSON text.

    Raises EvaluationError and BudgetExceeded, and no other error for any content of a rule or an alert.
    """
    budget.spend(STEPS, MIN_STEPS)
    if compiled.may_search:
        _current.budget, _current.exceeded = budget, None
    limit = min(MAX_OPERATIONS, budget.get_left(STEPS) * OPERATIONS_PER_STEP)
    try:
        result, operations = compiled.rule.evaluate_metered(data, limit)
    except datalogic_py.DataLogicError as error:
        if compiled.may_search and _current.exceeded is not None:
            raise _current.exceeded from None
        if error.error_type == _TOO_MANY_OPERATIONS:
            # If the budget was the limit, more is needed than is left of it.
            budget.spend(STEPS, limit // OPERATIONS_PER_STEP + (limit < MAX_OPERATIONS))
        elif compiled.may_iterate:
            budget.spend(STEPS, FAILED_STEPS)
        raise EvaluationError(_get_reason(error)) from None
    except BaseException as error:
        # A panic of the engine is a BaseException, as an interrupt is. An interrupt must be raised again.
        if type(error).__name__ != "PanicException":
            raise
        raise EvaluationError("the engine failed") from None
    if operations >= OPERATIONS_PER_STEP:
        budget.spend(STEPS, operations // OPERATIONS_PER_STEP)
    return str(result)


def is_true(compiled: Program, data: object, budget: Budget) -> bool:
    """Return whether a program of `compile_verdict` evaluates to true. Raises what `run` raises."""
    return run(compiled, data, budget) == "true"


_TOO_MANY_OPERATIONS = "BudgetExceeded"
_REASONS = {_TOO_MANY_OPERATIONS: "the condition takes too much work"}


def _get_reason(error: datalogic_py.DataLogicError) -> str:
    known = _REASONS.get(error.error_type)
    if known:
        return known
    where = f" in {error.operator!r}" if error.operator else ""
    return f"values of types that cannot be compared{where}"
