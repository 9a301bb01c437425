"""Shifts, gaps and conflicts of a schedule over a time or at one time (under /api/tocsin/schedules/).

All answers come from the functions that also select people to notify (schedules/oncall/schedule_shifts.py,
schedules/escalation/targets.py). They need a constant number of queries.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypedDict

from flask import request
from marshmallow import fields

from models.domain.facts import OnCallConfig, PersonFacts, ScheduleFacts
from models.load import schedule_overview
from models.load.oncall_config import build_people_on_call
from models.store.prepared import in_list
from models.tables.accounts import User
from models.tables.schedules import Schedule
from models.tables.teams import Team
from schedules.escalation.current import LOOKAHEAD, MAX_WORK, CurrentOnCall, find_current
from schedules.oncall import checks, shifts
from schedules.oncall.local_time import list_zone_warnings
from schedules.oncall.moved_handoffs import find_moved_handoffs
from schedules.oncall.shifts import FullShift
from web.http import access, serialization
from web.http.auth import Viewer, now, operation, viewer
from web.http.errors import reject
from web.http.fields import List, Moment, QueryMoment, Schema, Text, UserSchema, WordSet, explain
from web.oncall.schedule_problems import (
    PROBLEMS,
    IncludedProblemsSchema,
    ScheduleProblemSchema,
    ScheduleView,
    limit_requests,
)
from web.oncall.schedules import SCHEDULES

DAY = timedelta(days=1)
DEFAULT_PERIOD = 30 * DAY
MAX_PERIOD = 366 * DAY
MAX_SHIFTS = 10_000
# An answer for one time shows only some of the conflicts; the answer for a period lists all.
MAX_CONFLICTS = 20

_INCLUDE = "The problems that the answer has, separated by commas: conflicts, gaps."


class PeriodQuerySchema(Schema):
    start = QueryMoment(data_key="from", metadata=explain("A date, or a time as in RFC 3339; default: now."))
    end = QueryMoment(
        data_key="to", metadata=explain("The same, up to 366 days later; default: 30 days later.")
    )
    include = WordSet(PROBLEMS, f"{_INCLUDE} Default: both.")


class MomentQuerySchema(Schema):
    at = QueryMoment(metadata=explain("A date, or a time as in RFC 3339; default: now."))
    include = WordSet(PROBLEMS, f"{_INCLUDE} Default: none.")


class ShiftSchema(Schema):
    """A complete shift. Consecutive turns of a person are one shift."""

    user = fields.Nested(UserSchema, dump_only=True, metadata=explain("The person on call."))
    start_time = Moment(
        attribute="start",
        dump_only=True,
        metadata=explain("The start of the shift, also if it is before the requested time."),
    )
    end_time = Moment(
        attribute="until",
        dump_only=True,
        allow_none=True,
        metadata=explain("The end of the shift, also if it is after the requested time; null: no end."),
    )
    layer = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain("The unique_id of the layer; null: the shift is from an override."),
    )
    override = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain("The unique_id of the override; null: the shift is from a layer."),
    )
    name = Text(dump_only=True, metadata=explain("The name of the layer or override."))


class _ScheduleAnswerSchema(IncludedProblemsSchema):
    """What the answers about a schedule have in common."""

    schedule = Text(dump_only=True, metadata=explain("The unique_id of the schedule."))
    name = Text(dump_only=True)
    time_zone = Text(dump_only=True, metadata=explain("The IANA name of the schedule's time zone."))
    warnings = List(
        Text(),
        dump_only=True,
        metadata=explain("Sentences, for example that this host does not know the time zone."),
    )


class ScheduleTimelineSchema(_ScheduleAnswerSchema):
    """The shifts of a schedule over a time. Only the first 1,000 conflicts are listed."""

    start = Moment(data_key="from", dump_only=True, metadata=explain("The start of the shown time."))
    end = Moment(data_key="to", dump_only=True, metadata=explain("The end of the shown time."))
    shifts = List(
        fields.Nested(ShiftSchema), dump_only=True, metadata=explain("All shifts in this time, in order.")
    )
    moved_handoffs = List(
        fields.Nested(ScheduleProblemSchema),
        dump_only=True,
        metadata=explain("Times in which a clock change moves the handoffs of a layer."),
    )


class CurrentShiftSchema(ShiftSchema):
    """A present shift."""

    forwarded_to = fields.Nested(
        UserSchema,
        dump_only=True,
        allow_none=True,
        metadata=explain("Who is notified instead, by a forwarding rule; null: nobody else."),
    )


class HandoffSchema(Schema):
    at = Moment(dump_only=True, metadata=explain("When the people on call change."))
    oncalls = List(
        fields.Nested(UserSchema), dump_only=True, metadata=explain("The people on call from then on.")
    )


class ScheduleOnCallSchema(_ScheduleAnswerSchema):
    """Who is on call in a schedule at a time. Only the first 20 conflicts are listed."""

    at = Moment(dump_only=True, metadata=explain("The time for which the answer holds."))
    until = Moment(dump_only=True, metadata=explain("The end of the time that was searched for a handoff."))
    oncalls = List(
        fields.Nested(CurrentShiftSchema), dump_only=True, metadata=explain("The shifts at this time.")
    )
    handoff = fields.Nested(
        HandoffSchema,
        dump_only=True,
        allow_none=True,
        metadata=explain("The next change of the people on call; null: none before `until`."),
    )


class ShownShift(TypedDict):
    """A shift in an answer, with its person as a row. `until` None: it has no end."""

    user: User
    start: datetime
    until: datetime | None
    layer: str | None
    override: str | None
    name: str


class CurrentShift(ShownShift):
    """A present shift. `forwarded_to` None: its person is notified."""

    forwarded_to: User | None


class Handoff(TypedDict):
    """The next change of the people on call."""

    at: datetime
    oncalls: list[User]


class CurrentAnswer(TypedDict):
    """Who is on call in a schedule at a time, as rows."""

    schedule: str
    name: str
    time_zone: str
    warnings: list[str]
    at: datetime
    until: datetime
    oncalls: list[CurrentShift]
    handoff: Handoff | None


PERIOD_QUERY = PeriodQuerySchema()
MOMENT_QUERY = MomentQuerySchema()
TIMELINE = ScheduleTimelineSchema()
ON_CALL = ScheduleOnCallSchema()


def get_timeline(schedule_id: str) -> dict[str, object]:
    """Get the shifts, gaps and conflicts of a schedule over a time."""
    return load_timeline(viewer(), schedule_id, request.args)


@operation("schedule_read")
def load_timeline(who: Viewer, schedule_id: str, query: Mapping[str, str]) -> dict[str, object]:
    """Return the shifts of a schedule over the time that a query names, with the problems that it names."""
    row = access_schedule(schedule_id)
    included, start, end = _read_period(query)
    view = ScheduleView.load(row, start, end)
    work = shifts.estimate_work([view.schedule], start, end)
    if work > shifts.MAX_WORK:
        reject("to", "The schedule is too large for this time: request less time.")
    with limit_requests(included, work):
        found = view.list_shifts(start, end)
        if len(found) > MAX_SHIFTS:
            reject("to", f"There are more than {MAX_SHIFTS:,} shifts: request less time.")
        return {
            **_describe(view.schedule),
            "start": start,
            "end": end,
            "shifts": [
                _show_shift(shift, view.users)
                for shift in shifts.extend_shifts(view.schedule, found, start, end)
            ],
            "moved_handoffs": [
                view.show_problem(problem) for problem in find_moved_handoffs(view.schedule, start, end)
            ],
            **view.find_problems(included, found, start, end, checks.MAX_PROBLEMS),
        }


def get_on_call(schedule_id: str) -> dict[str, object]:
    """Get who is on call in a schedule at a time. The answer also says until when, and who is next."""
    return find_on_call(viewer(), schedule_id, request.args)


@operation("schedule_read")
def find_on_call(who: Viewer, schedule_id: str, query: Mapping[str, str]) -> dict[str, object]:
    """Return who is on call in a schedule at the time that a query names, with the problems that it names."""
    row = access_schedule(schedule_id)
    values = serialization.load(MOMENT_QUERY, query)
    at: datetime = values.get("at") or now()
    included: frozenset[str] = values.get("include", frozenset())
    view = ScheduleView.load(row, at, at + LOOKAHEAD)
    with limit_requests(included, 0):
        most = shifts.MAX_WORK if included else MAX_WORK
        ((current, users),) = _find_all([view], at, most)
        found = view.list_shifts(at, current.until) if included else []
        return {
            **show_on_call(view.schedule, current, users),
            **view.find_problems(included, found, at, current.until, MAX_CONFLICTS),
        }


@operation("schedule_read")
def list_on_call(who: Viewer, *, start: int, most: int) -> list[tuple[Schedule, CurrentAnswer]]:
    """Return who is on call now in the schedules that the viewer may read, by team and name.

    Each is as in the answer about one schedule, without problems; all together need a constant number of
    queries. `start` is the place of the first one, from 0.
    """
    visible = SCHEDULES.select_visible(who)
    rows = schedule_overview.list_page(visible, start, most)
    views = ScheduleView.load_all(rows, now(), now() + LOOKAHEAD)
    found = _find_all(views, now(), MAX_WORK)
    return [
        (view.row, show_on_call(view.schedule, current, users))
        for view, (current, users) in zip(views, found, strict=True)
    ]


def _find_all(
    views: Sequence[ScheduleView], at: datetime, most: int
) -> list[tuple[CurrentOnCall, dict[int, User]]]:
    """Return who is on call in each of these schedules, and the people by row number: those of all of them.

    `most` is the limit of the work for each schedule.
    """
    users = {user.id: user for view in views for user in view.users.values()}
    people = build_people_on_call(users.values(), at)
    found = [
        find_current(
            view.schedule,
            OnCallConfig(people=people, schedules={view.row.unique_id: view.schedule}),
            at,
            most,
        )
        for view in views
    ]
    users |= _load_users({row for current in found for row in current.list_rows()} - users.keys())
    return [(current, users) for current in found]


def show_on_call(schedule: ScheduleFacts, current: CurrentOnCall, users: Mapping[int, User]) -> CurrentAnswer:
    """Return the answer who is on call, without problems. `users` has the people by row number."""
    by_username = {user.username: user for user in users.values()}
    handoff: Handoff | None = None
    if current.handoff is not None:
        next_people = [users[person.row] for person in current.next_people]
        handoff = {"at": current.handoff, "oncalls": next_people}
    return {
        "schedule": schedule.unique_id,
        "name": schedule.name,
        "time_zone": schedule.time_zone,
        "warnings": list_zone_warnings(schedule.name, schedule.time_zone),
        "at": current.at,
        "until": current.until,
        "oncalls": [_show_current(held, by_username, current.recipients, users) for held in current.shifts],
        "handoff": handoff,
    }


def _show_current(
    held: FullShift,
    by_username: Mapping[str, User],
    recipients: Mapping[str, PersonFacts],
    users: Mapping[int, User],
) -> CurrentShift:
    recipient = recipients.get(held.shift.username)
    shown = _show_shift(held, by_username)
    return {**shown, "forwarded_to": users[recipient.row] if recipient else None}


def _describe(schedule: ScheduleFacts) -> dict[str, object]:
    return {
        "schedule": schedule.unique_id,
        "name": schedule.name,
        "time_zone": schedule.time_zone,
        "warnings": list_zone_warnings(schedule.name, schedule.time_zone),
    }


def _show_shift(whole: FullShift, users: Mapping[str, User]) -> ShownShift:
    shift = whole.shift
    return {
        "user": users[shift.username],
        "start": shift.start,
        "until": whole.until,
        "layer": None if shift.is_override else shift.source.unique_id,
        "override": shift.source.unique_id if shift.is_override else None,
        "name": shift.source.name,
    }


def _load_users(rows: Collection[int]) -> dict[int, User]:
    """Load users by row number. Forwarding rules may name users who are in no layer."""
    return {user.id: user for user in User.select().where(in_list(User.id, rows))} if rows else {}


def access_schedule(schedule_id: str) -> Schedule:
    """Return the schedule, joined with its team, if the viewer has the permission of the operation in it."""
    rows = schedule_overview.select_schedules(Team.account == viewer().account)
    row: Schedule = access.find(rows, Schedule.unique_id, schedule_id)
    access.require_permission(viewer(), row.team_id)
    return row


def _read_period(query: Mapping[str, str]) -> tuple[frozenset[str], datetime, datetime]:
    period = serialization.load(PERIOD_QUERY, query)
    start: datetime = period.get("start") or now()
    end: datetime = period.get("end") or start + DEFAULT_PERIOD
    if end <= start:
        reject("to", "Must be after the start.")
    if end - start > MAX_PERIOD:
        reject("to", f"Must be at most {MAX_PERIOD.days} days after the start.")
    return period.get("include", frozenset(PROBLEMS)), start, end
