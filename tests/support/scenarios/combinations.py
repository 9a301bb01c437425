"""Combinations and random examples of a test: all of them with TEST_ALL=1, as in .ci/run, otherwise a few."""

import itertools
import os
from collections.abc import Sequence
from typing import Any, TypeVar

TEST_ALL = bool(os.environ.get("TEST_ALL"))
# Without TEST_ALL, a test takes one of so many values or examples.
SHARE = 3

Value = TypeVar("Value")


def combine(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return all combinations; without TEST_ALL, as few as have each value of each axis at least once."""
    if TEST_ALL:
        return list(itertools.product(*axes))
    longest = max(len(axis) for axis in axes)
    return [tuple(axis[i % len(axis)] for axis in axes) for i in range(longest)]


def count_examples(count: int) -> int:
    """Return how many random examples a test takes; without TEST_ALL, a third of them."""
    return count if TEST_ALL else -(-count // SHARE)


def take(values: Sequence[Value], number: int) -> Sequence[Value]:
    """Return the values for the place with this number; without TEST_ALL, a third of them.

    Three places in a row get all values.
    """
    return values if TEST_ALL else values[number % SHARE :: SHARE]
