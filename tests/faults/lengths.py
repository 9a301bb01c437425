"""How long the faults go on: as long as shows a mistake in `make faults`; in `make faults-full` as long as it
takes for the figures of docs/performance.md.
"""

import os
from typing import TypeVar

import pytest

from tests.support import stores

FULL = bool(os.environ.get("FAULTS_FULL"))

T = TypeVar("T")


def length(short: T, full: T) -> T:
    return full if FULL else short


# Kept for SQLite, where the host's clock is the one that counts, unless all is wanted.
FOR_THE_HOSTS_CLOCK = pytest.mark.skipif(
    bool(stores.SERVER) and not FULL, reason="the host's clock is SQLite's; make faults-full has it"
)
