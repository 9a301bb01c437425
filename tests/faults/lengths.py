"""How long the faults last: long enough to find an error in `make faults`, and longer in `make faults-full`,
for the figures of docs/experiments/faults.md.
"""

import os
from typing import TypeVar

import pytest

from tests.support import stores

FULL = bool(os.environ.get("FAULTS_FULL"))

T = TypeVar("T")


def length(short: T, full: T) -> T:
    return full if FULL else short


# Only on SQLite, where the clock of the host decides, unless FAULTS_FULL is set.
FOR_THE_HOSTS_CLOCK = pytest.mark.skipif(
    bool(stores.SERVER) and not FULL, reason="the host's clock is SQLite's; make faults-full has it"
)

# The table of faults (test_fault_table.py) has a shorter form of these.
IN_FULL = pytest.mark.skipif(not FULL, reason="make faults-full has it")
