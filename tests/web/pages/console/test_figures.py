"""The figures of the last days: incidents per day, mean times, pages per person."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from bench.servers.plans import list_scans
from models.domain.enums import NotificationStatus
from models.reports.figures import daily_alerts as alert_figures
from models.tables.accounts import User
from models.tables.events import Event
from models.tables.incidents import Incident
from models.tables.notifications import Notification
from models.tables.teams import Team
from schedules.oncall.local_time import to_local
from web.incidents import analytics
from web.pages.console import figures
from web.pages.console.figures import draw_bars, is_night

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("hour", "zone", "expected"),
    [(21, "UTC", False), (22, "UTC", True), (6, "UTC", True), (7, "UTC", False), (21, "Europe/Berlin", True)],
)
def test_night_is_by_the_clock_of_the_person(hour, zone, expected):
    assert expected is is_night(datetime(2026, 3, 4, hour, tzinfo=UTC), ZoneInfo(zone))


@pytest.mark.parametrize("values", [[], [0, 0], [1, 2, 4]])
def test_the_highest_bar_takes_the_whole_height(values):
    bars = draw_bars([(str(value), value) for value in values])

    assert len(bars) == len(values)
    assert max((bar["height"] for bar in bars), default=0) == (142 if any(values) else 0)


def test_the_page_counts_incidents_of_the_day_and_their_mean_times(sign_in, open_incident):
    incident = open_incident()
    resolved = incident.creation_date + timedelta(minutes=30)
    Incident.update(
        acknowledged_date=incident.creation_date + timedelta(minutes=5), resolved_date=resolved
    ).execute()
    text = sign_in("alice").get("/figures/?days=7").text

    assert '<td class="number">1</td><td class="number">5 min</td><td class="number">30 min</td>' in text


def test_the_page_counts_pages_per_person(sign_in, open_incident, world):
    open_incident()
    at = datetime.now(UTC)
    Notification.update(state=NotificationStatus.SENT, done_at=at).execute()
    # At each time it is night in one of these time zones.
    zone = next(zone for zone in ("UTC", "Etc/GMT-8", "Etc/GMT+8") if is_night(at, ZoneInfo(zone)))
    User.update(time_zone=zone).where(User.id == world.alice.id).execute()

    assert "1 pages, 1 of them at night" in sign_in("alice").get("/figures/").text


def test_charlie_does_not_see_the_figures_of_another_team(sign_in, open_incident):
    open_incident()
    Notification.update(state=NotificationStatus.SENT, done_at=datetime.now(UTC)).execute()

    assert "Nobody was paged." in sign_in("charlie").get("/figures/").text


@pytest.mark.parametrize("days", ["0", "8", "x", "-7"])
def test_another_period_is_not_found(sign_in, days):
    assert sign_in("alice").get(f"/figures/?days={days}").status_code == 404


def test_alerts_per_day_are_beside_incidents_per_day(sign_in, open_incident, world):
    open_incident("Disk full")
    open_incident("Disk full")
    # Midnight may have been between the two.
    at = Incident.get().creation_date
    Event.update(creation_date=at).execute()
    day = to_local(at, ZoneInfo(world.alice.time_zone)).date()
    text = sign_in("alice").get("/figures/?days=7").text

    assert f'<td>{day}</td><td class="number">2</td><td class="number">1</td>' in text
    assert "2 on the busiest day" in text
    assert "2 on the busiest day" not in sign_in("charlie").get("/figures/?days=7").text
    assert "2 on the busiest day" not in sign_in("mallory").get("/figures/?days=7").text


@pytest.mark.parametrize("days", [1, 2, 7, 90])
def test_each_alert_is_counted_on_its_day(open_incident, world, days):
    starts = [NOON + timedelta(days=place) for place in range(days + 1)]
    for place in range(days):
        open_incident(f"Alert {place}")
        last = Event.select().order_by(Event.id.desc()).get()
        Event.update(creation_date=starts[place]).where(Event.id == last.id).execute()

    assert alert_figures.count_by_day(starts, Team.select(Team.id)) == [1] * days


def test_days_before_the_searched_alerts_are_unknown(open_incident, world, monkeypatch):
    starts = [NOON + timedelta(days=place) for place in range(4)]
    for place in range(3):
        open_incident(f"Alert {place}")
        last = Event.select().order_by(Event.id.desc()).get()
        Event.update(creation_date=starts[place]).where(Event.id == last.id).execute()
    monkeypatch.setattr(alert_figures, "MAX_SEARCHED", 2)

    assert alert_figures.count_by_day(starts, Team.select(Team.id)) == [None, 1, 1]


def test_the_alerts_of_a_day_are_found_by_their_numbers(open_incident, world, statements):
    open_incident()
    starts = [NOON, NOON + timedelta(days=1)]
    with statements() as seen:
        alert_figures.count_by_day(starts, Team.select(Team.id))

    assert [scan for scan in list_scans(seen) if "event" in scan] == []


def test_with_too_many_incidents_the_page_says_so(sign_in, open_incident, monkeypatch):
    open_incident()
    monkeypatch.setattr(figures, "MAX_INCIDENTS", 0)

    answer = sign_in("alice").get("/figures/?days=7")

    assert (answer.status_code, "This period has more than 0 incidents" in answer.text) == (200, True)


@pytest.mark.parametrize("limit", [figures.CONCURRENCY, analytics.TEAM_CONCURRENCY])
def test_two_people_open_the_page_at_once(sign_in, world, limit):
    with limit.acquire(world.account):
        answer = sign_in("alice").get("/figures/")

    assert (answer.status_code, "Somebody else of your account" in answer.text) == (200, True)
