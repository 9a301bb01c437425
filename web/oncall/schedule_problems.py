"""Gaps and conflicts of a schedule, in the answers that include them on request.

Conflicts need all schedules with the same people, so an account asks for them one at a time.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from marshmallow import fields

from models.domain.facts import ScheduleFacts, ScheduleOverview
from models.load import schedule_overview
from models.load.schedules import list_usernames, load_schedule_facts
from models.tables.accounts import User, get_display_name
from models.tables.schedules import Schedule
from schedules.escalation.current import MAX_WORK
from schedules.oncall import checks, shifts
from schedules.oncall.checks import Problem
from schedules.oncall.schedule_shifts import Shift
from schedules.oncall.shifts import EARLIEST
from web.http import access
from web.http.auth import viewer
from web.http.concurrency_limit import ConcurrencyLimit, start_client_check
from web.http.fields import Boolean, List, Moment, Number, Schema, Text, UserSchema, explain

# The problems that an answer can include.
CONFLICTS, GAPS = "conflicts", "gaps"
PROBLEMS = (CONFLICTS, GAPS)
# The fields of an answer that includes none.
NO_PROBLEMS: dict[str, object] = dict.fromkeys(("gaps", "conflicts", "conflicts_count", "conflicts_until"))
CONCURRENCY = ConcurrencyLimit(2, "schedule problems", "that include problems or very many shifts")


class ScheduleRefSchema(Schema):
    unique_id = Text(dump_only=True)
    name = Text(dump_only=True)


class ScheduleProblemSchema(Schema):
    """A problem of a schedule."""

    kind = Text(
        dump_only=True,
        metadata=explain(
            "`gap`, `twice` (one person on call twice), `not_in_team` or `handoffs_moved` (by a clock"
            " change)."
        ),
    )
    start_time = Moment(attribute="start", dump_only=True, metadata=explain("The start of the problem."))
    end_time = Moment(attribute="end", dump_only=True, metadata=explain("The end of the problem."))
    user = fields.Nested(
        UserSchema,
        dump_only=True,
        allow_none=True,
        metadata=explain("The person; null: the problem is not about a person."),
    )
    schedules = List(
        fields.Nested(ScheduleRefSchema),
        dump_only=True,
        metadata=explain("The schedules of the problem, the requested one first."),
    )
    what = Text(
        dump_only=True, metadata=explain("The problem as a sentence, with times in the schedule's time zone.")
    )
    minor = Boolean(dump_only=True, metadata=explain("true: the problem needs no action now."))


class IncludedProblemsSchema(Schema):
    """The problems that the request includes; all others are null."""

    gaps = List(
        fields.Nested(ScheduleProblemSchema),
        dump_only=True,
        allow_none=True,
        metadata=explain("Times in which nobody is on call; null: not requested."),
    )
    conflicts = List(
        fields.Nested(ScheduleProblemSchema),
        dump_only=True,
        allow_none=True,
        metadata=explain("The earliest conflicts; null: not requested."),
    )
    conflicts_count = Number(
        dump_only=True,
        allow_none=True,
        metadata=explain("How many conflicts there are, up to about 1,000; null: not requested."),
    )
    conflicts_until = Moment(
        dump_only=True,
        allow_none=True,
        metadata=explain("Conflicts that begin at this time or later may be missing; null: not requested."),
    )


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule with all its overrides, and the people who may be on call in a time, by username.

    Removed users are not included. The row is joined with its team.
    """

    row: Schedule
    schedule: ScheduleFacts
    users: Mapping[str, User]

    @classmethod
    def load(cls, row: Schedule, start: datetime, end: datetime) -> "ScheduleView":
        (view,) = cls.load_all([row], start, end)
        return view

    @classmethod
    def load_all(cls, rows: Sequence[Schedule], start: datetime, end: datetime) -> "list[ScheduleView]":
        """Load these schedules of one account. Each view has the people of all of them."""
        # Shifts are shown completely, so old overrides are needed: they may have split a present shift.
        found = load_schedule_facts(rows, EARLIEST)
        usernames = {
            username
            for schedule in found
            for username in list_usernames(_keep_overlapping(schedule, start, end))
        }
        members = schedule_overview.find_members(rows[0].team.account_id, usernames) if rows else {}
        return [cls(row, schedule, members) for row, schedule in zip(rows, found, strict=True)]

    def list_shifts(self, start: datetime, end: datetime) -> list[Shift]:
        return shifts.list_joined_shifts(self.schedule, start, end, self.users)

    def find_problems(
        self, included: Collection[str], found: list[Shift], start: datetime, end: datetime, most: int
    ) -> dict[str, object]:
        """Return the included problems; `found` are the shifts of [start, end). All others are None.

        At most `most` conflicts are listed, with schedules that the viewer may read.
        """
        if not included:
            return NO_PROBLEMS
        (overview,) = schedule_overview.build_overviews([self.row], [self.schedule])
        gaps = checks.find_gaps(overview, found, start, end) if GAPS in included else None
        return {
            **NO_PROBLEMS,
            "gaps": None if gaps is None else [self.show_problem(problem) for problem in gaps],
            **(self._find_conflicts(overview, found, start, end, most) if CONFLICTS in included else {}),
        }

    def _find_conflicts(
        self, overview: ScheduleOverview, found: list[Shift], start: datetime, end: datetime, most: int
    ) -> dict[str, object]:
        names = {username: get_display_name(user) for username, user in self.users.items()}
        related = self._find_related(found, start)
        checked_until = shifts.share_work([(other, start, end) for other in related])
        shifts_by_schedule = [(self.schedule, found)]
        is_gone = start_client_check()
        for other, checked_to in zip(related, checked_until, strict=True):
            if is_gone():
                # Nobody reads this answer.
                break
            joined = shifts.list_joined_shifts(other, start, checked_to, names)
            shifts_by_schedule.append((other, joined))
        overlaps = checks.find_double_shifts(shifts_by_schedule, start, end, names, about=self.schedule)
        conflicts = list(islice(overlaps, checks.MAX_PROBLEMS))
        next_conflict = next(overlaps, None)
        conflicts += checks.find_outsiders(overview, start, end, names)
        conflicts.sort(key=lambda problem: (problem.start, problem.minor))
        return {
            "conflicts": [self.show_problem(problem) for problem in conflicts[:most]],
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
            "minor": problem.minor,
        }


def _keep_overlapping(schedule: ScheduleFacts, start: datetime, end: datetime) -> ScheduleFacts:
    """Return a schedule with only its overrides that overlap a time."""
    found = tuple(each for each in schedule.overrides if each.start < end and each.end > start)
    return replace(schedule, overrides=found)


def limit_requests(included: Collection[str], work: int) -> AbstractContextManager[None]:
    """Count a request while it runs, or raise Throttled; but not one that costs as little as any other."""
    return CONCURRENCY.acquire(viewer().account) if included or work > MAX_WORK else nullcontext()
