"""What a calendar shows of schedules, and that it is bounded."""

import pytest

from schedules import coverage, feed
from schedules.feed import overrides_since, shown
from schedules.oncall import shifts
from tests.schedules.rotas import DAY, HOUR, at, layer, override, schedule

NOON = at("2026-03-04 12:00")
TODAY = at("2026-03-04 00:00")
HOURLY = layer(length=HOUR)


def told(found):
    return [shift for _, shift in found.shifts]


def busy(count, **more):
    return schedule(*(layer(length=HOUR, unique_id=f"layer-{n}") for n in range(count)), **more)


def test_it_reaches_from_a_month_back_until_some_months_ahead():
    rota = schedule(layer())

    found = shown([rota], NOON, 3)

    assert told(found) == shifts(rota, TODAY - 31 * DAY, TODAY + 93 * DAY)
    assert found.ends is None


def test_it_is_the_same_all_day_and_another_on_the_next():
    rota = schedule(layer(), overrides=[override("bob", "2026-03-05 10:00", "2026-03-05 11:00")])

    first, last = (shown([rota], moment, 1) for moment in (TODAY, TODAY + DAY - HOUR))

    assert first == last != shown([rota], TODAY + DAY, 1)


def test_shifts_of_several_schedules_are_by_when_they_begin():
    early, late = schedule(layer(start="2026-01-05 06:00")), schedule(layer(start="2026-01-05 18:00"))

    found = shown([late, early], NOON, 1)

    starts = [shift.start for shift in told(found)]
    assert starts == sorted(starts)
    assert all(schedule is (early if shift.start.hour == 6 else late) for schedule, shift in found.shifts)


def test_it_may_be_of_one_person_alone():
    rota = schedule(layer(), overrides=[override("bob", "2026-03-05 10:00", "2026-03-05 11:00")])

    assert told(shown([rota], NOON, 1, "bob")) == [
        shift for shift in told(shown([rota], NOON, 1)) if shift.username == "bob"
    ]


@pytest.mark.parametrize("count", [1, 3, 50])
def test_it_never_holds_more_than_programs_read_and_says_from_when_on_shifts_are_missing(count):
    rota = busy(count)

    found = shown([rota], NOON, 12)

    assert len(found.shifts) <= feed.MOST_SHIFTS
    assert NOON < found.ends < TODAY + 372 * DAY
    over = [shift for shift in told(found) if shift.end <= TODAY]
    assert len(over) <= feed.MOST_BEFORE
    due = {shift for shift in told(found) if shift.end > TODAY}
    assert due >= {shift for shift in shifts(rota, TODAY, found.ends) if shift.start < found.ends}


def test_what_is_over_takes_no_room_from_what_is_to_come():
    found = shown([schedule(HOURLY)], NOON, 1)

    assert len([shift for shift in told(found) if shift.end <= TODAY]) == feed.MOST_BEFORE
    assert told(found)[-1].end == TODAY + 31 * DAY
    assert found.ends is None


def test_no_more_is_looked_at_than_a_calendar_is_worth(monkeypatch):
    looked_at = []

    def watched(rota, start, end):
        looked_at.append(coverage.work([rota], start, end))
        return shifts(rota, start, end)

    monkeypatch.setattr(feed, "shifts", watched)
    rotas = [busy(50) for _ in range(20)]

    found = shown(rotas, NOON, 12, "alice")

    assert sum(looked_at) <= 2 * feed.MOST_WORK
    assert found.ends is not None


def test_overrides_are_needed_from_before_the_longest_shift_on():
    """A turn of a year that ends a month ago was cut by an override on its first day."""
    first = TODAY - 31 * DAY - 365 * DAY + HOUR
    year = layer("alice", f"{first:%Y-%m-%d %H:%M}", length=365 * DAY)
    cut = override("bob", f"{first:%Y-%m-%d %H:%M}", f"{first + HOUR:%Y-%m-%d %H:%M}")
    assert cut.end > overrides_since(NOON)

    found = shown([schedule(year, overrides=[cut])], NOON, 1)

    assert told(found)[0].start == first + HOUR
