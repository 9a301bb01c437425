"""A finding of `tocsin check`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

# The kind of a finding that says that not all findings are listed, or that the check is incomplete.
TRUNCATED = "truncated"


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of a check.

    `team` is "" for a finding about the whole installation. A `minor` finding needs no action now.
    `start` and `end` are None for a finding that is not about a time. `times` is the number of occurrences.
    `hidden` are the numbers of findings that are not listed, by kind, for a finding that counts them.
    """

    kind: str
    team: str
    about: str
    what: str
    minor: bool = False
    start: datetime | None = None
    end: datetime | None = None
    times: int = 1
    hidden: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Return the number of findings that this one stands for."""
        return sum(self.hidden.values()) or 1
