"""One test for many cases. A test for each costs some milliseconds of pytest, more than most checks."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

Case = TypeVar("Case")


def list_offenders(
    check: Callable[[Case], object], cases: Iterable[Case], name: Callable[[Case], str] = str
) -> list[str]:
    """Run a check of each case, and return the names of the cases that it refuses, each with the assertion.

    Any other error is raised, and names its case. There must be a case.
    """
    cases = list(cases)
    assert cases, "there is no case"
    offenders = []
    for case in cases:
        try:
            check(case)
        except (AssertionError, pytest.fail.Exception) as refusal:
            offenders.append(f"{name(case)}: {refusal}")
        except Exception as error:
            error.add_note(f"in the case {name(case)}")
            raise
    return offenders
