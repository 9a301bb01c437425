"""Shifts, gaps and conflicts of a schedule over a time or at one time (under /api/tocsin/schedules/).

All answers come from the functions that also select people to notify (schedules/oncall/oncall.py,
schedules/escalation/targets.py). They need a constant number of queries.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from flask import request
from marshmallow import fields

from models.domain.facts import OnCallConfig, ScheduleFacts, ScheduleOverview
from models.load import schedule_overview
from models.load.oncall_config import load_people
from models.load.schedules import list_usernames
from models.store.prepared import in_list
from models.tables.accounts import User, get_display_name
from models.tables.schedules import Schedule
from models.tables.teams import Team
from schedules.escalation.notifications import get_recipient
from schedules.escalation.targets import get_people_on_call
from schedules.oncall import checks, shifts
from schedules.oncall.checks import Problem
from schedules.oncall.moved_handoffs import find_moved_handoffs
from schedules.oncall.oncall import Shift
from schedules.oncall.shifts import EARLIEST, FullShift
from web.http import access, serialization
from web.http.auth import now, viewer
from web.http.errors import reject
from web.http.fields import List, Moment, Number, QueryMoment, Schema, Text, UserSchema

DAY = timedelta(days=1)
DEFAULT_PERIOD = 30 * DAY
MAX_PERIOD = 366 * DAY
MAX_SHIFTS = 10_000
# An answer for one time shows only some of the conflicts; the answer for a period lists all.
MAX_CONFLICTS = 20


class PeriodQuerySchema(Schema):
    start = QueryMoment(
        data_key="from", metadata={"description": "A date, or a time as in RFC 3339; default: now."}
    )
    end = QueryMoment(
        data_key="to", metadata={"description": "The same, up to 366 days later; default: 30 days later."}
    )


class MomentQuerySchema(Schema):
    at = QueryMoment(metadata={"description": "A date, or a time as in RFC 3339; default: now."})


class ScheduleRefSchema(Schema):
    unique_id = Text(dump_only=True)
    name = Text(dump_only=True)


class ScheduleProblemSchema(Schema):
    """A problem. `kind` is gap (nobody is on call), twice (a person is on call twice at the same time),
    not_in_team (a person with an override or turns is not in the team) or handoffs_moved (a clock change
    moves the handoffs of a layer). `what` is a sentence with times in the time zone of the schedule. The
    first of `schedules` is the requested one."""

    kind = Text(dump_only=True)
    start_time = Moment(attribute="start", dump_only=True)
    end_time = Moment(attribute="end", dump_only=True)
    user = fields.Nested(UserSchema, dump_only=True, allow_none=True)
    schedules = List(fields.Nested(ScheduleRefSchema), dump_only=True)
    what = Text(dump_only=True)


class ShiftSchema(Schema):
    """A complete shift, even if it begins before or ends after the requested time. Consecutive turns of a
    person are one shift. `end_time` is null if the shift has no end. `layer` or `override` is the unique_id
    of the layer or override of the shift, and `name` is its name."""

    user = fields.Nested(UserSchema, dump_only=True)
    start_time = Moment(attribute="start", dump_only=True)
    end_time = Moment(attribute="until", dump_only=True, allow_none=True)
    layer = Text(dump_only=True, allow_none=True)
    override = Text(dump_only=True, allow_none=True)
    name = Text(dump_only=True)


class ConflictsSchema(Schema):
    """The earliest `conflicts`, and in `conflicts_count` the number of all. The check may have missed
    conflicts that begin at `conflicts_until` or later."""

    conflicts = List(fields.Nested(ScheduleProblemSchema), dump_only=True)
    conflicts_count = Number(dump_only=True)
    conflicts_until = Moment(dump_only=True)


class ScheduleTimelineSchema(ConflictsSchema):
    """The shifts of a schedule over a time. Only the first 1,000 conflicts by time are listed. The check may
    have missed conflicts that begin at `conflicts_until` or later. `moved_handoffs` says from when until when
    the handoffs of a layer are not at the local time of its start: only if `shift_time_in_dst` is false."""

    schedule = Text(dump_only=True)
    name = Text(dump_only=True)
    time_zone = Text(dump_only=True)
    start = Moment(data_key="from", dump_only=True)
    end = Moment(data_key="to", dump_only=True)
    shifts = List(fields.Nested(ShiftSchema), dump_only=True)
    gaps = List(fields.Nested(ScheduleProblemSchema), dump_only=True)
    moved_handoffs = List(fields.Nested(ScheduleProblemSchema), dump_only=True)


class CurrentShiftSchema(ShiftSchema):
    """A present shift; `forwarded_to` is notified instead of `user`."""

    forwarded_to = fields.Nested(UserSchema, dump_only=True, allow_none=True)


class HandoffSchema(Schema):
    at = Moment(dump_only=True)
    oncalls = List(fields.Nested(UserSchema), dump_only=True)


class ScheduleOnCallSchema(ConflictsSchema):
    """Who is on call in a schedule at a time. `handoff` is the first change of people before `until`, with
    the next people. `until` is 30 days later, or earlier for a very large schedule. Only the first 20 of the
    `conflicts_count` conflicts are listed. The check may have missed conflicts that begin at
    `conflicts_until` or later."""

    at = Moment(dump_only=True)
    until = Moment(dump_only=True)
    oncalls = List(fields.Nested(CurrentShiftSchema), dump_only=True)
    handoff = fields.Nested(HandoffSchema, dump_only=True, allow_none=True)
    gaps = List(fields.Nested(ScheduleProblemSchema), dump_only=True)


PERIOD_QUERY = PeriodQuerySchema()
MOMENT_QUERY = MomentQuerySchema()
TIMELINE = ScheduleTimelineSchema()
ON_CALL = ScheduleOnCallSchema()


def get_timeline(schedule_id: str) -> dict[str, object]:
    """Show the shifts, gaps and conflicts of a schedule over a time"""
    row = _access(schedule_id)
    start, end = _read_period()
    view = _ScheduleView.of(row, start, end)
    if shifts.estimate_work([view.schedule], start, end) > shifts.MAX_WORK:
        reject("to", "The schedule is too large for this time: request less time.")
    found = view.list_shifts(start, end)
    if len(found) > MAX_SHIFTS:
        reject("to", f"There are more than {MAX_SHIFTS:,} shifts: request less time.")
    return {
        "schedule": row.unique_id,
        "name": row.name,
        "time_zone": row.time_zone,
        "start": start,
        "end": end,
        "shifts": [view.show(shift) for shift in shifts.extend_shifts(view.schedule, found, start, end)],
        "moved_handoffs": [
            view.show_problem(problem) for problem in find_moved_handoffs(view.schedule, start, end)
        ],
        **view.find_problems(found, start, end, checks.MAX_PROBLEMS),
    }


def get_on_call(schedule_id: str) -> dict[str, object]:
    """Show who is on call in a schedule at a time, until when, and who is next"""
    row = _access(schedule_id)
    at: datetime = serialization.load(MOMENT_QUERY, request.args).get("at") or now()
    view = _ScheduleView.of(row, at, at + DEFAULT_PERIOD)
    until = shifts.fit_end(view.schedule, at, at + DEFAULT_PERIOD)
    found = view.list_shifts(at, until)
    config = OnCallConfig(people=load_people(view.users.keys(), at), schedules={row.unique_id: view.schedule})
    return {
        "at": at,
        "until": until,
        "oncalls": _list_current(view, config, found, at, until),
        "handoff": _build_handoff(view, config, found, at, until),
        **view.find_problems(found, at, until, MAX_CONFLICTS),
    }


def _access(schedule_id: str) -> Schedule:
    rows = schedule_overview.select_schedules(Team.account == viewer().account)
    row: Schedule = access.find(rows, Schedule.unique_id, schedule_id)
    access.require_permission(viewer(), row.team_id)
    return row


def _read_period() -> tuple[datetime, datetime]:
    period = serialization.load(PERIOD_QUERY, request.args)
    start: datetime = period.get("start") or now()
    end: datetime = period.get("end") or start + DEFAULT_PERIOD
    if end <= start:
        reject("to", "Must be after the start.")
    if end - start > MAX_PERIOD:
        reject("to", f"Must be at most {MAX_PERIOD.days} days after the start.")
    return start, end


@dataclass(frozen=True, slots=True)
class _ScheduleView:
    """A schedule with all its overrides, and the people who may be on call in a time, by username.

    Removed users are not included.
    """

    overview: ScheduleOverview
    users: Mapping[str, User]

    @classmethod
    def of(cls, row: Schedule, start: datetime, end: datetime) -> "_ScheduleView":
        # Shifts are shown completely, so old overrides are needed: they may have split a present shift.
        (overview,) = schedule_overview.load_overviews([row], EARLIEST)
        overrides = tuple(
            each for each in overview.schedule.overrides if each.start < end and each.end > start
        )
        usernames = list_usernames(replace(overview.schedule, overrides=overrides))
        return cls(overview, schedule_overview.find_members(row.team.account_id, usernames))

    @property
    def schedule(self) -> ScheduleFacts:
        return self.overview.schedule

    def list_shifts(self, start: datetime, end: datetime) -> list[Shift]:
        return shifts.list_joined_shifts(self.schedule, start, end, self.users)

    def find_problems(
        self, found: list[Shift], start: datetime, end: datetime, max_conflicts: int
    ) -> dict[str, object]:
        """Return gaps, and at most `max_conflicts` conflicts with schedules that the viewer may read."""
        names = {username: get_display_name(user) for username, user in self.users.items()}
        related = self._find_related(found, start)
        checked_until = shifts.share_work([(other, start, end) for other in related])
        shifts_by_schedule = [(self.schedule, found)]
        shifts_by_schedule += [
            (other, shifts.list_joined_shifts(other, start, checked_to, names))
            for other, checked_to in zip(related, checked_until, strict=True)
        ]
        overlaps = checks.find_double_shifts(shifts_by_schedule, start, end, names, about=self.schedule)
        conflicts = list(islice(overlaps, checks.MAX_PROBLEMS))
        next_conflict = next(overlaps, None)
        conflicts += checks.find_outsiders(self.overview, start, end, names)
        conflicts.sort(key=lambda problem: (problem.start, problem.minor))
        return {
            "gaps": [self.show_problem(each) for each in checks.find_gaps(self.overview, found, start, end)],
            "conflicts": [self.show_problem(each) for each in conflicts[:max_conflicts]],
            "conflicts_count": len(conflicts),
            "conflicts_until": min([end, *checked_until, *([next_conflict.start] if next_conflict else [])]),
        }

    def _find_related(self, found: list[Shift], start: datetime) -> list[ScheduleFacts]:
        """Return other schedules with people of these shifts, if the viewer may read them."""
        named_schedules = schedule_overview.find_schedules_naming(
            {shift.username for shift in found}, access.select_permitted_teams(viewer()), start
        )
        return [other for other in named_schedules if other.row != self.schedule.row]

    def show_problem(self, problem: Problem) -> dict[str, object]:
        return {
            "kind": problem.kind,
            "start": problem.start,
            "end": problem.end,
            "user": self.users[problem.username] if problem.username else None,
            "schedules": problem.schedules,
            "what": problem.what,
        }

    def show(self, whole: FullShift) -> dict[str, object]:
        shift = whole.shift
        return {
            "user": self.users[shift.username],
            "start": shift.start,
            "until": whole.until,
            "layer": None if shift.is_override else shift.source.unique_id,
            "override": shift.source.unique_id if shift.is_override else None,
            "name": shift.source.name,
        }


def _list_current(
    view: _ScheduleView, config: OnCallConfig, found: list[Shift], at: datetime, until: datetime
) -> list[dict[str, object]]:
    """Return the present shifts, each with the user who is notified instead, if there is one."""
    held = shifts.list_current(view.schedule, at, found, until)
    recipients = {
        name: other.row
        for name, person in config.people.items()
        if (other := get_recipient(person, at)) is not person
    }
    users = {user.id: user for user in User.select().where(in_list(User.id, recipients.values()))}
    return [
        {
            **view.show(each),
            "forwarded_to": users.get(recipients.get(each.shift.username, 0)),
        }
        for each in held
    ]


def _build_handoff(
    view: _ScheduleView, config: OnCallConfig, found: list[Shift], at: datetime, until: datetime
) -> dict[str, object] | None:
    moment = shifts.find_handoff(found, at, until)
    if moment is None:
        return None
    next_people = get_people_on_call(view.schedule.unique_id, config, moment)
    return {"at": moment, "oncalls": [view.users[person.username] for person in next_people]}
