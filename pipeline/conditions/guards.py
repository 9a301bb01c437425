"""What a condition must not be, checked when it is saved: too large, too deep, or a way to burn a worker.

The engine's own budget bounds each evaluation too; the limits here refuse early, and in words.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from pipeline.conditions import engine, patterns
from pipeline.conditions.bad import BadRule

LARGEST = 64 * 1024
DEEPEST = 32
MOST_NODES = 1_000
MOST_ITERATORS = 2


def decoded(rule_json: str) -> Any:
    """The JSON value of a stored text. Raises BadRule."""
    try:
        body = rule_json.encode()
    except UnicodeEncodeError:
        raise BadRule("is not valid text") from None
    if len(body) > LARGEST:
        raise BadRule(f"may have {LARGEST} bytes, not {len(body)}")
    try:
        return msgspec.json.decode(body)
    except RecursionError:
        raise BadRule(f"may be nested {DEEPEST} deep") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise BadRule(f"is not JSON: {error}") from None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the logic a node stands: levels above it, iterators and reduces around it."""

    depth: int = 1
    iterators: int = 0
    reducing: bool = False

    def below(self) -> "_Place":
        return replace(self, depth=self.depth + 1)

    def within(self, operator: str) -> "_Place":
        """In the part of an iterator that runs for each item."""
        return replace(
            self, iterators=self.iterators + 1, reducing=self.reducing or operator == "reduce"
        ).below()


class _Walk:
    def __init__(self) -> None:
        self._nodes = 0

    def check(self, node: Any, place: _Place) -> None:
        if not isinstance(node, Mapping | list):
            return
        self._count(place)
        if isinstance(node, list):
            for item in node:
                self.check(item, place.below())
        elif len(node) > 1:
            raise BadRule("each object of JSON Logic must have one operator")
        elif node:
            self._operation(*next(iter(node.items())), place)

    def _count(self, place: _Place) -> None:
        self._nodes += 1
        if place.depth > DEEPEST:
            raise BadRule(f"may be nested {DEEPEST} deep")
        if self._nodes > MOST_NODES:
            raise BadRule(f"may have {MOST_NODES} operations and lists")

    def _operation(self, operator: str, arguments: Any, place: _Place) -> None:
        if operator == "cat" and place.reducing:
            raise BadRule("cat may not stand inside reduce")
        each = arguments if isinstance(arguments, list) else [arguments]
        if operator in engine.ITERATORS and place.iterators == MOST_ITERATORS:
            raise BadRule(f"may nest {MOST_ITERATORS} of {', '.join(sorted(engine.ITERATORS))}")
        if operator == "matches":
            _check_matches(each)
        for at, argument in enumerate(each):
            inner = place.within(operator) if at == 1 and operator in engine.ITERATORS else place.below()
            self.check(argument, inner)


def _check_matches(arguments: list[Any]) -> None:
    if len(arguments) != 2 or not isinstance(arguments[1], str):
        raise BadRule("matches takes a text and a pattern, and the pattern must be written out")
    try:
        patterns.compiled(arguments[1])
    except patterns.BadPattern as error:
        raise BadRule(str(error)) from None


def check_logic(logic: Any) -> None:
    """Raises BadRule for JSON Logic beyond the limits. Operators and arguments are the engine's to check."""
    _Walk().check(logic, _Place())
