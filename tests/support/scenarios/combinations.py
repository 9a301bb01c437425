"""Combinations of the values of a test: all of them with TEST_ALL=1, as in .ci/run, otherwise a few."""

import itertools
import os
from collections.abc import Sequence
from typing import Any

TEST_ALL = bool(os.environ.get("TEST_ALL"))


def combine(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return all combinations; without TEST_ALL, as few as have each value of each axis at least once."""
    if TEST_ALL:
        return list(itertools.product(*axes))
    longest = max(len(axis) for axis in axes)
    return [tuple(axis[i % len(axis)] for axis in axes) for i in range(longest)]
