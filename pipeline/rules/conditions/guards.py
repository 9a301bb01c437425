"""Limits of a condition, checked when it is saved: its size, its depth, and the work that it can cause.

The budget of the engine limits each evaluation too. These limits refuse a condition early, with an
explanation.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from models.domain.values import replace
from pipeline.rules.conditions import engine, patterns
from pipeline.rules.conditions.bad import BadRule

MAX_BYTES = 64 * 1024
MAX_DEPTH = 32
MAX_NODES = 1_000
MAX_ITERATORS = 2


def decode_rule(rule_json: str) -> object:
    """Return the JSON value of a stored text. Raises BadRule."""
    try:
        body = rule_json.encode()
    except UnicodeEncodeError:
        raise BadRule("is not valid text") from None
    if len(body) > MAX_BYTES:
        raise BadRule(f"may have {MAX_BYTES} bytes, not {len(body)}")
    try:
        return msgspec.json.decode(body)
    except RecursionError:
        raise BadRule(f"may be nested {MAX_DEPTH} deep") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise BadRule(f"is not JSON: {error}") from None


@dataclass(frozen=True, slots=True)
class _Position:
    """The position of a node in the logic: the levels above it, and the iterators and reduces around it."""

    depth: int = 1
    iterators: int = 0
    reducing: bool = False

    def descend(self) -> "_Position":
        return replace(self, depth=self.depth + 1)

    def enter_iterator(self, operator: str) -> "_Position":
        """Return the position of the part of an iterator that runs for each item."""
        return replace(
            self, iterators=self.iterators + 1, reducing=self.reducing or operator == "reduce"
        ).descend()


class _Checker:
    def __init__(self) -> None:
        self._nodes = 0

    def check(self, node: object, position: _Position) -> None:
        if not isinstance(node, Mapping | list):
            return
        self._count(position)
        if isinstance(node, list):
            for item in node:
                self.check(item, position.descend())
        elif len(node) > 1:
            raise BadRule("each object of JSON Logic must have one operator")
        elif node:
            self._check_operation(*next(iter(node.items())), position)

    def _count(self, position: _Position) -> None:
        self._nodes += 1
        if position.depth > MAX_DEPTH:
            raise BadRule(f"may be nested {MAX_DEPTH} deep")
        if self._nodes > MAX_NODES:
            raise BadRule(f"may have {MAX_NODES} operations and lists")

    def _check_operation(self, operator: str, arguments: object, position: _Position) -> None:
        if operator == "cat" and position.reducing:
            raise BadRule("cat may not stand inside reduce")
        items = arguments if isinstance(arguments, list) else [arguments]
        if operator in engine.ITERATORS and position.iterators == MAX_ITERATORS:
            raise BadRule(f"may nest {MAX_ITERATORS} of {', '.join(sorted(engine.ITERATORS))}")
        if operator == "matches":
            _check_matches(items)
        for index, argument in enumerate(items):
            inner = (
                position.enter_iterator(operator)
                if index == 1 and operator in engine.ITERATORS
                else position.descend()
            )
            self.check(argument, inner)


def _check_matches(arguments: list[object]) -> None:
    if len(arguments) != 2 or not isinstance(arguments[1], str):
        raise BadRule("matches takes a text and a pattern, and the pattern must be written out")
    check_pattern(arguments[1])


def check_pattern(text: str) -> None:
    """Check that a pattern can be used. Raises BadRule."""
    try:
        patterns.compile_pattern(text)
    except patterns.BadPattern as error:
        raise BadRule(str(error)) from None


def check_logic(logic: object) -> None:
    """Check JSON Logic against the limits. Raises BadRule. The engine checks operators and arguments."""
    _Checker().check(logic, _Position())
