"""Schedules over a time, and at any moment (under /api/tocsin/schedules/): who is on call, and what is wrong.

Everything is answered by the functions that page (schedules/oncall.py, schedules/targets.py), in a constant
number of queries.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from flask import request
from marshmallow import fields

from models import rotas
from models.accounts import User, display_name
from models.directories import people
from models.facts import Directory, RotaFacts, ScheduleFacts
from models.oncall import usernames_of
from models.prepared import any_of
from models.schedules import Schedule
from models.teams import Team
from schedules import coverage, problems
from schedules.coverage import EARLIEST, Whole
from schedules.notices import recipient
from schedules.oncall import Shift
from schedules.problems import Problem
from schedules.targets import people_on_call
from web import access, wire
from web.auth import now, viewer
from web.errors import bad
from web.shapes import AskedMoment, Moment, Number, Several, Shape, Text, UserShape

DAY = timedelta(days=1)
USUAL = 30 * DAY
LONGEST = 366 * DAY
MOST_SHIFTS = 10_000
# Who asks for a moment wants to know that there are conflicts; a timeline tells all of them.
MOST_AT_A_MOMENT = 20


class TimeShape(Shape):
    start = AskedMoment(
        data_key="from", metadata={"description": "A date, or a moment as RFC 3339 has it; now unless said."}
    )
    end = AskedMoment(
        data_key="to", metadata={"description": "The same, up to 366 days later; 30 days later unless said."}
    )


class AtShape(Shape):
    at = AskedMoment(metadata={"description": "A date, or a moment as RFC 3339 has it; now unless said."})


class NamedScheduleShape(Shape):
    unique_id = Text(dump_only=True)
    name = Text(dump_only=True)


class ProblemShape(Shape):
    """`kind` is gap (nobody is on call), twice (somebody is, by two schedules or twice by one) or not_in_team
    (who has an override, or takes turns, is not in the schedule's team); `what` says it in a sentence, in the
    schedule's time zone. The first of `schedules` is the one that was asked for."""

    kind = Text(dump_only=True)
    start_time = Moment(attribute="start", dump_only=True)
    end_time = Moment(attribute="end", dump_only=True)
    user = fields.Nested(UserShape, dump_only=True, allow_none=True)
    schedules = Several(fields.Nested(NamedScheduleShape), dump_only=True)
    what = Text(dump_only=True)


class ShiftShape(Shape):
    """Whole, whatever was asked about: turns of a person that follow one another are one shift, which begins
    where the first of them does. `end_time` is null where nothing ends it. `layer` or `override` is the
    unique_id of what puts the person on call, `name` its name."""

    user = fields.Nested(UserShape, dump_only=True)
    start_time = Moment(attribute="start", dump_only=True)
    end_time = Moment(attribute="until", dump_only=True, allow_none=True)
    layer = Text(dump_only=True, allow_none=True)
    override = Text(dump_only=True, allow_none=True)
    name = Text(dump_only=True)


class ConflictsShape(Shape):
    """The first `conflicts` by time, of as many as `conflicts_count` says; of those that begin at
    `conflicts_until` or later, some may not be known."""

    conflicts = Several(fields.Nested(ProblemShape), dump_only=True)
    conflicts_count = Number(dump_only=True)
    conflicts_until = Moment(dump_only=True)


class ScheduleTimelineShape(ConflictsShape):
    """Who is on call by a schedule over a time. The first 1,000 conflicts by time are told; of those that
    begin at `conflicts_until` or later, some may not be known."""

    schedule = Text(dump_only=True)
    name = Text(dump_only=True)
    time_zone = Text(dump_only=True)
    start = Moment(data_key="from", dump_only=True)
    end = Moment(data_key="to", dump_only=True)
    shifts = Several(fields.Nested(ShiftShape), dump_only=True)
    gaps = Several(fields.Nested(ProblemShape), dump_only=True)


class HeldShape(ShiftShape):
    """A shift of this moment; `forwarded_to` is told instead of `user`."""

    forwarded_to = fields.Nested(UserShape, dump_only=True, allow_none=True)


class HandoffShape(Shape):
    at = Moment(dump_only=True)
    oncalls = Several(fields.Nested(UserShape), dump_only=True)


class ScheduleOnCallShape(ConflictsShape):
    """Who is on call by a schedule at a moment. `handoff` is when others are for the first time before
    `until`, and who; `until` is 30 days later, or less where there is very much to look at. Of
    `conflicts_count` conflicts the first 20 by time are told; of those that begin at `conflicts_until` or
    later, some may not be known."""

    at = Moment(dump_only=True)
    until = Moment(dump_only=True)
    oncalls = Several(fields.Nested(HeldShape), dump_only=True)
    handoff = fields.Nested(HandoffShape, dump_only=True, allow_none=True)
    gaps = Several(fields.Nested(ProblemShape), dump_only=True)


TIME = TimeShape()
AT = AtShape()
TIMELINE = ScheduleTimelineShape()
ON_CALL = ScheduleOnCallShape()


def timeline(schedule_id: str) -> dict[str, Any]:
    """Tell who is on call by a schedule over a time, when nobody is, and what conflicts"""
    row = _access(schedule_id)
    start, end = _asked_time()
    view = _View.of(row, start, end)
    if coverage.work([view.schedule], start, end) > coverage.MOST_WORK:
        bad("to", "There is too much to look at: ask for less time.")
    found = view.shifts(start, end)
    if len(found) > MOST_SHIFTS:
        bad("to", f"There are more than {MOST_SHIFTS:,} shifts: ask for less time.")
    return {
        "schedule": row.unique_id,
        "name": row.name,
        "time_zone": row.time_zone,
        "start": start,
        "end": end,
        "shifts": [view.shown(shift) for shift in coverage.whole(view.schedule, found, start, end)],
        **view.problems(found, start, end, problems.MOST_PROBLEMS),
    }


def on_call(schedule_id: str) -> dict[str, Any]:
    """Tell who is on call by a schedule at a moment, until when, and who comes next"""
    row = _access(schedule_id)
    at: datetime = wire.load(AT, request.args).get("at") or now()
    view = _View.of(row, at, at + USUAL)
    until = coverage.fitting(view.schedule, at, at + USUAL)
    found = view.shifts(at, until)
    book = Directory(people=people(view.users.keys(), at), schedules={row.unique_id: view.schedule})
    return {
        "at": at,
        "until": until,
        "oncalls": _held(view, book, found, at, until),
        "handoff": _handoff(view, book, found, at, until),
        **view.problems(found, at, until, MOST_AT_A_MOMENT),
    }


def _access(schedule_id: str) -> Schedule:
    rows = rotas.with_teams(Team.account == viewer().account)
    row: Schedule = access.find(rows, Schedule.unique_id, schedule_id)
    access.require(viewer(), row.team_id)
    return row


def _asked_time() -> tuple[datetime, datetime]:
    asked = wire.load(TIME, request.args)
    start: datetime = asked.get("start") or now()
    end: datetime = asked.get("end") or start + USUAL
    if end <= start:
        bad("to", "Must be after the start.")
    if end - start > LONGEST:
        bad("to", f"Must be at most {LONGEST.days} days after the start.")
    return start, end


@dataclass(frozen=True, slots=True)
class _View:
    """A schedule with all its overrides, and the people who may be on call by it in a time, of those who are
    in the account, by username."""

    rota: RotaFacts
    users: Mapping[str, User]

    @classmethod
    def of(cls, row: Schedule, start: datetime, end: datetime) -> "_View":
        # Shifts are told whole: overrides of long ago may have cut those that still go on.
        (rota,) = rotas.rotas_of([row], EARLIEST)
        overrides = tuple(each for each in rota.schedule.overrides if each.start < end and each.end > start)
        named = usernames_of(replace(rota.schedule, overrides=overrides))
        return cls(rota, rotas.present(row.team.account_id, named))

    @property
    def schedule(self) -> ScheduleFacts:
        return self.rota.schedule

    def shifts(self, start: datetime, end: datetime) -> list[Shift]:
        return coverage.shifts_of(self.schedule, start, end, self.users)

    def problems(self, found: list[Shift], start: datetime, end: datetime, most: int) -> dict[str, Any]:
        """Gaps, and so many conflicts with what the viewer may read, as far as that can be looked at."""
        names = {username: display_name(user) for username, user in self.users.items()}
        others = self._others(found, start)
        ends = coverage.fairly([(other, start, end) for other in others])
        spread = [(self.schedule, found)]
        spread += [
            (other, coverage.shifts_of(other, start, looked, names))
            for other, looked in zip(others, ends, strict=True)
        ]
        overlaps = problems.twice(spread, start, end, names, about=self.schedule)
        known = list(islice(overlaps, problems.MOST_PROBLEMS))
        more = next(overlaps, None)
        known += problems.strangers(self.rota, start, end, names)
        known.sort(key=lambda problem: (problem.start, problem.minor))
        return {
            "gaps": [self._problem(each) for each in problems.gaps(self.rota, found, start, end)],
            "conflicts": [self._problem(each) for each in known[:most]],
            "conflicts_count": len(known),
            "conflicts_until": min([end, *ends, *([more.start] if more else [])]),
        }

    def _others(self, found: list[Shift], start: datetime) -> list[ScheduleFacts]:
        """What else may put those on call who are by this schedule, as far as the viewer may read it."""
        near = rotas.naming({shift.username for shift in found}, access.permitted_teams(viewer()), start)
        return [other for other in near if other.row != self.schedule.row]

    def _problem(self, problem: Problem) -> dict[str, Any]:
        return {
            "kind": problem.kind,
            "start": problem.start,
            "end": problem.end,
            "user": self.users[problem.username] if problem.username else None,
            "schedules": problem.schedules,
            "what": problem.what,
        }

    def shown(self, whole: Whole) -> dict[str, Any]:
        shift = whole.shift
        return {
            "user": self.users[shift.username],
            "start": shift.start,
            "until": whole.until,
            "layer": None if shift.is_override else shift.source.unique_id,
            "override": shift.source.unique_id if shift.is_override else None,
            "name": shift.source.name,
        }


def _held(
    view: _View, book: Directory, found: list[Shift], at: datetime, until: datetime
) -> list[dict[str, Any]]:
    """Those on call, each with who is told instead."""
    held = coverage.held(view.schedule, at, found, until)
    told = {
        name: other.row
        for name, person in book.people.items()
        if (other := recipient(person, at)) is not person
    }
    users = {user.id: user for user in User.select().where(any_of(User.id, told.values()))}
    return [
        {
            **view.shown(each),
            "forwarded_to": users.get(told.get(each.shift.username, 0)),
        }
        for each in held
    ]


def _handoff(
    view: _View, book: Directory, found: list[Shift], at: datetime, until: datetime
) -> dict[str, Any] | None:
    moment = coverage.handoff(found, at, until)
    if moment is None:
        return None
    coming = people_on_call(view.schedule.unique_id, book, moment)
    return {"at": moment, "oncalls": [view.users[person.username] for person in coming]}
