"""Calendar feeds with the shifts of a schedule, or of one person in all schedules (contract 2.8, X35).

The address is a secret: it shows what the user of the address may see at the time of the request. It stays
valid until the user requests a new calendar key.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import peewee
from flask import Response, request

from models.domain.facts import ScheduleFacts
from models.domain.identity import derive_uuid
from models.links import signed_links
from models.load.schedules import list_usernames, load_schedule_facts
from models.store.ids import make_uuid
from models.store.prepared import in_list
from models.store.store import store
from models.tables.accounts import Account, CustomRole, User, get_display_name
from models.tables.schedules import Schedule, ScheduleOverride
from models.tables.teams import Team
from schedules.oncall.feed import CalendarShifts, get_overrides_since, list_calendar_shifts
from schedules.oncall.schedule_shifts import Shift
from schedules.oncall.shifts import find_endless, is_endless
from web.http import access, serialization
from web.http.auth import Viewer, now, operation, viewer
from web.http.errors import Forbidden
from web.http.fields import OptionalNumber, Schema, Text, explain
from web.http.limits.places import hold_place
from web.http.permissions import MEMBER, OWN
from web.http.response_headers import PRIVATE_HEADERS
from web.oncall import calendar_cache, ical
from web.oncall.calendar_cache import BuiltCalendar
from web.oncall.ical import Attendee, Calendar, Entry

DEFAULT_MONTHS = 3
MAX_MONTHS = 12

# Seconds in which a program may use its copy; programs wait much longer between two requests.
CACHE_S = 300


class MonthsQuerySchema(Schema):
    months = OptionalNumber(
        min_value=1,
        max_value=MAX_MONTHS,
        metadata=explain(f"Number of months in the calendar; default: {DEFAULT_MONTHS}."),
    )


class CalendarQuerySchema(MonthsQuerySchema):
    is_team_or_user = OptionalNumber(
        metadata=explain("1 or missing: the shifts of all people. Another number: your own shifts.")
    )


class CalendarAddressSchema(Schema):
    """The address of a calendar feed. Requests to the address need no token."""

    url = Text(
        dump_only=True,
        metadata=explain("The address of the calendar. It is a secret, because it needs no token."),
    )


MONTHS_QUERY = MonthsQuerySchema()
CALENDAR_QUERY = CalendarQuerySchema()
ADDRESS = CalendarAddressSchema()


def get_schedule_address(team_id: str, schedule_id: str) -> dict[str, str]:
    """Get the address of the calendar feed of a schedule."""
    team = access.access_team(viewer(), team_id)
    schedule = access.find(Schedule.select().where(Schedule.team == team), Schedule.unique_id, schedule_id)
    parameters = serialization.load(CALENDAR_QUERY, request.args.to_dict())
    everybody = parameters.get("is_team_or_user") in (None, 1)
    return _build_address(parameters, schedule=schedule.unique_id, own_only=not everybody)


def get_own_address() -> dict[str, str]:
    """Get the address of a calendar feed with your own shifts in all schedules."""
    return get_calendar(viewer(), request.args.to_dict())


@operation(MEMBER)
def get_calendar(who: Viewer, query: object) -> dict[str, str]:
    """Return the address of the viewer's own calendar."""
    return _build_address(serialization.load(MONTHS_QUERY, query), own_only=True)


def renew() -> None:
    """Replace your calendar key. All your old feed addresses stop working."""
    _renew(viewer().user)


def renew_for_user(username: str) -> None:
    """Replace the calendar key of a user, for example after an address has leaked."""
    renew_calendar(viewer(), username)


@operation(OWN)
def renew_calendar(who: Viewer, username: str) -> None:
    """Replace the calendar key of a user."""
    user = access.access_user(who, username)
    access.require_rank(who, user.role)
    _renew(user)


def _renew(user: User) -> None:
    with store().write_transaction():
        User.update(calendar_key=make_uuid()).where(User.id == user.id).execute()


def show(token: str) -> Response:
    """Return the calendar at an address. All addresses that do not work get the same answer."""
    found = _find_calendar(token)
    if found is None:
        return Response("Not Found.\n", 404, PRIVATE_HEADERS, "text/plain")
    if request.if_none_match.contains_weak(found.digest):
        response = Response(status=304)
    else:
        response = Response(found.text, mimetype=ical.MIMETYPE)
        response.headers["Content-Disposition"] = 'inline; filename="on-call.ics"'
    response.headers.update(PRIVATE_HEADERS)
    response.headers["Cache-Control"] = f"private, max-age={CACHE_S}"
    # A weak ETag, because each rendering contains its time.
    response.set_etag(found.digest, weak=True)
    return response


def _build_address(parameters: Mapping[str, Any], *, own_only: bool, schedule: str = "") -> dict[str, str]:
    feed = signed_links.CalendarFeed.for_user(
        _ensure_key(viewer().user),
        schedule=schedule,
        own_only=own_only,
        months=parameters.get("months") or DEFAULT_MONTHS,
    )
    return {"url": serialization.build_url(f"/calendars/{signed_links.get_signer().sign_feed(feed)}.ics")}


def _ensure_key(user: User) -> User:
    if user.calendar_key is None:
        with store().write_transaction():
            # Two requests may create a key at the same time; the first key is stored.
            made = User.update(calendar_key=make_uuid()).where(
                User.id == user.id, User.calendar_key.is_null()
            )
            made.execute()
            user.calendar_key = User.select(User.calendar_key).where(User.id == user.id).scalar()
    return user


def _find_calendar(token: str) -> BuiltCalendar | None:
    try:
        feed = signed_links.get_reader().read_feed(token)
    except signed_links.BadLink:
        return None
    user = _find_subscriber(feed)
    if user is None:
        return None
    with hold_place(user.account.account_identifier):
        return _build_for_schedule(feed, user) if feed.schedule else _build_for_person(feed, user)


def _find_subscriber(feed: signed_links.CalendarFeed) -> User | None:
    """Return the user of the address, or None if the address is not valid any more."""
    query = User.select(User, Account, CustomRole).join(Account)
    query = query.join_from(User, CustomRole, peewee.JOIN.LEFT_OUTER, on=User.custom_role)
    user: User | None = query.where(User.id == feed.user, User.removed_at.is_null()).first()
    return user if user is not None and feed.has_key_of(user) else None


def _build_for_schedule(feed: signed_links.CalendarFeed, user: User) -> BuiltCalendar | None:
    schedule = _select_schedules(user).where(Schedule.unique_id == feed.schedule).first()
    if schedule is None:
        return None
    try:
        access.require_permission(Viewer(user, user.account, "schedule_read"), schedule.team_id)
    except Forbidden:
        return None
    by, own = f"the schedule {schedule.name} of the team {schedule.team.name}", get_display_name(user)
    calendar = Calendar(schedule.name, f"Who is on call in {by}.", schedule.time_zone)
    if feed.own_only:
        calendar = Calendar(
            f"{own} on call: {schedule.name}", f"When {own} is on call in {by}.", schedule.time_zone
        )
    return _get(calendar, feed, user, [schedule])


def _build_for_person(feed: signed_links.CalendarFeed, user: User) -> BuiltCalendar:
    """Build the calendar of a person. The person may see all own shifts, because they cause notifications."""
    name = f"{get_display_name(user)} on call"
    calendar = Calendar(name, f"When {get_display_name(user)} is on call.", user.time_zone)
    return _get(calendar, feed, user, list(select_own_schedules(user)))


def select_own_schedules(user: User) -> "peewee.ModelSelect[Schedule]":
    """Select the schedules in which the person is in a layer or in an override."""
    overriding = ScheduleOverride.select(ScheduleOverride.schedule).where(ScheduleOverride.user == user)
    in_layers = Schedule.layers.cast("TEXT").contains(user.username)
    return _select_schedules(user).where(in_layers | Schedule.id.in_(overriding)).order_by(Schedule.id)


def _select_schedules(user: User) -> "peewee.ModelSelect[Schedule]":
    return Schedule.select(Schedule, Team).join(Team).where(Team.account == user.account)


def _get(
    calendar: Calendar, feed: signed_links.CalendarFeed, user: User, schedules: list[Schedule]
) -> BuiltCalendar:
    """Return the calendar with the shifts of these schedules, built earlier or now."""
    only = user.username if feed.own_only else None
    facts = tuple(load_schedule_facts(schedules, get_overrides_since(now())))
    people = _load_people(facts, user)
    teams = tuple(schedule.team.name for schedule in schedules)
    # Shifts count from the beginning of the day.
    key = (calendar, facts, teams, frozenset(people.items()), only, feed.months, now().date())
    return calendar_cache.get(
        key, now(), lambda: _fill(calendar, facts, schedules, people, feed.months, only)
    )


def _fill(
    calendar: Calendar,
    facts: Sequence[ScheduleFacts],
    schedules: Sequence[Schedule],
    people: Mapping[str, Attendee],
    months: int,
    only: str | None,
) -> Calendar:
    """Return the calendar with the shifts of these schedules."""
    found = list_calendar_shifts(facts, now(), months, only)
    rows = {schedule.id: schedule for schedule in schedules}
    entries = tuple(_build_entries(found, rows, people))
    warnings = []
    if found.begins_at is not None:
        warnings.append(f"Past shifts before {found.begins_at:%Y-%m-%d %H:%M} UTC are left out.")
    if found.truncated_at is not None:
        warnings.append(
            f"The calendar is not complete: shifts are missing from {found.truncated_at:%Y-%m-%d} on."
        )
    return replace(calendar, description=" ".join([calendar.description, *warnings]), entries=entries)


def _load_people(schedules: Iterable[ScheduleFacts], user: User) -> dict[str, Attendee]:
    """Return the people in these schedules by username, without removed users."""
    usernames = {name for schedule in schedules for name in list_usernames(schedule)}
    rows = User.select().where(
        User.account == user.account, in_list(User.username, usernames), User.removed_at.is_null()
    )
    return {row.username: Attendee(get_display_name(row), row.email) for row in rows}


def _build_entries(
    found: CalendarShifts, rows: Mapping[int, Schedule], people: Mapping[str, Attendee]
) -> Iterable[Entry]:
    shown = {facts.row: facts for facts, _ in found.shifts}
    endless = {row: find_endless(facts) for row, facts in shown.items()}
    for facts, shift in found.shifts:
        if shift.username in people:
            has_end = not is_endless(shift, endless[facts.row])
            yield _build_entry(rows[facts.row], shift, people[shift.username], has_end=has_end)


def _build_entry(schedule: Schedule, shift: Shift, person: Attendee, *, has_end: bool) -> Entry:
    source = shift.source
    # Clients choose the IDs of layers. These IDs are unique only within a schedule.
    names = (schedule.unique_id, source.unique_id, shift.username, shift.start.isoformat())
    kind = "override" if shift.is_override else "layer"
    by = f"override: {source.name}" if shift.is_override else source.name
    rest = "" if has_end else f" It has no end: {person.name} stays on call."
    return Entry(
        f"{derive_uuid(*names)}@tocsin",
        shift.start,
        shift.end,
        f"{person.name} on call: {schedule.name} ({by})",
        f"Shift of the {kind} {source.name} in the schedule {schedule.name}"
        f" of the team {schedule.team.name}.{rest}",
        person,
    )
