"""Tests of the shifts in a calendar feed, and of its limits."""

import pytest

from schedules.oncall import feed, shifts
from schedules.oncall.feed import get_overrides_since, list_calendar_shifts
from schedules.oncall.schedule_shifts import list_shifts
from tests.support.schedules.facts import DAY, HOUR, at, layer, override, schedule

NOON = at("2026-03-04 12:00")
TODAY = at("2026-03-04 00:00")
HOURLY = layer(length=HOUR)


def list_shown(found):
    return [shift for _, shift in found.shifts]


def build_busy_schedule(count, **more):
    return schedule(*(layer(length=HOUR, unique_id=f"layer-{n}") for n in range(count)), **more)


def test_a_feed_reaches_from_a_month_ago_until_some_months_ahead():
    schedule_facts = schedule(layer())

    found = list_calendar_shifts([schedule_facts], NOON, 3)

    assert list_shown(found) == list_shifts(schedule_facts, TODAY - 31 * DAY, TODAY + 93 * DAY)
    assert found.truncated_at is None


def test_a_feed_is_the_same_all_day_and_changes_on_the_next_day():
    schedule_facts = schedule(layer(), overrides=[override("bob", "2026-03-05 10:00", "2026-03-05 11:00")])

    first, last = (
        list_calendar_shifts([schedule_facts], moment, 1) for moment in (TODAY, TODAY + DAY - HOUR)
    )

    assert first == last != list_calendar_shifts([schedule_facts], TODAY + DAY, 1)


def test_shifts_of_two_or_more_schedules_are_ordered_by_start():
    early, late = schedule(layer(start="2026-01-05 06:00")), schedule(layer(start="2026-01-05 18:00"))

    found = list_calendar_shifts([late, early], NOON, 1)

    starts = [shift.start for shift in list_shown(found)]
    assert starts == sorted(starts)
    assert all(schedule is (early if shift.start.hour == 6 else late) for schedule, shift in found.shifts)


def test_a_feed_can_contain_one_person_only():
    schedule_facts = schedule(layer(), overrides=[override("bob", "2026-03-05 10:00", "2026-03-05 11:00")])

    assert list_shown(list_calendar_shifts([schedule_facts], NOON, 1, "bob")) == [
        shift
        for shift in list_shown(list_calendar_shifts([schedule_facts], NOON, 1))
        if shift.username == "bob"
    ]


@pytest.mark.parametrize("count", [1, 3, 50])
def test_a_feed_is_truncated_at_the_limit_and_says_from_when(count):
    schedule_facts = build_busy_schedule(count)

    found = list_calendar_shifts([schedule_facts], NOON, 12)

    assert len(found.shifts) <= feed.MAX_SHIFTS
    assert NOON < found.truncated_at < TODAY + 372 * DAY
    over = [shift for shift in list_shown(found) if shift.end <= TODAY]
    assert len(over) <= feed.MAX_PAST_SHIFTS
    future_shifts = {shift for shift in list_shown(found) if shift.end > TODAY}
    assert future_shifts >= {
        shift
        for shift in list_shifts(schedule_facts, TODAY, found.truncated_at)
        if shift.start < found.truncated_at
    }


def test_past_shifts_do_not_displace_future_shifts():
    found = list_calendar_shifts([schedule(HOURLY)], NOON, 1)

    assert len([shift for shift in list_shown(found) if shift.end <= TODAY]) == feed.MAX_PAST_SHIFTS
    assert list_shown(found)[-1].end == TODAY + 31 * DAY
    assert found.truncated_at is None
    assert found.begins_at == min(shift.start for shift in list_shown(found))


def test_the_work_for_a_feed_is_limited(monkeypatch):
    looked_at = []

    def count_calls(schedule_facts, start, end):
        looked_at.append(shifts.estimate_work([schedule_facts], start, end))
        return list_shifts(schedule_facts, start, end)

    monkeypatch.setattr(feed, "list_shifts", count_calls)
    schedules_facts = [build_busy_schedule(50) for _ in range(20)]

    found = list_calendar_shifts(schedules_facts, NOON, 12, "alice")

    assert sum(looked_at) <= 2 * feed.MAX_WORK
    assert found.truncated_at is not None


def test_overrides_are_loaded_from_before_the_longest_shift():
    """An override on its first day shortened a turn of a year that ended a month ago."""
    first = TODAY - 31 * DAY - 365 * DAY + HOUR
    year = layer("alice", f"{first:%Y-%m-%d %H:%M}", length=365 * DAY)
    overriding = override("bob", f"{first:%Y-%m-%d %H:%M}", f"{first + HOUR:%Y-%m-%d %H:%M}")
    assert overriding.end > get_overrides_since(NOON)

    found = list_calendar_shifts([schedule(year, overrides=[overriding])], NOON, 1)

    assert list_shown(found)[0].start == first + HOUR
