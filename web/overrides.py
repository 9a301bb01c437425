"""Overrides of a schedule, one at a time: contract sections 2.4 and 3.4."""

from datetime import datetime
from typing import Any

from flask import g
from marshmallow import fields

from models.accounts import User
from models.oncall import schedules_of
from models.schedules import Schedule, ScheduleOverride
from models.teams import Team
from schedules.coverage import EARLIEST, overridden
from web import access, rate_limit
from web.auth import now, viewer
from web.errors import bad
from web.permissions import named
from web.resource import Resource, locked
from web.schedules import MOST_OVERRIDES, OverrideShape
from web.teams import account_member


class OverrideWithOverriddenShape(OverrideShape):
    """`overridden_details` are the spans within it in which somebody else would be on call and is not because
    of it: by username, in seconds since 1970. At most 1,000 of each override are told, the first ones."""

    overridden_details = fields.Function(lambda override: override.overridden)


class Overrides(Resource):
    """Who is on call instead of those whose turn it is."""

    model = ScheduleOverride
    noun = "schedule override"
    schema = OverrideShape()
    shown = OverrideWithOverriddenShape()
    parent_field = ScheduleOverride.schedule
    id_arg = "override_id"
    needs = named("schedule")
    # For each of the two operations (interface, section Limits).
    limits = ((1, 1.0), (20, 60.0))
    # As the schedule lists them.
    order = ("id",)

    def parent(self, **ids: str) -> Schedule:
        team: Team = super().parent(team_id=ids["team_id"])
        schedules = Schedule.select().where(Schedule.team == team)
        schedule: Schedule = access.find(schedules, Schedule.unique_id, ids["schedule_id"])
        schedule.team = team
        rate_limit.keep_to(self.limits, viewer().account, g.route.name, now())
        return schedule

    def rows(self, parent: Schedule) -> Any:
        overrides = ScheduleOverride.select(ScheduleOverride, User).join(User)
        return overrides.where(ScheduleOverride.schedule == parent)

    def index(self, **ids: str) -> list[ScheduleOverride]:
        """Each with whom it displaces, which is worked out once for the schedule that they are all of."""
        rows: list[ScheduleOverride] = super().index(**ids)
        found = _overridden(rows[0].schedule) if rows else {}
        for row in rows:
            row.overridden = found.get(row.unique_id, {})
        return rows

    def checked(self, values: dict[str, Any], parent: Schedule, row: Any) -> dict[str, Any]:
        values["user"] = account_member(viewer().account, values["user"], "user")
        return values

    def insert(self, parent: Schedule, values: dict[str, Any]) -> ScheduleOverride:
        """Under the schedule's lock: whoever replaces the whole list must see this one."""
        locked(parent)
        standing = self.rows(parent).count()
        if standing >= MOST_OVERRIDES:
            bad("overrides", f"A schedule may have {MOST_OVERRIDES} of them.")
        name = values.get("name") or f"Override-{standing + 1}"
        override: ScheduleOverride = super().insert(parent, {**values, "name": name})
        return override


def _overridden(schedule: Schedule) -> dict[str, dict[str, list[dict[str, int]]]]:
    """By override and username, as the interface tells it."""
    (facts,) = schedules_of([schedule], EARLIEST)
    return {
        unique_id: {
            username: [{"start_time": _seconds(start), "end_time": _seconds(end)} for start, end in spans]
            for username, spans in displaced.items()
        }
        for unique_id, displaced in overridden(facts).items()
    }


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())


OVERRIDES = Overrides()
