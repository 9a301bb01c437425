"""Who is on call, and a schedule as a picture: layers, overrides, gaps, changes of the clock."""

import re
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from playhouse.test_utils import count_queries

from models.domain.enums import TeamRole
from models.store.ids import make_uuid
from models.tables.accounts import User
from models.tables.schedules import ScheduleOverride
from models.tables.teams import TeamMember
from models.tables.users import ForwardingRule
from tests.support.schedules.stored import layer, restriction, schedule
from web.oncall import schedule_problems
from web.pages.console import on_call
from web.pages.look.calendar_picture import PlannedShift, draw, format_span

BERLIN = ZoneInfo("Europe/Berlin")
MONDAY = date(2026, 3, 2)
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def plan(start: datetime, hours: int, person: str = "Alice", **more) -> PlannedShift:
    return PlannedShift("Days", person, start, start + timedelta(hours=hours), is_override=False, **more)


def draw_weeks(*shifts, gaps=(), first=MONDAY, weeks=1, zone=BERLIN, now=NOON):
    return draw(shifts, gaps, ["Days"], first, weeks, zone, now)


def test_a_shift_is_as_wide_as_it_is_long():
    start = datetime(2026, 3, 1, 23, tzinfo=UTC)
    (strip,) = draw_weeks(plan(start, 24), plan(start + timedelta(days=1), 48, "Bob"))

    assert [round(bar.width / strip.bars[0].width, 2) for bar in strip.bars] == [1, 2]
    assert [bar.name for bar in strip.bars] == ["Alice", "Bob"]


def test_a_shift_over_two_weeks_is_in_both_strips():
    strips = draw_weeks(plan(datetime(2026, 3, 6, tzinfo=UTC), 24 * 5), weeks=2)

    assert [len(strip.bars) for strip in strips] == [1, 1]


def test_the_week_with_a_change_of_the_clock_is_marked_and_one_hour_shorter():
    (strip,) = draw_weeks(first=date(2026, 3, 23))
    widths = [later.x - early.x for early, later in zip(strip.days, strip.days[1:], strict=False)]

    assert [mark.label for mark in strip.marks] == ["clock changes"]
    assert [line.label for line in strip.days][-1] == "Sun 29 Mar"
    assert max(widths) - min(widths) < 1


def test_gaps_have_a_row_and_now_has_a_mark():
    (strip,) = draw_weeks(gaps=[(NOON, NOON + timedelta(hours=5))])

    assert [name for _, name in strip.rows] == ["Days", "Gaps"]
    assert strip.bars[0].title == "Nobody is on call: Wed 4 Mar 13:00 to Wed 4 Mar 18:00"
    assert [mark.label for mark in strip.marks] == ["now"]


@pytest.fixture
def nights(world):
    return schedule(world.team, layer(world.alice, world.bob, name="Nights"), name="Payments on call")


def test_the_page_shows_who_is_on_call_and_who_is_next(sign_in, nights):
    text = sign_in("bob").get("/on-call/").text

    assert "Payments on call" in text
    assert "Next: " in text
    assert {"<b>Alice</b>" in text, "<b>Bob</b>" in text} == {True, False}


def test_twenty_schedules_need_as_many_statements_as_two(sign_in, world, now):
    """Each has an override, and a person who forwards notifications to another one."""
    for person, to in ((world.alice, world.bob), (world.bob, world.alice)):
        times = {"from_date": now - timedelta(days=1), "to_date": now + timedelta(days=1)}
        ForwardingRule.create(
            unique_id=make_uuid(), user=person, to_user=to, created_by=to, creation_date=now, **times
        )

    def add_schedules(numbers):
        for number in numbers:
            found = schedule(world.team, layer(world.alice, world.bob), name=f"Schedule {number}")
            ScheduleOverride.create(
                unique_id=make_uuid(), schedule=found, user=world.bob, name="Swap", creation_date=now,
                start_time=now - timedelta(hours=1), end_time=now + timedelta(hours=1),
            )  # fmt: skip

    def count_statements() -> tuple[int, int]:
        with count_queries() as counted:
            text = browser.get("/on-call/").text
        return counted.count, text.count("Schedule ")

    browser = sign_in("bob")
    add_schedules(range(2))
    browser.get("/on-call/")  # makes the address of the calendar
    few, two = count_statements()
    add_schedules(range(2, 20))
    many, twenty = count_statements()

    assert (two, twenty) == (2, 20)
    assert many == few


def test_an_override_by_a_page_counts_for_the_limit_of_the_operation(sign_in, ask, nights, world):
    path = f"/on-call/{nights.unique_id}/"
    browser = sign_in("alice")
    browser.get(path)
    operation = f"/api/v2/account/teams/{world.team.unique_id}/schedules/{nights.unique_id}/overrides/"

    assert browser.post(path, user=world.bob.username, hours="4").status_code == 303
    assert ask("POST", operation, {}).status_code == 429
    assert browser.post(path, user=world.bob.username, hours="4").status_code == 429


def test_a_shift_without_an_end_says_so(sign_in, world):
    alone = schedule(world.team, layer(world.bob))
    browser = sign_in("bob")

    assert "no end, Layer-1" in browser.get("/on-call/").text
    text = browser.get(f"/on-call/{alone.unique_id}/").text
    assert "<td>Mon 5 Jan 2026 00:00, no end</td>" in text
    assert "<title>Bob, Layer-1: Mon 5 Jan 2026 00:00, no end</title>" in text


def test_a_schedule_without_people_says_that_nobody_is_on_call(sign_in, world):
    schedule(world.team, name="Empty")

    assert "Nobody is on call now." in sign_in("bob").get("/on-call/").text


def test_charlie_does_not_see_schedules_of_another_team(sign_in, nights):
    assert "Payments on call" not in sign_in("charlie").get("/on-call/").text


@pytest.mark.parametrize("view", ["week", "month"])
def test_a_schedule_is_a_picture_and_a_table(sign_in, nights, view):
    text = sign_in("bob").get(f"/on-call/{nights.unique_id}/?view={view}").text

    assert text.count('<svg class="strip"') == {"week": 1, "month": 5}[view]
    assert "<td>Nights</td>" in text
    # A shift in one short cell: a table of full times is wider than a phone.
    assert re.search(r"<td>\w{3} \d+ \w{3} \d\d:\d\d to \w{3} \d+ \w{3} \d\d:\d\d</td>", text)


def test_the_hours_of_nobody_are_marked(sign_in, world):
    days = layer(world.alice, restrictions=[restriction("09:00:00", 8 * 3600)], restriction_type=1)
    found = schedule(world.team, days)

    assert 'class="status bad">gap' in sign_in("bob").get(f"/on-call/{found.unique_id}/").text


def test_an_override_takes_two_taps(sign_in, nights, world):
    browser = sign_in("alice")
    path = f"/on-call/{nights.unique_id}/"
    browser.get(path)
    browser.post(path, user=world.bob.username, hours="4")

    override = ScheduleOverride.get()
    assert override.user_id == world.bob.id
    assert override.end_time - override.start_time == timedelta(hours=4)
    assert "The override was added." in browser.follow().text


def test_the_times_of_an_override_are_in_the_time_zone_of_the_person(sign_in, nights, world):
    User.update(time_zone="Europe/Berlin").where(User.id == world.alice.id).execute()
    browser = sign_in("alice")
    path = f"/on-call/{nights.unique_id}/"
    browser.get(path)
    times = {"start_time": "2026-03-29T01:00", "end_time": "2026-03-29T04:00"}
    browser.post(path, user=world.bob.username, hours="", **times)

    override = ScheduleOverride.get()
    assert override.start_time == datetime(2026, 3, 29, 0, tzinfo=UTC)
    assert override.end_time == datetime(2026, 3, 29, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    "form",
    [
        {"hours": "5"}, {"hours": "00011"}, {"hours": "000199999999999"},
        {"hours": "x"}, {"hours": "²"}, {"start_time": "x", "end_time": "y"},
        {"start_time": "2026-03-02T10:00", "end_time": "2026-03-02T09:00"},
        {"start_time": "9999-12-31T23:59", "end_time": "9999-12-31T23:59"}, {"hours": "4", "user": "x"},
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_override_is_refused_with_a_reason(sign_in, nights, world, form):
    browser = sign_in("alice")
    path = f"/on-call/{nights.unique_id}/"
    browser.get(path)
    answer = browser.post(path, **{"user": world.bob.username, "hours": "", **form})

    assert answer.status_code == 400
    assert ScheduleOverride.select().count() == 0


def test_a_member_who_may_not_change_schedules_gets_no_form(sign_in, nights, world):
    browser = sign_in("bob")
    path = f"/on-call/{nights.unique_id}/"

    assert "Who takes over" not in browser.get(path).text
    assert browser.post(path, user=world.bob.username, hours="4").status_code == 403


def test_a_manager_of_the_team_may_add_an_override(sign_in, nights, world):
    TeamMember.update(role=TeamRole.MANAGER).where(TeamMember.user == world.bob).execute()

    assert "Who takes over" in sign_in("bob").get(f"/on-call/{nights.unique_id}/").text


@pytest.mark.parametrize(
    ("query", "status"),
    [("from=x", 400), ("from=0001-01-01", 400), ("from=9999-12-31", 400), ("view=year", 404)],
)
def test_a_wrong_time_is_refused(sign_in, nights, query, status):
    assert sign_in("bob").get(f"/on-call/{nights.unique_id}/?{query}").status_code == status


@pytest.mark.parametrize("page", ["0", "x", "99999999999999999999", "00000199999999999999999999", "²"])
def test_a_wrong_page_is_not_found(sign_in, page):
    assert sign_in("bob").get(f"/on-call/?page={page}").status_code == 404


def test_without_gaps_the_page_is_shown_if_somebody_else_asks_for_them(sign_in, world, nights):
    with schedule_problems.CONCURRENCY.acquire(world.account):
        answer = sign_in("bob").get(f"/on-call/{nights.unique_id}/")

    assert (answer.status_code, "Gaps are not shown" in answer.text) == (200, True)
    assert "<td>Nights</td>" in answer.text


def test_a_picture_with_too_many_shifts_is_not_drawn(sign_in, nights, monkeypatch):
    monkeypatch.setattr(on_call, "MAX_DRAWN", 1)
    answer = sign_in("bob").get(f"/on-call/{nights.unique_id}/")

    assert "Shifts are not drawn, because there are more than 1." in answer.text
    assert ("<title>Bob" in answer.text, "<td>Nights</td>" in answer.text) == (False, True)


def test_a_span_names_the_offsets_if_the_clock_changes_in_it_and_the_years_if_they_differ():
    def show(start: str, end: str) -> str:
        return format_span(datetime.fromisoformat(start), datetime.fromisoformat(end), BERLIN)

    assert show("2026-03-04T12:00Z", "2026-03-05T12:00Z") == "Wed 4 Mar 13:00 to Thu 5 Mar 13:00"
    assert show("2026-10-25T00:30Z", "2026-10-25T01:30Z") == "Sun 25 Oct 02:30 CEST to Sun 25 Oct 02:30 CET"
    assert show("2026-12-28T11:00Z", "2028-01-04T11:00Z") == "Mon 28 Dec 2026 12:00 to Tue 4 Jan 2028 12:00"
