"""Find the equalities of a variable and constant texts, and those that a condition always requires.

The index (index.py) and the verdicts that a condition keeps (text_tests.py) use them. Only comparisons in
which the engine compares nothing but texts are found: it compares some texts as numbers, times or durations.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.rules.conditions.catalogue import FIELDS, Logic
from pipeline.rules.conditions.codes import get_variable
from pipeline.rules.conditions.subject import Variable, get_canonical_name, is_search


@dataclass(frozen=True, slots=True)
class Equality:
    """The condition can match only if the variable is one of these texts."""

    variable: Variable
    texts: frozenset[str]


def find_required_equalities(logic: Logic) -> list[Equality]:
    """Return what a condition always requires: the equalities of its top-level `and`."""
    if not isinstance(logic, Mapping) or len(logic) != 1:
        return []
    operator, arguments = next(iter(logic.items()))
    if not isinstance(arguments, list):
        return []
    if operator == "and":
        return [equality for each in arguments for equality in find_required_equalities(each)]
    if operator in ("or", "!!"):
        return _combine_branches(arguments) if operator == "or" or len(arguments) == 1 else []
    equality = find_equality(operator, arguments)
    return [] if equality is None else [equality]


def _combine_branches(branches: list[Logic]) -> list[Equality]:
    """Return what every branch requires of the same variable, combined."""
    demands = [
        {each.variable: each.texts for each in find_required_equalities(branch)} for branch in branches
    ]
    shared = set.intersection(*(set(each) for each in demands)) if demands else set()
    return [
        Equality(variable, frozenset[str]().union(*(each[variable] for each in demands)))
        for variable in sorted(shared)
    ]


def find_equality(operator: str, arguments: list[Logic]) -> Equality | None:
    """Return the equality that one operation requires, or None."""
    if len(arguments) != 2:
        return None
    first, second = arguments
    if operator in ("==", "==="):
        read, value = (second, first) if isinstance(first, str) else (first, second)
        return _build_equality(read, [value], strict=operator == "===")
    if operator == "in" and isinstance(second, list):
        # `in` compares in the same way as `==`.
        return _build_equality(first, second, strict=False)
    if operator == "some":
        return _find_item_equality(first, second)
    return None


def _find_item_equality(found: Logic, test: Logic) -> Equality | None:
    """Return the equality for `some` of the texts at a path, as in the payload search of the query
    builder.
    """
    variable = get_variable(found)
    if variable is None or not is_search(variable) or not isinstance(test, Mapping) or len(test) != 1:
        return None
    operator, arguments = next(iter(test.items()))
    if not isinstance(arguments, list) or len(arguments) != 2 or arguments[0] != {"var": ""}:
        return None
    value = arguments[1]
    if operator == "===":
        equality = _build_text_equality(variable, [value])
        return equality if equality is not None and _is_strictly_plain(equality) else None
    equality = _build_text_equality(variable, value) if operator == "in" else None
    return equality if equality is not None and _is_plain(equality) else None


def _build_equality(read: Logic, values: list[object], *, strict: bool) -> Equality | None:
    variable = get_variable(read)
    if variable is None or is_search(variable) or _has_default(read):
        return None
    equality = _build_text_equality(get_canonical_name(variable), values)
    if equality is None or (_is_strictly_plain(equality) if strict else _is_plain(equality)):
        return equality
    return None


def _has_default(read: Logic) -> bool:
    name = read.get("var") if isinstance(read, Mapping) else None
    return isinstance(name, list) and len(name) > 1


def _build_text_equality(variable: Variable, values: object) -> Equality | None:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        return None
    return Equality(variable, frozenset(values))


def _is_strictly_plain(equality: Equality) -> bool:
    """Return whether `===` only compares texts here.

    The engine compares times and durations by their values ("1d" === "24h"). These begin with a digit, and
    have a letter.
    """
    return all(text[:1].isalpha() or not any(map(str.isalpha, text)) for text in equality.texts)


def _is_plain(equality: Equality) -> bool:
    """Return whether `==` only compares texts here.

    If a text can be read as a number, a time or a duration, `==` compares these values ("1d" == "24h"). Such
    a text begins with a digit, a sign or a blank. The text "" equals null.
    """
    name = equality.variable
    if len(name) == 1 and name[0] in FIELDS and FIELDS[name[0]].coded:
        return name[0] in ("alert_type", "urgency", "day_of_week")
    return all(text[:1].isalpha() for text in equality.texts)
