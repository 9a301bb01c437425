"""The shifts that a calendar shows: from a month back until some months ahead, or fewer where they are many.

Programs ask for calendars again and again, so the work and the length of an answer are bounded here. All is
counted from the beginning of the day, so that a calendar says the same all day unless something changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta

from models.domain.facts import ScheduleFacts
from schedules.oncall.oncall import Shift, list_shifts
from schedules.oncall.restrictions import DAY
from schedules.oncall.shifts import estimate_work

MONTH = 31 * DAY

# A shift takes up to 500 bytes, and a megabyte is the most that some programs read.
MAX_SHIFTS = 2000
# So many of them may be over.
MAX_PAST_SHIFTS = 500
# Turns and restrictions to look at for them, which may be those of many persons: a quarter of a second.
MAX_WORK = 50_000

# Of a shift that began before all that is shown, the overrides must be known that cut it then: none is longer
# (contract 3.4), whatever clocks do.
MAX_SHIFT = timedelta(days=366)


@dataclass(frozen=True, slots=True)
class CalendarShifts:
    """Shifts and whose schedule they are of, by when they begin. `ends` is where there would have been more
    than can be shown: from then on some are missing."""

    shifts: Sequence[tuple[ScheduleFacts, Shift]]
    truncated_at: datetime | None = None


def get_overrides_since(now: datetime) -> datetime:
    """Overrides that had ended by then are in no calendar, nor do they change one."""
    return _get_today(now) - MONTH - MAX_SHIFT


def list_calendar_shifts(
    schedules: Sequence[ScheduleFacts], now: datetime, months: int, only: str | None = None
) -> CalendarShifts:
    """The shifts of these schedules (of `only` this person, by username) in a calendar, each whole."""
    if only is not None:
        schedules = [_filter_person(schedule, only) for schedule in schedules]
    today = _get_today(now)
    back, ahead = MONTH, months * MONTH
    while ahead > DAY and estimate_work(schedules, today - back, today + ahead) > MAX_WORK:
        back, ahead = back / 2, max(ahead / 2, DAY)
    found = [
        (schedule, shift)
        for schedule in schedules
        for shift in list_shifts(schedule, today - back, today + ahead)
        if only in (None, shift.username)
    ]
    found.sort(key=lambda each: each[1].start)
    past = [each for each in found if each[1].end <= today][-MAX_PAST_SHIFTS:]
    upcoming = [each for each in found if each[1].end > today]
    remaining = MAX_SHIFTS - len(past)
    if len(upcoming) > remaining:
        return CalendarShifts([*past, *upcoming[:remaining]], upcoming[remaining][1].start)
    return CalendarShifts([*past, *upcoming], today + ahead if ahead < months * MONTH else None)


def _filter_person(schedule: ScheduleFacts, username: str) -> ScheduleFacts:
    """What there is to look at for one person: the turns in other layers are none of theirs."""
    return replace(schedule, layers=tuple(each for each in schedule.layers if username in each.usernames))


def _get_today(now: datetime) -> datetime:
    return datetime.combine(now, time(), now.tzinfo)
