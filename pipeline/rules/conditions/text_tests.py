"""Find out what a verdict depends on in a text: which constants it equals, contains, begins or ends with.

If a condition reads a variable only in such comparisons, its verdict depends on nothing but their results. So
a verdict is also that of another text with the same results: "Disk 93% full" and "Disk 94% full" are the same
for a condition that searches "Disk" in the message.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.rules.conditions.catalogue import Logic
from pipeline.rules.conditions.codes import get_variable
from pipeline.rules.conditions.equalities import find_equality
from pipeline.rules.conditions.subject import TextTests, Variable, get_canonical_name, is_search

# More constants than this are not compared for each alert: the engine often needs only the first of them.
MAX_CONSTANTS = 8

# Operations that only combine verdicts and values.
_COMBINING = frozenset({"and", "or", "!", "!!", "if", "?:"})
# Operations that read variables only where their arguments name them. Others can name one as a plain text, or
# have variables that are not those of the alert.
_PLAIN = frozenset(
    {"==", "===", "!=", "!==", "<", "<=", ">", ">=", "in", "starts_with", "ends_with", "lower"}
)
_SAME_COMPARISON = {"!=": "==", "!==": "==="}


class _UnknownOperation(Exception):
    """Which variables an operation reads is not known here."""


@dataclass(slots=True)
class _Uses:
    """How a condition uses its variables: the constants of text comparisons, and all other uses."""

    equal: dict[Variable, set[str]]
    # By variable: the operation and its constant.
    tests: dict[Variable, set[tuple[str, str]]]
    otherwise: set[Variable]

    def collect(self, node: Logic) -> None:
        """Add the uses in a node. Raises _UnknownOperation."""
        variable = get_variable(node)
        if variable is not None:
            self.otherwise.add(get_canonical_name(variable))
        elif isinstance(node, list):
            for each in node:
                self.collect(each)
        elif isinstance(node, Mapping):
            self._collect_operation(node)

    def _collect_operation(self, node: Mapping[str, Logic]) -> None:
        if len(node) != 1:
            raise _UnknownOperation
        operator, arguments = next(iter(node.items()))
        if operator not in _COMBINING and operator not in _PLAIN:
            raise _UnknownOperation
        if not (isinstance(arguments, list) and self._add_comparison(operator, arguments)):
            self.collect(arguments)

    def _add_comparison(self, operator: str, arguments: list[Logic]) -> bool:
        """Add the comparison of a variable with constant texts. Return False if it is something else."""
        equality = find_equality(_SAME_COMPARISON.get(operator, operator), arguments)
        if equality is not None:
            self.equal[equality.variable].update(equality.texts)
            return True
        if operator not in ("in", "starts_with", "ends_with") or len(arguments) != 2:
            return False
        constant, read = arguments if operator == "in" else reversed(arguments)
        variable = get_variable(read)
        if variable is None or is_search(variable) or not isinstance(constant, str):
            return False
        self.tests[get_canonical_name(variable)].add((operator, constant))
        return True


def find_text_tests(logic: Logic) -> dict[Variable, TextTests]:
    """Return the comparisons of each variable that the condition uses in no other way."""
    uses = _Uses(defaultdict(set), defaultdict(set), set())
    try:
        uses.collect(logic)
    except _UnknownOperation:
        return {}
    return {
        variable: TextTests(
            frozenset(uses.equal.get(variable, ())),
            _pick(tests, "in"),
            _pick(tests, "starts_with"),
            _pick(tests, "ends_with"),
        )
        for variable in {*uses.equal, *uses.tests} - uses.otherwise
        if len(tests := uses.tests.get(variable, set())) <= MAX_CONSTANTS
    }


def _pick(tests: set[tuple[str, str]], operator: str) -> tuple[str, ...]:
    return tuple(sorted(constant for each, constant in tests if each == operator))
