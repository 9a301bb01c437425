"""Calendar feeds: their content, their addresses, and who may read them and until when."""

import logging
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import icalendar
import pytest
import vobject

from models.domain.enums import AccountRole
from models.links import signed_links
from models.load.schedules import load_schedule_facts
from models.people import provisioning
from models.store.ids import make_uuid
from models.tables.accounts import User, get_display_name
from models.tables.schedules import Schedule, ScheduleOverride
from models.tables.teams import Team, TeamMember
from runtime.logs import hide_secrets
from schedules.oncall.schedule_shifts import list_on_call
from tests.support.scenarios.combinations import combine
from tests.support.schedules import stored
from tests.support.web.places import held_elsewhere
from web.http.limits import places
from web.oncall import calendar_cache, calendars, ical

MINE = "/api/tocsin/calendar/"
DAY, HOUR, SECOND = timedelta(days=1), timedelta(hours=1), timedelta(seconds=1)
BASE = "https://tocsin.example.org"


@dataclass(frozen=True)
class CalendarEvent:
    """An event as a calendar program reads it."""

    uid: str
    start: datetime
    end: datetime
    summary: str
    description: str

    @property
    def who(self) -> str:
        return self.summary.partition(" on call")[0]


@pytest.fixture(autouse=True)
def set_now(monkeypatch, now):
    """set_now(moment): set the present time."""

    def set_(moment):
        monkeypatch.setattr(calendars, "now", lambda: moment)

    set_(now)
    calendar_cache.clear()
    return set_


@pytest.fixture
def address(ask):
    """address(schedule, who="bob", query="?months=1"): the path of a calendar; without a schedule, that of
    the user's own shifts."""

    def address(schedule=None, who="alice", query=""):
        team = schedule and schedule.team.unique_id
        path = (
            f"/api/account/teams/{team}/schedules/{schedule.unique_id}/get_schedule_ics/"
            if schedule
            else MINE
        )
        answer = ask("GET", f"{path}{query}", who=who)
        assert answer.status_code == 200, answer.text
        assert set(answer.json) == {"url"}
        assert answer.json["url"].startswith(f"{BASE}/calendars/")
        return answer.json["url"].removeprefix(BASE)

    return address


@pytest.fixture
def subscribe(ask, address):
    """subscribe(schedule, ...): the events of the calendar."""
    return lambda *args, **more: read_events(ask("GET", address(*args, **more), who=None))


def read_events(answer) -> list[CalendarEvent]:
    """Return the events, read by a parser that is independent of the code that wrote them."""
    assert answer.status_code == 200
    assert len(icalendar.Calendar.from_ical(answer.data).errors) == 0
    calendar = vobject.readOne(answer.text)
    return [
        CalendarEvent(
            event.uid.value,
            event.dtstart.value.astimezone(UTC),
            event.dtend.value.astimezone(UTC),
            event.summary.value,
            event.description.value,
        )
        for event in calendar.contents.get("vevent", [])
    ]


def add_override(schedule, person, start, end, name="Dentist"):
    return ScheduleOverride.create(
        unique_id=make_uuid(), schedule=schedule, user=person, name=name, start_time=start, end_time=end,
        creation_date=start,
    )  # fmt: skip


def weekly(*people, **changes):
    return stored.layer(*people, shift_length=7 * 86_400, **changes)


@pytest.fixture
def schedule(world):
    """A schedule with Alice and Bob for a week each, from Monday to Monday."""
    return stored.schedule(world.team, weekly(world.alice, world.bob))


# The form of a calendar --------------------------------------------------------------------------------


def test_a_shift_is_an_event(subscribe, schedule, now):
    events = subscribe(schedule)

    event = next(event for event in events if event.start <= now < event.end)
    assert (event.start, event.end) == (datetime(2026, 3, 2, tzinfo=UTC), datetime(2026, 3, 9, tzinfo=UTC))
    assert event.summary == "Alice on call: Primary (Layer-1)"
    assert event.description == "Shift of the layer Layer-1 in the schedule Primary of the team Payments."


def test_a_shift_without_an_end_says_so(subscribe, world, now):
    alone = stored.schedule(world.team, weekly(world.alice))
    add_override(alone, world.bob, now - HOUR, now)

    split, *endless = [event for event in subscribe(alone) if event.who == "Alice" and event.end > now - DAY]

    assert split.end == now - HOUR
    assert "no end" not in split.description
    assert endless[0].start == now
    assert {event.description for event in endless} == {
        "Shift of the layer Layer-1 in the schedule Primary of the team Payments. It has no end: Alice stays"
        " on call."
    }


@pytest.mark.parametrize(
    ("name", "email", "shown"),
    [
        ("Bob", "bob@example.org", ("Bob", "mailto:bob@example.org")),
        ("Böb O'Neil, Dr.; \"B:\"", "bob+oncall@example.org",
         ("Böb O'Neil, Dr.; 'B:'", "mailto:bob+oncall@example.org")),
        ("Bob", "100%bob&co@example.org", ("Bob", "mailto:100%25bob%26co@example.org")),
    ],
)  # fmt: skip
def test_an_event_names_the_person_as_an_attendee_who_gets_no_invitation(
    ask, address, world, name, email, shown
):
    world.bob.first_name, world.bob.email = name, email
    world.bob.save()
    schedule = stored.schedule(world.team, weekly(world.bob, world.alice))
    answer = ask("GET", address(schedule), who=None)

    assert len(icalendar.Calendar.from_ical(answer.data).errors) == 0
    people = [event.attendee for event in vobject.readOne(answer.text).contents["vevent"]]
    assert {(person.params["CN"][0], person.value) for person in people} == {
        shown, ("Alice", "mailto:alice@example.org"),
    }  # fmt: skip
    assert {(*person.params["RSVP"], *person.params["SCHEDULE-AGENT"]) for person in people} == {
        ("FALSE", "NONE")
    }


def test_a_calendar_has_a_name_a_description_and_a_refresh_interval(ask, address, world):
    night_schedule = stored.schedule(world.team, weekly(world.bob), name="Nights", time_zone="Europe/Berlin")

    lines = ask("GET", address(night_schedule), who=None).text.split("\r\n")

    for line in (
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//Tocsin//On call//EN",
        "CALSCALE:GREGORIAN",
        "METHOD:PUBLISH",
        "NAME:Nights",
        "X-WR-CALNAME:Nights",
        "X-WR-TIMEZONE:Europe/Berlin",
        "REFRESH-INTERVAL;VALUE=DURATION:PT1H",
        "X-PUBLISHED-TTL:PT1H",
        "X-WR-CALDESC:Who is on call in the schedule Nights of the team Payments.",
        "DTSTAMP:20260304T120000Z",
        "DTSTART:20260302T000000Z",
        "STATUS:CONFIRMED",
        "TRANSP:TRANSPARENT",
    ):
        assert line in lines
    assert not [line for line in lines if line.startswith(("LAST-MODIFIED", "SEQUENCE"))]


def test_the_answer_is_private_and_has_a_cache_time(ask, address, schedule):
    headers = ask("GET", address(schedule), who=None).headers

    assert headers["Content-Type"] == "text/calendar; charset=utf-8"
    assert headers["Cache-Control"] == "private, max-age=300"
    assert headers["Content-Disposition"] == 'inline; filename="on-call.ics"'
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Robots-Tag"] == "noindex"


def test_a_calendar_without_shifts_is_valid(ask, address, subscribe, world):
    empty = stored.schedule(world.team)

    assert subscribe(empty) == []
    assert subscribe(who="charlie") == []
    calendar = icalendar.Calendar.from_ical(ask("GET", address(empty), who=None).data)
    assert [part.name for part in calendar.subcomponents] == ["VTIMEZONE"]


TEXTS = (
    "Comma, semicolon; back\\slash: \"quoted\" 'n' =x",
    "🔥" * 80,
    "🧑🏽‍🚒 Zoë Ünlü-Ångström " * 6,
    "عبد الرحمن on 日本語 " * 8,
    "BEGIN:VEVENT",
    "x" * 255,
    "%0D%0A\\n\\,",
)


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_any_text_is_complete_in_lines_of_75_octets(ask, address, world, text):
    User.update(first_name=text, last_name="").where(User.id == world.bob.id).execute()
    night_schedule = stored.schedule(world.team, weekly(world.bob, name=text.strip()), name=text)

    answer = ask("GET", address(night_schedule), who=None)

    text_read = text.strip()
    assert {event.summary for event in read_events(answer)} == {
        f"{text_read} on call: {text_read} ({text_read})"
    }
    assert vobject.readOne(answer.text).x_wr_calname.value == text_read
    assert max(map(len, answer.data.split(b"\r\n"))) <= 75
    (event, *_) = icalendar.Calendar.from_ical(answer.data).events
    assert str(event["summary"]) == f"{text_read} on call: {text_read} ({text_read})"


def test_a_newline_in_a_name_becomes_a_blank(ask, address, world):
    hostile = "a\r\nEND:VCALENDAR\nb\rc\x0bd\x0ce\x85f\u2028g\u2029h\x00\x01\x1b\u202ei"
    night_schedule = stored.schedule(world.team, weekly(world.bob), name=hostile.replace("\x00", ""))

    answer = ask("GET", address(night_schedule), who=None)

    assert {event.summary for event in read_events(answer)} == {
        "Bob on call: a END:VCALENDAR b c d e f g hi (Layer-1)"
    }
    assert re.search(rb"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f]", answer.data) is None


# Who is on call ----------------------------------------------------------------------------------------


def get_facts(schedule):
    (facts,) = load_schedule_facts([Schedule.get_by_id(schedule.id)], datetime(2020, 1, 1, tzinfo=UTC))
    return facts


@pytest.mark.parametrize(
    ("zone", "by_local_time"), combine(["Europe/Berlin", "America/New_York"], [False, True])
)
def test_events_match_the_shifts_at_both_clock_changes(subscribe, set_now, world, zone, by_local_time):
    people = (world.alice, world.bob, world.charlie)
    night_layer = stored.layer(
        *people, name="Nights", restriction_type=1, restrictions=[stored.restriction("22:00:00", 36_000)]
    )
    weekends = stored.layer(
        *people[1:], name="Weekends", restriction_type=2,
        restrictions=[stored.restriction("02:30:00", 90_000, day=7)],
    )  # fmt: skip
    night_schedule = stored.schedule(
        world.team, night_layer, weekends, weekly(*people), time_zone=zone, shift_time_in_dst=by_local_time
    )
    for start in (datetime(2026, 3, 8, 6, 30, tzinfo=UTC), datetime(2026, 10, 25, 0, 30, tzinfo=UTC)):
        add_override(night_schedule, world.charlie, start, start + 90 * 60 * SECOND)
    set_now(datetime(2026, 3, 1, 9, tzinfo=UTC))
    facts, names = get_facts(night_schedule), {person.username: get_display_name(person) for person in people}

    def list_paged(moment):
        return {(names[shift.username], shift.start, shift.end) for shift in list_on_call(facts, moment)}

    events = subscribe(night_schedule, query="?months=12")

    assert len(events) > 450
    for event in events:
        seen_event = (event.who, event.start, event.end)
        assert seen_event in list_paged(event.start)
        assert seen_event in list_paged(event.end - SECOND)
        assert seen_event not in list_paged(event.end)
    moments = (datetime(2026, 2, 1, tzinfo=UTC) + step * 7 * HOUR for step in range(1300))
    for moment in moments:
        seen_event = {
            (event.who, event.start, event.end) for event in events if event.start <= moment < event.end
        }
        assert seen_event == list_paged(moment)


def test_the_two_equal_hours_of_a_clock_change_are_different_events(subscribe, set_now, world):
    """Both begin at 02:00 local time."""
    hourly = stored.layer(world.alice, world.bob, shift_length=3600)
    night_schedule = stored.schedule(world.team, hourly, time_zone="Europe/Berlin", shift_time_in_dst=False)
    set_now(datetime(2026, 10, 24, 9, tzinfo=UTC))

    events = subscribe(night_schedule, query="?months=1")

    night = [event for event in events if event.start.isoformat().startswith("2026-10-25T0")][:3]
    assert [event.start.hour for event in night] == [0, 1, 2]
    assert [event.end for event in night] == [event.start + HOUR for event in night]


def test_an_override_splits_a_shift_into_two_events(subscribe, schedule, world):
    start = datetime(2026, 3, 4, 10, tzinfo=UTC)
    add_override(schedule, world.bob, start, start + 2 * HOUR)

    week = [event for event in subscribe(schedule) if datetime(2026, 3, 2, tzinfo=UTC) <= event.start]
    assert [(event.who, event.start, event.end) for event in week[:3]] == [
        ("Alice", datetime(2026, 3, 2, tzinfo=UTC), start),
        ("Bob", start, start + 2 * HOUR),
        ("Alice", start + 2 * HOUR, datetime(2026, 3, 9, tzinfo=UTC)),
    ]
    assert week[1].summary == "Bob on call: Primary (override: Dentist)"
    assert week[1].description.startswith("Shift of the override Dentist in the schedule Primary")


def test_an_old_override_still_limits_a_present_shift(subscribe, world, now):
    night_schedule = stored.schedule(world.team, stored.layer(world.alice, shift_length=300 * 86_400))
    add_override(night_schedule, world.bob, now - 50 * DAY, now - 49 * DAY)

    assert subscribe(night_schedule)[0].start == now - 49 * DAY


def test_a_shift_shorter_than_a_second_is_not_an_event(subscribe, world, now):
    night_schedule = stored.schedule(world.team)
    add_override(
        night_schedule, world.bob, now + timedelta(milliseconds=100), now + timedelta(milliseconds=900)
    )
    add_override(
        night_schedule, world.bob, now + timedelta(milliseconds=1900), now + timedelta(milliseconds=2100)
    )

    assert [(event.start, event.end) for event in subscribe(night_schedule)] == [
        (now + SECOND, now + 2 * SECOND)
    ]


def test_a_removed_user_has_no_events(subscribe, schedule, world, now):
    add_override(schedule, world.charlie, now, now + HOUR)
    User.update(removed_at=now).where(User.id.in_([world.bob.id, world.charlie.id])).execute()

    assert {event.who for event in subscribe(schedule)} == {"Alice"}


def test_a_calendar_ends_after_at_most_a_year_and_begins_a_month_ago(subscribe, schedule, now):
    ends = {
        months: max(event.end for event in subscribe(schedule, query=f"?months={months}"))
        for months in (1, 3, 12)
    }

    for months, end in ends.items():
        assert timedelta(0) <= end - (now + months * 31 * DAY) <= 7 * DAY
    assert now - 38 * DAY <= min(event.start for event in subscribe(schedule)) <= now - 30 * DAY
    assert (
        subscribe(schedule) == subscribe(schedule, query="?months=3") == subscribe(schedule, query="?months=")
    )


def test_a_calendar_with_too_many_shifts_ends_early_with_a_warning(ask, address, world, now):
    busy = [stored.layer(world.alice, world.bob, shift_length=3600, name=f"L{n}") for n in range(20)]
    night_schedule = stored.schedule(world.team, *busy)

    answer = ask("GET", address(night_schedule, query="?months=12"), who=None)

    events = read_events(answer)
    assert 1500 <= len(events) <= 2000
    assert len(answer.data) < 1_000_000
    text_read = vobject.readOne(answer.text).description.value
    ends = datetime.fromisoformat(re.search(r"shifts are missing from (\S+) on", text_read)[1]).replace(
        tzinfo=UTC
    )
    assert ends > now
    other = ask("GET", address(who="charlie"), who=None)
    assert vobject.readOne(other.text).description.value == "When Charlie is on call."


def test_turns_of_others_do_not_shorten_the_calendar_of_a_person(ask, address, subscribe, world, now):
    """Turns of others in the same schedules are not read, but their overrides are."""
    hourly = [stored.layer(world.alice, world.charlie, shift_length=3600, name=f"L{n}") for n in range(49)]
    for _ in range(3):
        night_schedule = stored.schedule(world.team, *hourly, weekly(world.bob, world.alice))
    add_override(night_schedule, world.charlie, now, now + HOUR)

    events = subscribe(who="bob", query="?months=12")

    assert max(event.end for event in events) > now + 360 * DAY
    assert now not in {
        event.start for event in subscribe(night_schedule, who="bob", query="?is_team_or_user=2")
    }
    text = ask("GET", address(who="bob", query="?months=12"), who=None).text
    assert vobject.readOne(text).description.value == "When Bob is on call."


# Names of events ---------------------------------------------------------------------------------------


def test_an_event_keeps_its_uid(subscribe, set_now, schedule, world, now):
    add_override(schedule, world.charlie, now, now + HOUR)
    first = {event.uid: event for event in subscribe(schedule)}
    set_now(now + 7 * DAY + 3 * HOUR)
    second = {event.uid: event for event in subscribe(schedule)}

    both = first.keys() & second.keys()
    assert len(both) == len(first) - 1
    assert {first[uid] for uid in both} == {second[uid] for uid in both}
    shifts = {(event.who, event.start, event.end) for event in (*first.values(), *second.values())}
    assert len(shifts) == len(first.keys() | second.keys())


def test_uids_are_unique_and_the_same_in_all_calendars(subscribe, world):
    """Layers of two schedules may have the same ID, because clients choose it."""
    layer = weekly(world.bob, world.alice)
    one, two = (stored.schedule(world.team, layer, weekly(world.bob), name=name) for name in "xy")
    all_events, own = [*subscribe(one), *subscribe(two)], subscribe(who="bob")
    own_events = subscribe(one, who="bob", query="?is_team_or_user=2")

    assert len({event.uid for event in all_events}) == len(all_events)
    assert {event.uid for event in own} == {event.uid for event in all_events if event.who == "Bob"}
    assert set(own_events) < set(own) < set(all_events)


# People -----------------------------------------------------------------------------------------------


def test_the_calendar_of_a_person_has_all_schedules_of_the_account(
    subscribe, ask, address, schedule, world, now
):
    night_layer = stored.schedule(world.charlies_team, weekly(world.charlie), name="Nights")
    add_override(night_layer, world.bob, now, now + HOUR)
    stored.schedule(world.charlies_team, weekly(world.charlie), name="Others")
    stored.schedule(world.mallorys_team, weekly(world.bob), name="Elsewhere")

    events = subscribe(who="bob")

    assert {event.summary for event in events} == {
        "Bob on call: Primary (Layer-1)",
        "Bob on call: Nights (override: Dentist)",
    }
    text = ask("GET", address(who="bob"), who=None).text
    assert vobject.readOne(text).x_wr_calname.value == "Bob on call"


@pytest.mark.parametrize("number", ["2", "0", "-1"])
def test_the_calendar_of_a_schedule_can_be_limited_to_own_shifts(subscribe, schedule, number):
    own = subscribe(schedule, who="bob", query=f"?is_team_or_user={number}")

    assert {event.who for event in own} == {"Bob"}
    assert {event.who for event in subscribe(schedule, who="bob", query="?is_team_or_user=1")} == {
        "Alice",
        "Bob",
    }


@pytest.mark.parametrize("value", ["0", "13", "-1", "x", "1.5", "99999999999999999999", "%00"])
def test_the_number_of_months_is_from_one_to_twelve(ask, schedule, world, value):
    path = f"/api/account/teams/{world.team.unique_id}/schedules/{schedule.unique_id}/get_schedule_ics/"
    for each in (path, MINE):
        refused = ask("GET", f"{each}?months={value}")
        assert (refused.status_code, refused.json["detail"]) == (400, "This request can not be processed.")
        assert list(refused.json["errors"]) == ["months"]
    assert ask("GET", f"{path}?is_team_or_user={value}x").status_code == 400


# Addresses ---------------------------------------------------------------------------------------------


def test_equal_requests_get_equal_addresses_and_others_do_not(address, schedule, world):
    questions = [(schedule, who, query) for who in ("alice", "bob") for query in ("", "?months=1")]
    questions += [(schedule, "bob", "?is_team_or_user=2"), (None, "alice", ""), (None, "bob", "?months=2")]
    questions += [(stored.schedule(world.team), "alice", "")]

    first = [address(*question) for question in questions]

    assert [address(*question) for question in questions] == first
    assert len(set(first)) == len(questions)
    assert address(schedule, "alice", "?months=3&is_team_or_user=1") == first[0]
    assert User.get_by_id(world.alice.id).calendar_key not in first[0]


def test_a_new_key_ends_only_the_addresses_of_its_user(ask, address, schedule):
    old = [address(), address(schedule)]
    bobs = address(schedule, who="bob")

    assert ask("DELETE", MINE).status_code == 204

    assert [ask("GET", path, who=None).status_code for path in old] == [404, 404]
    assert ask("GET", bobs, who=None).status_code == 200
    new = [address(), address(schedule)]
    assert not set(new) & set(old)
    assert [ask("GET", path, who=None).status_code for path in new] == [200, 200]


def test_only_an_admin_ends_the_addresses_of_another_user(ask, address, schedule, world):
    old, other_addresses = address(schedule, who="bob"), address()
    path = f"/api/tocsin/users/{world.bob.username}/calendar/"

    assert [ask("DELETE", path, who=who).status_code for who in ("charlie", "mallory")] == [403, 404]
    assert ask("GET", old, who=None).status_code == 200
    assert ask("DELETE", path, who="alice").status_code == 204
    assert [ask("GET", each, who=None).status_code for each in (old, other_addresses)] == [404, 200]
    again = address(schedule, who="bob")
    assert ask("DELETE", path, who="bob").status_code == 204
    assert ask("GET", again, who=None).status_code == 404


def test_a_key_can_be_renewed_before_the_first_key_exists(ask, address):
    assert ask("DELETE", MINE).status_code == 204
    assert ask("GET", address(), who=None).status_code == 200


# Permissions --------------------------------------------------------------------------------------------


def test_only_viewers_of_a_schedule_get_its_address(ask, schedule, world):
    team = f"/api/account/teams/{world.team.unique_id}"
    path = f"{team}/schedules/{schedule.unique_id}/get_schedule_ics/"

    assert [ask("GET", path, who=who).status_code for who in ("alice", "bob", "charlie", "mallory")] == [
        200, 200, 403, 404,
    ]  # fmt: skip
    Team.update(account_permissions=["schedule_read"]).where(Team.id == world.team.id).execute()
    assert ask("GET", path, who="charlie").status_code == 200
    other = path.replace(world.team.unique_id, world.charlies_team.unique_id)
    assert ask("GET", other, who="charlie").status_code == 404


def leave_team(world, schedule):
    TeamMember.delete().where(TeamMember.team == world.team, TeamMember.user == world.bob).execute()


def leave_account(world, schedule):
    User.update(removed_at=datetime(2026, 3, 1, tzinfo=UTC)).where(User.id == world.bob.id).execute()


def delete_schedule(world, schedule):
    schedule.delete_instance()


def change_secret(world, schedule):
    signed_links.Secret.delete().execute()


def remove_key(world, schedule):
    User.update(calendar_key=None).where(User.id == world.bob.id).execute()


@pytest.mark.parametrize(
    "change_access",
    [leave_team, leave_account, delete_schedule, change_secret, remove_key],
    ids=lambda change_access: change_access.__name__,
)
def test_an_address_stops_working_when_its_user_loses_access(ask, address, schedule, world, change_access):
    path = address(schedule, who="bob")
    unknown = ask("GET", "/calendars/WzEsMiwzLDRd.x.ics", who=None)
    assert ask("GET", path, who=None).status_code == 200

    change_access(world, schedule)

    ended = ask("GET", path, who=None)
    assert (ended.status_code, ended.text) == (unknown.status_code, unknown.text) == (404, "Not Found.\n")
    assert ended.headers == unknown.headers


def test_a_user_who_returns_to_the_team_has_the_same_address(ask, address, schedule, world, now):
    path = address(schedule, who="bob")
    leave_team(world, schedule)
    ask("GET", path, who=None)
    TeamMember.create(unique_id=make_uuid(), team=world.team, user=world.bob, role=2, joining_date=now)

    assert ask("GET", path, who=None).status_code == 200


def test_an_address_of_a_deleted_schedule_does_not_show_a_new_schedule(ask, address, schedule, world):
    """On SQLite the new schedule gets the row number of the deleted one."""
    path = address(schedule)
    delete_schedule(world, schedule)
    stored.schedule(world.team, weekly(world.bob))

    assert ask("GET", path, who=None).status_code == 404


@pytest.mark.parametrize("token", ["x", "", ".", "a" * 2000, "%00", "🔥", "WzEsMiwzLDRd.x"])
def test_an_unsigned_address_is_not_found(ask, address, token):
    address()

    assert ask("GET", f"/calendars/{token}.ics", who=None).status_code == 404


def test_a_signed_link_for_another_purpose_is_not_found(ask, address, world, now):
    token = address().removeprefix("/calendars/").removesuffix(".ics")
    signer = signed_links.get_signer()
    other_addresses = [
        signer.sign(signed_links.IncidentLink(1, world.bob.id, 1), now),
        signer.sign_invitation(signed_links.Invitation.for_user(world.bob), now),
    ]

    assert [ask("GET", f"/calendars/{other}.ics", who=None).status_code for other in other_addresses] == [
        404,
        404,
    ]
    assert ask("GET", f"/i/{token}", who=None).status_code == 404
    assert ask("GET", f"/join/{token}", who=None).status_code == 404


def test_an_address_accepts_only_get_and_head(ask, address):
    path = address()

    assert [ask(method, path, {}, who=None).status_code for method in ("POST", "PUT", "DELETE")] == [405] * 3


def test_no_log_contains_an_address(ask, address, schedule, monkeypatch, caplog):
    path = address(schedule)
    token = path.removeprefix("/calendars/").removesuffix(".ics")
    assert token not in hide_secrets(f"GET {path} 500")
    assert token not in hide_secrets(f"fetched {BASE}{path}")

    def fail(*_):
        raise RuntimeError(path)

    monkeypatch.setattr(ical, "render", fail)
    with caplog.at_level(logging.DEBUG, "tocsin"):
        failed = ask("GET", path, who=None)

    assert failed.status_code == 500
    assert "RuntimeError in GET /calendars/<token>.ics" in caplog.text
    assert token not in caplog.text + failed.text


# Repeated requests -------------------------------------------------------------------------------------


def test_an_unchanged_calendar_is_answered_with_304(ask, address, set_now, schedule, world, now):
    path = address(schedule)
    first = ask("GET", path, who=None)
    tag = {"If-None-Match": first.headers["ETag"]}

    set_now(now + 5 * HOUR)
    again = ask("GET", path, who=None, headers=tag)
    assert (again.status_code, again.data, again.headers["ETag"]) == (304, b"", first.headers["ETag"])
    assert again.headers["Cache-Control"] == "private, max-age=300"
    calendar = ask("GET", path, who=None)
    assert (calendar.headers["ETag"], calendar.data) == (first.headers["ETag"], first.data)

    add_override(schedule, world.charlie, now, now + HOUR)
    changed = ask("GET", path, who=None, headers=tag)
    assert changed.status_code == 200
    assert len(read_events(changed)) == len(read_events(first)) + 2


def test_a_new_name_changes_the_etag(ask, address, schedule, world):
    path = address(schedule)
    tags = [ask("GET", path, who=None).headers["ETag"]]
    User.update(first_name="Ada").where(User.id == world.alice.id).execute()
    tags.append(ask("GET", path, who=None).headers["ETag"])
    Schedule.update(name="Days").where(Schedule.id == schedule.id).execute()
    tags.append(ask("GET", path, who=None).headers["ETag"])

    assert len(set(tags)) == 3


def test_head_has_the_headers_of_get(ask, address, schedule):
    path = address(schedule)
    got, head = (ask(method, path, who=None) for method in ("GET", "HEAD"))

    assert (head.status_code, head.data) == (200, b"")
    assert int(got.headers["Content-Length"]) == len(got.data)
    assert head.headers == got.headers
    assert "ETag" in head.headers
    again = ask("HEAD", path, who=None, headers={"If-None-Match": got.headers["ETag"]})
    assert again.status_code == 304
    assert ask("HEAD", "/calendars/x.ics", who=None).status_code == 404


def test_head_does_not_render_a_kept_calendar(ask, address, schedule, monkeypatch):
    path = address(schedule)
    ask("GET", path, who=None)
    monkeypatch.setattr(ical, "render", None)

    assert ask("HEAD", path, who=None).status_code == 200


def test_a_longer_calendar_needs_no_more_queries(ask, address, world, statements, now, schedule):
    paths = [address(schedule, who="bob"), address(who="bob")]

    def count_queries():
        found = []
        for path in paths:
            with statements() as seen:
                assert ask("GET", path, who=None).status_code == 200
            found.append(len(seen))
        return found

    few_queries = count_queries()
    people = [
        provisioning.create_user(world.account, f"{n}@example.org", AccountRole.USER, now, first_name=f"P{n}")
        for n in range(20)
    ]
    more = [weekly(world.bob, person) for person in people]
    Schedule.update(layers=more).where(Schedule.id == schedule.id).execute()
    for person in people:
        add_override(schedule, person, now, now + HOUR)
        add_override(stored.schedule(world.team, weekly(person, world.bob)), world.bob, now, now + HOUR)

    assert count_queries() == few_queries
    assert max(few_queries) <= 9


def count_calls(monkeypatch, module, name):
    """Count the calls of a function in the list that is returned."""
    calls = []
    real = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *args: calls.append(name) or real(*args))
    return calls


def test_an_unchanged_calendar_is_built_once_a_day(ask, address, set_now, schedule, now, monkeypatch):
    path = address(schedule)
    shifts = count_calls(monkeypatch, calendars, "list_calendar_shifts")
    texts = count_calls(monkeypatch, ical, "render")

    for hours in (0, 1, 2):
        set_now(now + hours * HOUR)
        assert ask("GET", path, who=None).status_code == 200
    assert (len(shifts), len(texts)) == (1, 1)

    set_now(now + DAY)
    ask("GET", path, who=None)
    assert (len(shifts), len(texts)) == (2, 2)


def change_layer(world, schedule):
    schedule.layers = [weekly(world.charlie)]
    schedule.save()


def rename_person(world, schedule):
    User.update(first_name="Alina").where(User.id == world.alice).execute()


def change_email(world, schedule):
    User.update(email="alina@example.org").where(User.id == world.alice).execute()


def rename_team(world, schedule):
    Team.update(name="Money").where(Team.id == world.team).execute()


def replace_person(world, schedule):
    add_override(schedule, world.charlie, datetime(2026, 3, 4, tzinfo=UTC), datetime(2026, 3, 5, tzinfo=UTC))


def remove_person(world, schedule):
    User.update(removed_at=datetime(2026, 3, 4, tzinfo=UTC)).where(User.id == world.bob).execute()


@pytest.mark.parametrize(
    "change", [change_layer, rename_person, change_email, rename_team, replace_person, remove_person]
)
def test_a_kept_calendar_changes_with_all_that_it_shows(ask, address, schedule, world, change):
    path = address(schedule)
    before = ask("GET", path, who=None)

    change(world, schedule)

    assert ask("GET", path, who=None).headers["ETag"] != before.headers["ETag"]


def test_without_a_place_a_calendar_is_refused_before_its_schedules_are_loaded(
    ask, address, schedule, world, monkeypatch, statements
):
    path, own = address(schedule), world.account.account_identifier
    monkeypatch.setattr(places, "TIMEOUT_S", 0.0)
    monkeypatch.setattr(places, "MAX_PENDING_OF_ACCOUNT", 0)
    with held_elsewhere(places.places, own), statements() as seen:
        refused = ask("GET", path, who=None)

    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    assert [sql for sql, _ in seen if 'FROM "schedule' in sql] == []
    assert ask("GET", path, who=None).status_code == 200


def test_the_calendar_that_was_unused_for_the_longest_time_is_dropped(monkeypatch, world, now):
    monkeypatch.setattr(calendar_cache, "CACHE_SIZE", 2)
    built = []

    def get(key):
        def build():
            built.append(key)
            return ical.Calendar(key, "", "UTC")

        calendar_cache.get(key, now, build)

    for key in ("a", "b", "a", "c", "a", "b"):
        get(key)

    assert built == ["a", "b", "c", "b"]
