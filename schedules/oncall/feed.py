"""Choose the shifts of a calendar feed: from a month ago until some months ahead, or less for many shifts.

Calendar programs request feeds often, so this module limits the work and the length of an answer. Times count
from the beginning of the day. So a feed stays the same all day unless a schedule changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from models.domain.facts import ScheduleFacts
from models.domain.values import replace
from schedules.oncall.local_time import DAY
from schedules.oncall.schedule_shifts import Shift, list_shifts
from schedules.oncall.shifts import estimate_work

MONTH = 31 * DAY

# A shift takes up to 500 bytes, and some programs read at most a megabyte.
MAX_SHIFTS = 2000
# At most this many of them are past shifts.
MAX_PAST_SHIFTS = 500
# Limit of turns and restrictions to compute, also those of other people: about a quarter of a second.
MAX_WORK = 50_000

# A shift may begin before the feed, and overrides of that time may shorten it, so they must be loaded too.
# No shift is longer (contract 3.4), clock changes included.
MAX_SHIFT = timedelta(days=366)


@dataclass(frozen=True, slots=True)
class CalendarShifts:
    """Shifts with their schedules, in order of their start.

    `truncated_at` is the time from which shifts are missing because of the limits, `begins_at` the time
    before which past shifts are; None if none are.
    """

    shifts: Sequence[tuple[ScheduleFacts, Shift]]
    truncated_at: datetime | None = None
    begins_at: datetime | None = None


def get_overrides_since(now: datetime) -> datetime:
    """Return the time before which ended overrides do not matter for a feed."""
    return _get_today(now) - MONTH - MAX_SHIFT


def list_calendar_shifts(
    schedules: Sequence[ScheduleFacts], now: datetime, months: int, only: str | None = None
) -> CalendarShifts:
    """Return the whole shifts of these schedules in a feed; with `only`, those of this username."""
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
    ended = [each for each in found if each[1].end <= today]
    past = ended[-MAX_PAST_SHIFTS:]
    begins_at = today - back if back < MONTH else None
    if len(past) < len(ended):
        begins_at = past[0][1].start
    upcoming = [each for each in found if each[1].end > today]
    remaining = MAX_SHIFTS - len(past)
    if len(upcoming) > remaining:
        return CalendarShifts([*past, *upcoming[:remaining]], upcoming[remaining][1].start, begins_at)
    return CalendarShifts([*past, *upcoming], today + ahead if ahead < months * MONTH else None, begins_at)


def _filter_person(schedule: ScheduleFacts, username: str) -> ScheduleFacts:
    """Return the schedule with only the layers in which a person takes turns: other layers need work."""
    return replace(schedule, layers=tuple(each for each in schedule.layers if username in each.usernames))


def _get_today(now: datetime) -> datetime:
    return datetime.combine(now, time(), now.tzinfo)
