"""What each attack is, and how large the attacks are."""

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

# The longest time for an answer. The deadline of a large body is 40 s, but loopback needs no second.
TIMEOUT_S = 30.0


class Attack(Protocol):
    """`statuses` counts answers: a status, "closed" without an answer, or "none" after TIMEOUT_S.

    `accepted` has the trace_ids of accepted alerts.
    """

    name: str
    requests: int
    statuses: Counter[str]
    accepted: list[str]

    def run(self, stopping: threading.Event) -> None:
        """Attack until `stopping` is set."""
        ...


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the attacks are. The default is that of `make siege`."""

    group: int = 10_000
    idle_connections: int = 4_000
    dripping_connections: int = 4_400
    unfinished: int = 64
    large_body: int = 8_000_000
    open_pages: int = 200
    listed_alerts: int = 100_000
    changes: int = 50_000
