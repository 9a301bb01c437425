"""Figures of the last weeks as pictures, each with a table: incidents, alerts, times, pages per person."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from flask import Response, request

from models.reports import incident_metrics
from models.reports.figures import daily_alerts as alert_figures
from models.reports.figures import daily_incidents, pages_by_person
from models.tables.accounts import get_display_name
from pipeline.messages.times import MONTHS
from schedules.oncall.local_time import get_zone_or_utc, to_local
from web.http import access
from web.http.auth import now, viewer
from web.http.concurrency_limit import ConcurrencyLimit
from web.http.errors import NotFound, Throttled
from web.incidents import analytics
from web.pages.console.page import render
from web.pages.look.calendar_picture import list_days


@dataclass(frozen=True, slots=True)
class DayFigures:
    """A day, the metrics of its incidents by their names in the interface, and its number of alerts.

    `alerts` None: not known.
    """

    day: date
    metrics: Mapping[str, int | float]
    alerts: int | None


PERIODS = (7, 30, 90)
# The latest notifications of the period that are counted by person.
MAX_NOTIFICATIONS = 50_000
# By the clock of the person.
NIGHT_FROM, NIGHT_UNTIL = 22, 7
# Incidents of one page. 50,000 took 4 s, which a page must not. The operations of analytics take more.
MAX_INCIDENTS = 20_000
CONCURRENCY = ConcurrencyLimit(2, "figures by day")

CHART_WIDTH, CHART_HEIGHT, BASE, TOP = 640, 160, 156, 14


def show() -> Response:
    """Show the figures of the last days."""
    period = request.args.get("days", "30")
    if period not in map(str, PERIODS):
        raise NotFound
    zone = get_zone_or_utc(viewer().user.time_zone)
    today = to_local(now(), zone).date()
    first = today - timedelta(days=int(period) - 1)
    limits = {"from_date": first.isoformat(), "to_date": today.isoformat()}
    try:
        days = _measure_days(first, today, zone)
        teams = analytics.TEAM_ANALYTICS.dump(analytics.measure_teams(viewer(), limits))
    except Throttled:
        # An account asks one question of a kind at a time.
        return render("figures.html", periods=PERIODS, period=int(period), days=[], too_many=None)
    except TooManyIncidentsError:
        return render("figures.html", periods=PERIODS, period=int(period), days=[], too_many=MAX_INCIDENTS)
    return render(
        "figures.html",
        periods=PERIODS,
        period=int(period),
        days=days,
        alert_bars=draw_bars([(_name_day(each.day), each.alerts or 0) for each in days]),
        most_alerts=max(each.alerts or 0 for each in days),
        has_unknown=any(each.alerts is None for each in days),
        max_alerts=alert_figures.MAX_SEARCHED,
        bars=draw_bars([(_name_day(each.day), int(each.metrics["total_incidents"])) for each in days]),
        highest=max(int(each.metrics["total_incidents"]) for each in days),
        people=_count_by_person(list_days(first, 0, zone)[0]),
        teams=teams,
        height=CHART_HEIGHT,
        width=CHART_WIDTH,
        base=BASE,
        top=TOP,
        max_notifications=MAX_NOTIFICATIONS,
        night=(NIGHT_FROM, NIGHT_UNTIL),
    )


class TooManyIncidentsError(Exception):
    """The period has too many incidents for a page."""


def _measure_days(first: date, last: date, zone: ZoneInfo) -> list[DayFigures]:
    """Return incidents, mean times and alerts of each day."""
    count = (last - first).days + 1
    starts = list_days(first, count, zone)
    limits = {
        "from_date": datetime.combine(first, datetime.min.time()),
        "to_date": datetime.combine(last, datetime.min.time()),
    }
    with analytics.select_incidents(limits, CONCURRENCY) as incidents:
        if incident_metrics.has_more_than(incidents, MAX_INCIDENTS):
            raise TooManyIncidentsError
        found = daily_incidents.measure_by_day(incidents, starts)
        alerts = alert_figures.count_by_day(starts, access.select_permitted_teams(viewer()))
    return [
        DayFigures(first + timedelta(days=place), metrics.show(), alerts[place])
        for place, metrics in enumerate(found)
    ]


def _count_by_person(start: datetime) -> list[dict[str, object]]:
    """Return how often each person was paged since this time, and how often of these at night."""
    teams = access.select_permitted_teams(viewer())
    found = pages_by_person.list_pages(viewer().account, teams, start, MAX_NOTIFICATIONS)
    people = {user.id: user for user, _ in found}
    pages = Counter(user.id for user, _ in found)
    nights = Counter(user.id for user, at in found if is_night(at, get_zone_or_utc(user.time_zone)))
    return [
        {"name": get_display_name(people[user]), "pages": count, "nights": nights[user]}
        for user, count in pages.most_common()
    ]


def is_night(at: datetime, zone: ZoneInfo) -> bool:
    """Return whether the local clock shows a time of the night."""
    hour = to_local(at, zone).hour
    return hour >= NIGHT_FROM or hour < NIGHT_UNTIL


def _name_day(day: date) -> str:
    return f"{day.day} {MONTHS[day.month - 1]}"


def draw_bars(values: list[tuple[str, int]]) -> list[dict[str, object]]:
    """Return the bars of a chart. The highest value takes the whole height."""
    highest = max((value for _, value in values), default=0) or 1
    step = CHART_WIDTH / max(len(values), 1)
    return [
        {
            "x": round(place * step + 1, 1),
            "y": round(BASE - (BASE - TOP) * value / highest, 1),
            "width": round(step - 2, 1),
            "height": round((BASE - TOP) * value / highest, 1),
            "label": name,
            "value": value,
        }
        for place, (name, value) in enumerate(values)
    ]
