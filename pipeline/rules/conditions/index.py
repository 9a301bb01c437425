"""Find the conditions of a list that can match an alert, without evaluating each.

Most conditions require that a variable equals a constant. The index stores such a condition by one variable
and its value, so an alert finds only the conditions that name its values. All other conditions are always
candidates. So the index can return too many conditions, but never too few.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.rules.conditions.budget import STEPS, Budget, BudgetExceeded
from pipeline.rules.conditions.catalogue import FIELDS, Logic
from pipeline.rules.conditions.codes import get_variable
from pipeline.rules.conditions.rule import CompiledCondition
from pipeline.rules.conditions.subject import Subject, Variable, get_canonical_name, is_search, read_variable


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
    equality = _find_equality(operator, arguments)
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


def _find_equality(operator: str, arguments: list[Logic]) -> Equality | None:
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


class Index:
    """The conditions of one list, in its order. Create it once per version of the list."""

    def __init__(self, conditions: Sequence[CompiledCondition]) -> None:
        demands = [find_required_equalities(each.logic) for each in conditions]
        counts = Counter(
            (each.variable, text) for equalities in demands for each in equalities for text in each.texts
        )
        self._tables: dict[Variable, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        self._unindexed: list[int] = []
        self._size = len(conditions)
        for position, equalities in enumerate(demands):
            if not equalities:
                self._unindexed.append(position)
                continue
            rarest = min(equalities, key=lambda each: sum(counts[each.variable, text] for text in each.texts))
            for text in rarest.texts:
                self._tables[rarest.variable][text].append(position)
        # The fields of a subject that the variables are in.
        self._fields = {"payload" if is_search(each) else each[0] for each in self._tables}

    def is_changed(self, before: Subject, after: Subject) -> bool:
        """Return whether searches for these subjects can find different conditions or need different work."""
        if before is after:
            return False
        for name in self._fields:
            old, new = before.get(name), after.get(name)
            if old is not new and old != new:
                return True
        return False

    def find_candidates(self, subject: Subject, budget: Budget) -> list[int]:
        """Return the positions of the conditions that can match, ascending.

        If the budget does not suffice to find them, return all positions; their evaluation then says so.
        """
        found: list[int] = []
        try:
            # Measured: a look-up takes a microsecond, a position 15 nanoseconds.
            budget.spend(STEPS, 5 * len(self._tables) + len(self._unindexed) // 10)
            for variable, table in self._tables.items():
                value = read_variable(subject, variable, budget)
                if isinstance(value, list):
                    budget.spend(STEPS, len(value))
                for positions in _find_rows(table, value):
                    budget.spend(STEPS, len(positions) // 10)
                    found += positions
        except BudgetExceeded:
            return list(range(self._size))
        # Several values of a list can name the same condition.
        return sorted({*self._unindexed, *found}) if found else self._unindexed


def _find_rows(table: dict[str, list[int]], value: object) -> Iterator[list[int]]:
    if isinstance(value, str):
        if value in table:
            yield table[value]
    elif isinstance(value, list):
        yield from (table[each] for each in value if isinstance(each, str) and each in table)
    elif isinstance(value, bool):
        # true == "true"; only the engine knows which other texts equal it.
        yield from table.values()
