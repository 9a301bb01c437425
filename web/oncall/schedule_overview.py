"""Schedules over a time, and at any moment (under /api/tocsin/schedules/): who is on call, and what is wrong.

Everything is answered by the functions that page (schedules/oncall/oncall.py,
schedules/escalation/targets.py), in a constant number of queries.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

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
from schedules.oncall import checks
from schedules.oncall import shifts as coverage
from schedules.oncall.checks import Problem
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
# Who asks for a moment wants to know that there are conflicts; a timeline tells all of them.
MAX_CONFLICTS = 20


class PeriodQuerySchema(Schema):
    start = QueryMoment(
        data_key="from", metadata={"description": "A date, or a moment as RFC 3339 has it; now unless said."}
    )
    end = QueryMoment(
        data_key="to", metadata={"description": "The same, up to 366 days later; 30 days later unless said."}
    )


class MomentQuerySchema(Schema):
    at = QueryMoment(metadata={"description": "A date, or a moment as RFC 3339 has it; now unless said."})


class ScheduleRefSchema(Schema):
    unique_id = Text(dump_only=True)
    name = Text(dump_only=True)


class ScheduleProblemSchema(Schema):
    """`kind` is gap (nobody is on call), twice (somebody is, by two schedules or twice by one) or not_in_team
    (who has an override, or takes turns, is not in the schedule's team); `what` says it in a sentence, in the
    schedule's time zone. The first of `schedules` is the one that was asked for."""

    kind = Text(dump_only=True)
    start_time = Moment(attribute="start", dump_only=True)
    end_time = Moment(attribute="end", dump_only=True)
    user = fields.Nested(UserSchema, dump_only=True, allow_none=True)
    schedules = List(fields.Nested(ScheduleRefSchema), dump_only=True)
    what = Text(dump_only=True)


class ShiftSchema(Schema):
    """Whole, whatever was asked about: turns of a person that follow one another are one shift, which begins
    where the first of them does. `end_time` is null where nothing ends it. `layer` or `override` is the
    unique_id of what puts the person on call, `name` its name."""

    user = fields.Nested(UserSchema, dump_only=True)
    start_time = Moment(attribute="start", dump_only=True)
    end_time = Moment(attribute="until", dump_only=True, allow_none=True)
    layer = Text(dump_only=True, allow_none=True)
    override = Text(dump_only=True, allow_none=True)
    name = Text(dump_only=True)


class ConflictsSchema(Schema):
    """The first `conflicts` by time, of as many as `conflicts_count` says; of those that begin at
    `conflicts_until` or later, some may not be known."""

    conflicts = List(fields.Nested(ScheduleProblemSchema), dump_only=True)
    conflicts_count = Number(dump_only=True)
    conflicts_until = Moment(dump_only=True)


class ScheduleTimelineSchema(ConflictsSchema):
    """Who is on call by a schedule over a time. The first 1,000 conflicts by time are told; of those that
    begin at `conflicts_until` or later, some may not be known."""

    schedule = Text(dump_only=True)
    name = Text(dump_only=True)
    time_zone = Text(dump_only=True)
    start = Moment(data_key="from", dump_only=True)
    end = Moment(data_key="to", dump_only=True)
    shifts = List(fields.Nested(ShiftSchema), dump_only=True)
    gaps = List(fields.Nested(ScheduleProblemSchema), dump_only=True)


class CurrentShiftSchema(ShiftSchema):
    """A shift of this moment; `forwarded_to` is told instead of `user`."""

    forwarded_to = fields.Nested(UserSchema, dump_only=True, allow_none=True)


class HandoffSchema(Schema):
    at = Moment(dump_only=True)
    oncalls = List(fields.Nested(UserSchema), dump_only=True)


class ScheduleOnCallSchema(ConflictsSchema):
    """Who is on call by a schedule at a moment. `handoff` is when others are for the first time before
    `until`, and who; `until` is 30 days later, or less where there is very much to look at. Of
    `conflicts_count` conflicts the first 20 by time are told; of those that begin at `conflicts_until` or
    later, some may not be known."""

    at = Moment(dump_only=True)
    until = Moment(dump_only=True)
    oncalls = List(fields.Nested(CurrentShiftSchema), dump_only=True)
    handoff = fields.Nested(HandoffSchema, dump_only=True, allow_none=True)
    gaps = List(fields.Nested(ScheduleProblemSchema), dump_only=True)


PERIOD_QUERY = PeriodQuerySchema()
MOMENT_QUERY = MomentQuerySchema()
TIMELINE = ScheduleTimelineSchema()
ON_CALL = ScheduleOnCallSchema()


def get_timeline(schedule_id: str) -> dict[str, Any]:
    """Tell who is on call by a schedule over a time, when nobody is, and what conflicts"""
    row = _access(schedule_id)
    start, end = _read_period()
    view = _ScheduleView.of(row, start, end)
    if coverage.estimate_work([view.schedule], start, end) > coverage.MAX_WORK:
        reject("to", "There is too much to look at: ask for less time.")
    found = view.list_shifts(start, end)
    if len(found) > MAX_SHIFTS:
        reject("to", f"There are more than {MAX_SHIFTS:,} shifts: ask for less time.")
    return {
        "schedule": row.unique_id,
        "name": row.name,
        "time_zone": row.time_zone,
        "start": start,
        "end": end,
        "shifts": [view.show(shift) for shift in coverage.extend_shifts(view.schedule, found, start, end)],
        **view.find_problems(found, start, end, checks.MAX_PROBLEMS),
    }


def get_on_call(schedule_id: str) -> dict[str, Any]:
    """Tell who is on call by a schedule at a moment, until when, and who comes next"""
    row = _access(schedule_id)
    at: datetime = serialization.load(MOMENT_QUERY, request.args).get("at") or now()
    view = _ScheduleView.of(row, at, at + DEFAULT_PERIOD)
    until = coverage.fit_end(view.schedule, at, at + DEFAULT_PERIOD)
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
    access.require(viewer(), row.team_id)
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
    """A schedule with all its overrides, and the people who may be on call by it in a time, of those who are
    in the account, by username."""

    overview: ScheduleOverview
    users: Mapping[str, User]

    @classmethod
    def of(cls, row: Schedule, start: datetime, end: datetime) -> "_ScheduleView":
        # Shifts are told whole: overrides of long ago may have cut those that still go on.
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
        return coverage.list_joined_shifts(self.schedule, start, end, self.users)

    def find_problems(
        self, found: list[Shift], start: datetime, end: datetime, max_conflicts: int
    ) -> dict[str, Any]:
        """Gaps, and so many conflicts with what the viewer may read, as far as that can be looked at."""
        names = {username: get_display_name(user) for username, user in self.users.items()}
        related = self._find_related(found, start)
        checked_until = coverage.share_work([(other, start, end) for other in related])
        shifts_by_schedule = [(self.schedule, found)]
        shifts_by_schedule += [
            (other, coverage.list_joined_shifts(other, start, checked_to, names))
            for other, checked_to in zip(related, checked_until, strict=True)
        ]
        overlaps = checks.find_double_shifts(shifts_by_schedule, start, end, names, about=self.schedule)
        conflicts = list(islice(overlaps, checks.MAX_PROBLEMS))
        next_conflict = next(overlaps, None)
        conflicts += checks.find_outsiders(self.overview, start, end, names)
        conflicts.sort(key=lambda problem: (problem.start, problem.minor))
        return {
            "gaps": [self._show_problem(each) for each in checks.find_gaps(self.overview, found, start, end)],
            "conflicts": [self._show_problem(each) for each in conflicts[:max_conflicts]],
            "conflicts_count": len(conflicts),
            "conflicts_until": min([end, *checked_until, *([next_conflict.start] if next_conflict else [])]),
        }

    def _find_related(self, found: list[Shift], start: datetime) -> list[ScheduleFacts]:
        """What else may put those on call who are by this schedule, as far as the viewer may read it."""
        named_schedules = schedule_overview.find_schedules_naming(
            {shift.username for shift in found}, access.select_permitted_teams(viewer()), start
        )
        return [other for other in named_schedules if other.row != self.schedule.row]

    def _show_problem(self, problem: Problem) -> dict[str, Any]:
        return {
            "kind": problem.kind,
            "start": problem.start,
            "end": problem.end,
            "user": self.users[problem.username] if problem.username else None,
            "schedules": problem.schedules,
            "what": problem.what,
        }

    def show(self, whole: FullShift) -> dict[str, Any]:
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
) -> list[dict[str, Any]]:
    """Those on call, each with who is told instead."""
    held = coverage.list_current(view.schedule, at, found, until)
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
) -> dict[str, Any] | None:
    moment = coverage.find_handoff(found, at, until)
    if moment is None:
        return None
    next_people = get_people_on_call(view.schedule.unique_id, config, moment)
    return {"at": moment, "oncalls": [view.users[person.username] for person in next_people]}
