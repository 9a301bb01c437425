"""Compile a stored condition and evaluate it for an alert."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from models.domain.reasons import Reason, make_reason
from models.domain.values import Value, new_field
from pipeline.rules.conditions import catalogue, codes, engine, guards, paths, tree
from pipeline.rules.conditions.bad import BadRule, quote
from pipeline.rules.conditions.budget import STEPS, Budget, BudgetExceeded
from pipeline.rules.conditions.catalogue import Logic
from pipeline.rules.conditions.subject import (
    SECONDS_SINCE_LAST,
    Picker,
    Subject,
    Texts,
    get_canonical_name,
    is_search,
)
from pipeline.rules.conditions.text_tests import find_text_tests

# Each search can read the whole payload: measured, 3 ms for one that returns half a megabyte of text.
MAX_SEARCHES = 100


# The names that a variable may begin with.
_KNOWN = {*catalogue.FIELDS, catalogue.PAYLOAD, "alert"}


class Verdict(Value, frozen=True):
    """The result of a condition for one alert.

    `note` says why the condition could not match, or which part of it is unknown. `read` has the variables
    that the condition reads, with their values; None: the alert does not have the variable. `is_skipped`: the
    condition was not evaluated to its end, because the budget of the alert did not suffice.
    """

    matches: bool
    note: Reason | None = None
    read: Mapping[str, object] = new_field(default_factory=dict)
    is_skipped: bool = False


class Latest:
    """The latest verdict of a condition, with the texts that it depends on and the steps that it took.

    Alerts of one source often have the same texts, or texts with the same results of all comparisons, and a
    verdict depends on nothing else. Each evaluation releases the GIL: other threads take it, and the batch
    waits for them at each alert. More than one verdict is not kept: if alerts differ, to look for one among
    thousands takes longer than a condition.
    """

    __slots__ = ("verdict",)

    def __init__(self) -> None:
        self.verdict: tuple[Texts, bool, int] | None = None


@dataclass(frozen=True, slots=True)
class CompiledCondition:
    """A condition that is ready for any number of alerts. Keep and share it, also between threads.

    `logic` is what is evaluated, for people and for the index. `notes` name the unknown parts of a tree.
    `latest` has the latest verdict.
    """

    rule_json: str
    logic: Logic
    notes: tuple[str, ...]
    program: engine.Program
    picker: Picker
    latest: Latest = field(default_factory=Latest)


def compile_rule(*rule_jsons: str) -> CompiledCondition:
    """Compile stored conditions of either syntax, which must all hold. "" and {} are always true.

    Raises BadRule.
    """
    translated = [translate_rule(text) for text in rule_jsons]
    logics = [logic for logic, _ in translated if logic is not True]
    notes = tuple(note for _, notes_found in translated for note in notes_found)
    combined: Logic = {"and": logics} if len(logics) > 1 else logics[0] if logics else True
    return _compile("".join(rule_jsons), combined, notes)


def reads_past_incidents(compiled: CompiledCondition) -> bool:
    """Return whether a verdict depends on the results of earlier alerts (seconds since the last incident)."""
    reads = compiled.program.reads
    if reads is None:
        return True
    return any(
        not each or each == ("alert",) or get_canonical_name(each)[0] == SECONDS_SINCE_LAST for each in reads
    )


def list_unknown_parts(compiled: CompiledCondition) -> tuple[str, ...]:
    """Return what a condition reads that no alert has, as sentences without a subject.

    Fields of the payload differ between senders, so any of them may exist.
    """
    names = {
        get_canonical_name(each)[0] for each in compiled.program.reads or () if each and not is_search(each)
    }
    unknown = sorted(name for name in names if name not in _KNOWN)
    return (
        *compiled.notes,
        *(
            f"the field {quote(name)} is not known; fields of the payload begin with payload."
            for name in unknown
        ),
    )


def translate_rule(rule_json: str) -> tuple[Logic, tuple[str, ...]]:
    """Return the checked JSON Logic of a stored condition, and notes on its unknown parts."""
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
        picker = Picker(program.reads, find_text_tests(logic))
    except (engine.InvalidLogic, paths.BadPath) as error:
        raise BadRule(str(error)) from None
    if picker.searches > MAX_SEARCHES:
        raise BadRule(f"may look at {MAX_SEARCHES} paths of the payload")
    return CompiledCondition(rule_json, logic, notes, program, picker)


def evaluate(compiled: CompiledCondition, subject: Subject, budget: Budget) -> Verdict:
    """Return the verdict on one alert. Raises no error for any content of a rule or an alert."""
    read: Mapping[str, object] = {}
    note = make_reason("condition_unknown", parts="; ".join(compiled.notes)) if compiled.notes else None
    try:
        data, read, texts = compiled.picker.pick(subject, budget)
        return Verdict(_evaluate(compiled, data, texts, budget), note, read)
    except BudgetExceeded as exceeded:
        return Verdict(False, exceeded.reason, read, is_skipped=True)
    except engine.EvaluationError as failed:
        return Verdict(False, make_reason("condition_failed", error=str(failed)), read)


def _evaluate(compiled: CompiledCondition, data: Subject, texts: Texts | None, budget: Budget) -> bool:
    """Return the last verdict if the texts are the same, or evaluate the condition.

    The work is taken from the budget in any case, so that the results are the same. Raises what
    `engine.is_true` raises.
    """
    if texts is None or compiled.program.may_search:
        return engine.is_true(compiled.program, data, budget)
    left, last = budget.get_left(STEPS), compiled.latest.verdict
    # With just these steps, the engine may need a part of one more.
    if last is not None and last[0] == texts and last[2] < left:
        budget.spend(STEPS, last[2])
        return last[1]
    verdict = engine.is_true(compiled.program, data, budget)
    compiled.latest.verdict = (texts, verdict, left - budget.get_left(STEPS))
    return verdict


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One node of a condition and its verdict.

    `depth` is its level; `logic` is its text, truncated if long.
    """

    depth: int
    logic: str
    verdict: Verdict


MAX_TEXT_LENGTH = 300
# Operators that combine verdicts, and how many of their arguments are evaluated.
_GROUPS = {"and": None, "or": None, "!": 1, "!!": 1}


def trace(compiled: CompiledCondition, subject: Subject, budget: Budget) -> Iterator[TraceStep]:
    """Yield each part of a condition that gives a verdict, with its verdict, for people who test the
    condition.

    Each part is evaluated separately, also parts that an evaluation of the whole would skip. All parts have
    one budget. A caller without more time stops the iteration.
    """
    for depth, logic in _iterate_nodes(compiled.logic, 0):
        yield TraceStep(depth, _format_logic(logic), evaluate(_compile("", logic), subject, budget))


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
