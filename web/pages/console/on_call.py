"""Who is on call now and next in all teams, and a schedule as a picture of a week or a month."""

from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from typing import TypedDict

from flask import Response, request

from models.tables.accounts import get_display_name, name_person
from models.tables.schedules import Schedule
from schedules.oncall.local_time import get_zone_or_utc, to_local
from schedules.oncall.swaps import HeldShift
from web.http.auth import now, viewer
from web.http.errors import ApiError, NotFound, Throttled, reject
from web.http.fields import parse_moment
from web.oncall import swaps
from web.oncall.calendars import get_calendar
from web.oncall.overrides import OVERRIDES
from web.oncall.schedule_overview import (
    TIMELINE,
    CurrentAnswer,
    CurrentShift,
    access_schedule,
    list_on_call,
    load_timeline,
)
from web.oncall.schedule_problems import GAPS
from web.pages import forms
from web.pages.console.incident import MAX_CHOICES, list_people
from web.pages.console.local_times import MAX_YEAR, MIN_YEAR, is_near, read_local
from web.pages.console.page import redirect_done, render
from web.pages.console.swaps import write_choice
from web.pages.look.calendar_picture import (
    DAYS_OF_WEEK,
    PlannedShift,
    draw,
    format_span,
    list_days,
)
from web.pages.look.refusals import place


class Timeline(TypedDict):
    """The shifts of a schedule over a time, as the operation answers. `gaps` None: they are not known."""

    shifts: "list[ShownShift]"
    gaps: list[dict[str, str]] | None
    moved_handoffs: list[dict[str, object]]
    warnings: list[str]


class ShownShift(TypedDict):
    """A shift, as operations answer."""

    user: dict[str, str]
    start_time: str
    end_time: str
    layer: str | None
    override: str | None
    name: str


# Schedules on a page: each needs some statements and the computation of its shifts.
PAGE_SIZE = 20
# Shifts of one picture. People read no more; a picture of 4,000 had 1.4 MB.
MAX_DRAWN = 500
OVERRIDES_ROW = "Overrides"
VIEWS = {"week": 1, "month": 5}
HOURS = (1, 4, 8, 12)
MAX_PAGE = 1_000


def show() -> Response:
    """Show who is on call now in each schedule that the person may read, and who is next."""
    number = _read_number(request.args.get("page", "1"))
    found = list_on_call(viewer(), start=(number - 1) * PAGE_SIZE, most=PAGE_SIZE + 1)
    return render(
        "on_call.html",
        # The address of the calendar.
        has_secret=True,
        schedules=[_describe(*each) for each in found[:PAGE_SIZE]],
        number=number,
        has_more=len(found) > PAGE_SIZE,
        own_calendar=get_calendar(viewer(), {})["url"],
    )


def _read_number(text: str) -> int:
    if len(text) > len(str(MAX_PAGE)) or not text.isdecimal() or not 0 < int(text) <= MAX_PAGE:
        raise NotFound
    return int(text)


def _describe(row: Schedule, found: CurrentAnswer) -> dict[str, object]:
    """Return who is on call in a schedule, and who is next."""
    handoff = found["handoff"]
    return {
        "unique_id": row.unique_id,
        "name": row.name,
        "team": row.team.name,
        "problems": found["warnings"],
        "people": [_describe_person(each) for each in found["oncalls"]],
        "handoff": handoff
        and {"at": handoff["at"], "people": [get_display_name(each) for each in handoff["oncalls"]]},
    }


def _describe_person(shift: CurrentShift) -> dict[str, object]:
    forwarded = shift["forwarded_to"]
    return {
        "name": get_display_name(shift["user"]),
        "until": shift["until"],
        "by": shift["name"],
        "forwarded_to": get_display_name(forwarded) if forwarded else "",
    }


def show_schedule(schedule_id: str) -> Response:
    """Show a schedule as a picture and a table, with a form for an override."""
    return _render_schedule(access_schedule(schedule_id), {}, ([], {}))


def add_override(schedule_id: str) -> Response:
    """Put a person on call for some time instead of the people of the layers."""
    row = access_schedule(schedule_id)
    form = {name: request.form.get(name, "") for name in ("user", "hours", "start_time", "end_time")}
    try:
        start, end = _read_span(form)
        body = {"user": form["user"], "start_time": start.isoformat(), "end_time": end.isoformat()}
        OVERRIDES.create_row(viewer(), body, team_id=row.team.unique_id, schedule_id=row.unique_id)
    except ApiError as error:
        return _render_schedule(row, form, place(error, form), error.status)
    return redirect_done(f"/on-call/{row.unique_id}/", "The override was added.")


def _read_span(form: dict[str, str]) -> tuple[datetime, datetime]:
    """Return start and end of an override: from now on for some hours, or two times in the person's zone."""
    if form["hours"]:
        if form["hours"] not in map(str, HOURS):
            reject("hours", f"Must be one of {', '.join(map(str, HOURS))}.")
        return now(), now() + timedelta(hours=int(form["hours"]))
    return read_local("start_time", form["start_time"]), read_local("end_time", form["end_time"])


def _list_open_gaps(row: Schedule, timeline: Timeline) -> list[tuple[datetime, datetime]]:
    """Return the gaps after now and after the first rotation begins: nobody can be on call in the others."""
    starts = [parse_moment(layer["rotation_start_time"]) for layer in row.layers if layer["is_active"]]
    begins = max(now(), min(starts, default=now()))
    found = [
        (max(parse_moment(gap["start_time"]), begins), parse_moment(gap["end_time"]))
        for gap in timeline["gaps"] or ()
    ]
    return [gap for gap in found if gap[0] < gap[1]]


def _render_schedule(
    row: Schedule, form: dict[str, str], refusal: tuple[list[str], dict[str, str]], code: int = 200
) -> Response:
    view = request.args.get("view", "week")
    if view not in VIEWS:
        raise NotFound
    zone = get_zone_or_utc(viewer().user.time_zone)
    first = _read_first(request.args.get("from", ""), to_local(now(), zone).date())
    days = list_days(first, DAYS_OF_WEEK * VIEWS[view], zone)
    timeline, missing = _load_timeline(row, days[0], days[-1])
    shifts = _list_shifts(timeline["shifts"], days[0], days[-1])
    gaps = _list_open_gaps(row, timeline)
    if len(shifts) > MAX_DRAWN:
        missing = (
            f"Shifts are not drawn, because there are more than {MAX_DRAWN}. The table has the first ones."
        )
    drawn = shifts if len(shifts) <= MAX_DRAWN else []
    rows = list(dict.fromkeys([OVERRIDES_ROW, *(shift.row for shift in drawn)]))
    rows = rows if any(shift.is_override for shift in drawn) else rows[1:]
    step = timedelta(days=DAYS_OF_WEEK * VIEWS[view])
    names = {each["user"]["username"]: _name_person(each["user"]) for each in timeline["shifts"]}
    own, of_others = swaps.list_choices(_list_held(timeline["shifts"]))
    return render(
        "schedule.html",
        code,
        schedule=row,
        view=view,
        first=first,
        earlier=first - step,
        later=first + step,
        strips=draw(drawn, gaps, rows, first, VIEWS[view], zone, now()),
        shifts=shifts,
        gaps=gaps,
        span=lambda start, end: format_span(start, end, zone),
        moved=timeline["moved_handoffs"],
        warnings=[*timeline["warnings"], *([missing] if missing else [])],
        zone=viewer().user.time_zone,
        hours=HOURS,
        people=list_people(),
        may_override=OVERRIDES.may(viewer(), "create", row),
        swaps=swaps.list_open(row),
        own_choices=_choose(own, {}),
        other_choices=_choose(of_others, names),
        me_username=viewer().user.username,
        form=form,
        problems=refusal[0],
        at_fields=refusal[1],
        done=forms.read_done(),
    )


def _load_timeline(row: Schedule, start: datetime, end: datetime) -> tuple[Timeline, str]:
    """Return the shifts with the gaps, and what is missing if somebody of the account asks for gaps now."""
    query = {"from": start.isoformat(), "to": end.isoformat()}

    def load(include: str) -> Timeline:
        timeline = load_timeline(viewer(), row.unique_id, {**query, "include": include})
        found: Timeline = TIMELINE.dump(timeline)
        return found

    try:
        return load(GAPS), ""
    except Throttled:
        pass
    try:
        return load(""), "Gaps are not shown, because somebody else asks for gaps now. Load the page again."
    except Throttled:
        # A schedule with very many shifts needs the same limit.
        nothing: Timeline = {"shifts": [], "gaps": None, "moved_handoffs": [], "warnings": []}
        return (
            nothing,
            "Shifts are not shown, because somebody else asks for shifts now. Load the page again.",
        )


def _choose(shifts: Iterable[HeldShift], names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return shifts as choices of a form. A shift of a person without a name here is the person's own."""
    zone = get_zone_or_utc(viewer().user.time_zone)
    return [
        (
            write_choice(each),
            ": ".join(filter(None, (names.get(each.username), format_span(each.start, each.end, zone)))),
        )
        for each in list(shifts)[:MAX_CHOICES]
    ]


def _list_held(found: list[ShownShift]) -> list[HeldShift]:
    """Return the shifts whose end is known."""
    return [
        HeldShift(each["user"]["username"], parse_moment(each["start_time"]), parse_moment(each["end_time"]))
        for each in found
        if each["end_time"]
    ]


def _read_first(text: str, today: date) -> date:
    """Return this day; without a day, today: what has passed matters less than what comes."""
    try:
        day = date.fromisoformat(text) if text else today
    except ValueError:
        reject("from", "Must be a date, for example 2026-03-02.")
    if not is_near(day.year):
        reject("from", f"Must be from {MIN_YEAR} to {MAX_YEAR}.")
    return day


def _list_shifts(found: list[ShownShift], first: datetime, last: datetime) -> list[PlannedShift]:
    """Return the shifts. One without a known start or end lasts as long as the shown time."""
    return [
        PlannedShift(
            row=OVERRIDES_ROW if each["override"] else each["name"],
            person=_name_person(each["user"]),
            start=parse_moment(each["start_time"]) if each["start_time"] else first,
            end=parse_moment(each["end_time"]) if each["end_time"] else last,
            is_override=each["override"] is not None,
            has_end=bool(each["end_time"]),
        )
        for each in found
    ]


def _name_person(user: Mapping[str, str]) -> str:
    return name_person(user["first_name"], user["last_name"], user["email"])
