"""Draw the shifts of a schedule: a strip for each week, with rows for layers, for overrides and for gaps.

All times of the picture are in one time zone. A day with a change of the clock is as long as it really is.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from pipeline.messages.times import MONTHS, WEEKDAYS
from schedules.oncall.local_time import from_local, list_offsets, to_local

WIDTH = 1_064
HEAD = 34
ROW = 34
COLOURS = 6
# A narrower bar has no name in it; the table has all names.
NAME_WIDTH = 46
CHARACTER_WIDTH = 7.2
DAYS_OF_WEEK = 7


@dataclass(frozen=True, slots=True)
class PlannedShift:
    """A person on call in a row of the picture: a layer, or the overrides.

    `has_end` False: nothing ends the shift, and `end` is that of the shown time.
    """

    row: str
    person: str
    start: datetime
    end: datetime
    is_override: bool
    has_end: bool = True


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    y: int
    width: float
    height: int
    style: str
    name: str
    title: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line with a label: the start of a day, a change of the clock, or now."""

    x: float
    label: str
    style: str


@dataclass(frozen=True, slots=True)
class Strip:
    """Seven days of the picture. The names of its rows stand beside it."""

    title: str
    width: int
    height: int
    rows: tuple[tuple[int, str], ...]
    days: tuple[Mark, ...]
    marks: tuple[Mark, ...]
    bars: tuple[Bar, ...]


def list_days(first: date, count: int, zone: ZoneInfo) -> list[datetime]:
    """Return the starts of these days and the end of the last one."""
    return [
        from_local(datetime.combine(first + timedelta(days=day), time()), zone) for day in range(count + 1)
    ]


def draw(
    shifts: Sequence[PlannedShift],
    gaps: Sequence[tuple[datetime, datetime]],
    rows: Sequence[str],
    first: date,
    weeks: int,
    zone: ZoneInfo,
    now: datetime,
) -> list[Strip]:
    """Return a strip for each week from this day on."""
    people = sorted({shift.person for shift in shifts})
    colours = {person: f"c{place % COLOURS}" for place, person in enumerate(people)}
    starts = [first + timedelta(days=DAYS_OF_WEEK * week) for week in range(weeks)]
    return [_draw_week(shifts, gaps, rows, start, zone, now, colours) for start in starts]


def _draw_week(
    shifts: Sequence[PlannedShift],
    gaps: Sequence[tuple[datetime, datetime]],
    rows: Sequence[str],
    first: date,
    zone: ZoneInfo,
    now: datetime,
    colours: Mapping[str, str],
) -> Strip:
    days = list_days(first, DAYS_OF_WEEK, zone)
    start, end = days[0], days[-1]
    scale = WIDTH / (end - start).total_seconds()

    def place(at: datetime) -> float:
        return round((min(max(at, start), end) - start).total_seconds() * scale, 1)

    names = [*rows, *(["Gaps"] if gaps else [])]
    bars = [
        _draw_bar(
            place(shift.start), place(shift.end), names.index(shift.row), shift, colours[shift.person], zone
        )
        for shift in shifts
        if shift.row in names and shift.start < end and shift.end > start
    ]
    for gap_start, gap_end in gaps:
        if gap_start < end and gap_end > start:
            title = f"Nobody is on call: {format_span(gap_start, gap_end, zone)}"
            x = place(gap_start)
            bars.append(
                Bar(
                    x,
                    HEAD + ROW * (len(names) - 1) + 3,
                    max(place(gap_end) - x, 2),
                    ROW - 6,
                    "gap",
                    "",
                    title,
                )
            )
    return Strip(
        title=f"Seven days from {_format_day(first)}",
        width=WIDTH,
        height=HEAD + ROW * len(names) + 4,
        rows=tuple((HEAD + ROW * index + ROW // 2 + 4, name) for index, name in enumerate(names)),
        days=tuple(Mark(place(at), _format_day(to_local(at, zone).date()), "grid") for at in days[:-1]),
        marks=(*_mark_clock_changes(start, end, zone, place), *_mark_now(start, end, now, place)),
        bars=tuple(bars),
    )


def _draw_bar(x: float, right: float, row: int, shift: PlannedShift, colour: str, zone: ZoneInfo) -> Bar:
    width = max(right - x, 2)
    room = int((width - 8) / CHARACTER_WIDTH)
    name = shift.person if len(shift.person) <= room else shift.person[: max(room - 1, 1)] + "."
    title = (
        f"{shift.person}, {shift.row}: {format_span(shift.start, shift.end if shift.has_end else None, zone)}"
    )
    style = f"{colour} override" if shift.is_override else colour
    return Bar(x, HEAD + ROW * row + 3, width, ROW - 6, style, name if width >= NAME_WIDTH else "", title)


def _mark_clock_changes(
    start: datetime, end: datetime, zone: ZoneInfo, place: Callable[[datetime], float]
) -> Iterator[Mark]:
    for span in list_offsets(zone, start, end)[1:]:
        yield Mark(place(span[0]), "clock changes", "clock")


def _mark_now(
    start: datetime, end: datetime, now: datetime, place: Callable[[datetime], float]
) -> Iterator[Mark]:
    if start <= now < end:
        yield Mark(place(now), "now", "now")


def _format_day(day: date) -> str:
    return f"{WEEKDAYS[day.weekday()]} {day.day} {MONTHS[day.month - 1]}"


def format_span(start: datetime, end: datetime | None, zone: ZoneInfo) -> str:
    """Return a time in short, for example "Wed 4 Mar 13:00 to Thu 5 Mar 13:00".

    It has the year if the years differ, and the name of each offset if the clock changes in between. `end`
    None: it has no end.
    """
    if end is None:
        begin = start.astimezone(zone)
        return f"{_format_day(begin.date())} {begin.year} {begin:%H:%M}, no end"
    first, last = start.astimezone(zone), end.astimezone(zone)
    with_year = first.year != last.year
    with_offset = first.utcoffset() != last.utcoffset()

    def format_end(at: datetime) -> str:
        year = f" {at.year}" if with_year else ""
        offset = f" {at.tzname()}" if with_offset else ""
        return f"{_format_day(at.date())}{year} {at:%H:%M}{offset}"

    return f"{format_end(first)} to {format_end(last)}"
