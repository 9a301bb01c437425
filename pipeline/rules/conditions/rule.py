"""A condition, from its stored text to its verdict on an alert."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pipeline.rules.conditions import codes, engine, guards, paths, tree
from pipeline.rules.conditions.bad import BadRule
from pipeline.rules.conditions.catalogue import Logic
from pipeline.rules.conditions.subject import HISTORY, Picker, Subject, get_canonical_name

# Each may walk the whole payload: measured 3 ms for one that makes text of half a megabyte.
MAX_SEARCHES = 100


@dataclass(frozen=True, slots=True)
class Verdict:
    """`note` says why a condition could not match, or what of it is not understood. `read` are the
    variables that it reads with their values, None for what the alert does not have."""

    matches: bool
    note: str | None = None
    read: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CompiledCondition:
    """A condition ready for any number of alerts. `logic` is what is evaluated, for people and for the
    index; `notes` what a tree says that we do not know. To be kept and shared, also between threads."""

    rule_json: str
    logic: Logic
    notes: tuple[str, ...]
    program: engine.Program
    picker: Picker

    @property
    def matches_all(self) -> bool:
        """Whether it has no condition: it matches everything."""
        return self.logic is True


def compile_rule(*rule_jsons: str) -> CompiledCondition:
    """Compile stored conditions of either syntax, which must all hold; "" and {} are always true.

    Raises BadRule.
    """
    parts = [translate_rule(text) for text in rule_jsons]
    logics = [logic for logic, _ in parts if logic is not True]
    notes = tuple(note for _, part_notes in parts for note in part_notes)
    combined: Logic = {"and": logics} if len(logics) > 1 else logics[0] if logics else True
    return _compile("".join(rule_jsons), combined, notes)


def reads_history(compiled: CompiledCondition) -> bool:
    """Whether a verdict depends on what became of earlier alerts (seconds since the last incident)."""
    reads = compiled.program.reads
    if reads is None:
        return True
    return any(not each or each == ("alert",) or get_canonical_name(each)[0] == HISTORY for each in reads)


def translate_rule(rule_json: str) -> tuple[Logic, tuple[str, ...]]:
    """The JSON Logic of a stored condition, checked, and notes on what was not understood."""
    value = guards.decode_rule(rule_json) if rule_json.strip() else ""
    if value in ("", {}):
        return True, ()
    if not isinstance(value, dict):
        raise BadRule("must be a JSON object")
    if tree.is_tree(value):
        translation = tree.Translator()
        return translation.translate(value), tuple(translation.notes)
    guards.check_logic(value)
    return codes.convert_codes(value), ()


def _compile(rule_json: str, logic: Logic, notes: tuple[str, ...] = ()) -> CompiledCondition:
    try:
        program = engine.compile_verdict(logic)
        picker = Picker(program.reads)
    except (engine.InvalidLogic, paths.BadPath) as error:
        raise BadRule(str(error)) from None
    if picker.searches > MAX_SEARCHES:
        raise BadRule(f"may look at {MAX_SEARCHES} paths of the payload")
    return CompiledCondition(rule_json, logic, notes, program, picker)


def evaluate(compiled: CompiledCondition, subject: Subject) -> Verdict:
    """The verdict on one alert. Raises nothing for what a rule or an alert can hold."""
    data, read = compiled.picker.pick(subject)
    note = "; ".join(compiled.notes) or None
    try:
        return Verdict(engine.is_true(compiled.program, data), note, read)
    except engine.EvaluationError as failed:
        return Verdict(False, str(failed), read)


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One node of a condition and its verdict: `depth` below the whole, `logic` its text, cut if long."""

    depth: int
    logic: str
    verdict: Verdict


MAX_TEXT_LENGTH = 300
# What combines verdicts, and how many arguments of it are looked at.
_GROUPS = {"and": None, "or": None, "!": 1, "!!": 1}


def trace(compiled: CompiledCondition, subject: Subject) -> Iterator[TraceStep]:
    """Every group and every comparison of a condition with its own verdict, for people who try it.

    Each is evaluated by itself, also those that the whole would not have looked at: who has no more time
    for them takes no more of them.
    """
    for depth, logic in _iterate_nodes(compiled.logic, 0):
        yield TraceStep(depth, _format_logic(logic), evaluate(_compile("", logic), subject))


def _iterate_nodes(logic: Logic, depth: int) -> Iterator[tuple[int, Logic]]:
    yield depth, logic
    if not isinstance(logic, Mapping) or len(logic) != 1:
        return
    operator, arguments = next(iter(logic.items()))
    limit = _GROUPS.get(operator, 0)
    for each in (arguments if isinstance(arguments, list) else [arguments])[:limit]:
        yield from _iterate_nodes(each, depth + 1)


def _format_logic(logic: Logic) -> str:
    text = msgspec.json.encode(logic).decode()
    return text if len(text) <= MAX_TEXT_LENGTH else text[:MAX_TEXT_LENGTH] + "..."
