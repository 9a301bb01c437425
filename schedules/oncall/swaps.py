"""Decide whether two people can swap two shifts of a schedule.

A swap is two overrides: each person is on call for the other. An override replaces everybody whom the layers
put on call in its time, so nobody else may be on call then. For a shift of an override, that override gets
the other person.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

# A swap computes the shifts in the time of both. A turn of a rotation is mostly a week or less.
MAX_LENGTH = timedelta(days=31)


@dataclass(frozen=True, slots=True)
class HeldShift:
    """A complete shift with its person. A shift without an end ends at `shifts.NEVER`."""

    username: str
    start: datetime
    end: datetime

    def overlaps(self, other: "HeldShift") -> bool:
        return self.start < other.end and other.start < self.end


def find_limit(shift: HeldShift, now: datetime) -> str | None:
    """Return why this shift can be swapped with no other one; None: it can."""
    if shift.start <= now:
        return "A shift that has begun cannot be swapped."
    if not shift.start < shift.end or shift.end - shift.start > MAX_LENGTH:
        return f"A shift of more than {MAX_LENGTH.days} days cannot be swapped."
    return None


def find_obstacle(
    asked: HeldShift, returned: HeldShift, shifts: Collection[HeldShift], now: datetime
) -> str | None:
    """Return why these shifts cannot be swapped; None: they can.

    `asked` is the shift of the person who asks, `returned` that of the other person. `shifts` are all
    shifts of the schedule in the time of both.
    """
    both = (asked, returned)
    limits = [limit for shift in both if (limit := find_limit(shift, now))]
    if limits:
        return limits[0]
    if asked.username == returned.username:
        return "Both shifts belong to the same person."
    if asked.overlaps(returned):
        return "The two shifts overlap: both people are on call at the same time."
    if any(shift not in shifts for shift in both):
        return "The schedule has changed, and no longer has both of these shifts."
    others = [other for other in shifts if other not in both]
    if any(shift.overlaps(other) for shift in both for other in others):
        return "Somebody else is on call at the same time, whom the overrides of a swap would replace."
    return None
