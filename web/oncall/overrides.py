"""Overrides of a schedule, one at a time: contract sections 2.4 and 3.4."""

from datetime import datetime
from typing import Any

import peewee
from marshmallow import fields

from models.changes.differences import Difference, Values
from models.changes.record import CHANGED, Content
from models.load.schedules import load_schedule_facts
from models.tables.accounts import User
from models.tables.schedules import Schedule, ScheduleOverride
from models.tables.teams import Team
from schedules.oncall.shifts import EARLIEST, find_displaced
from web.http import access, recording
from web.http.auth import Viewer, viewer
from web.http.errors import reject
from web.http.fields import explain
from web.http.permissions import get_permissions
from web.http.resource import Resource
from web.http.writing import identify, raise_number
from web.oncall.schedules import LISTED_OVERRIDE, MAX_OVERRIDES, OverrideSchema
from web.teams.teams import get_account_member


class OverrideDetailsSchema(OverrideSchema):
    """An override with the people whom it displaces; only its first 1,000 spans are listed."""

    overridden_details = fields.Function(
        lambda override: override.overridden,
        metadata=explain(
            "Whom the override displaces: by username, a list of `start_time` and `end_time` in"
            " seconds since 1970."
        ),
    )


class Overrides(Resource[ScheduleOverride, Schedule]):
    """The overrides of a schedule: a person who is on call instead of the people of the layers."""

    model = ScheduleOverride
    noun = "schedule override"
    schema = OverrideSchema()
    response = OverrideDetailsSchema()
    parent_field = ScheduleOverride.schedule
    id_arg = "override_id"
    permissions = get_permissions("schedule")
    # Each of the two operations has this limit of its own (contract 1.9).
    rate_limits = ((1, 1.0), (20, 60.0))
    # The same order as in the answers of the schedule.
    order = ("id",)

    def get_parent(self, **ids: str) -> Schedule:
        team: Team = super().get_parent(team_id=ids["team_id"])
        schedules = Schedule.select().where(Schedule.team == team)
        schedule: Schedule = access.find(schedules, Schedule.unique_id, ids["schedule_id"])
        schedule.team = team
        return schedule

    def select_rows(self, parent: Schedule) -> "peewee.ModelSelect[ScheduleOverride]":
        overrides = ScheduleOverride.select(ScheduleOverride, User).join(User)
        return overrides.where(ScheduleOverride.schedule == parent)

    def list_rows(self, who: Viewer, **ids: str) -> list[ScheduleOverride]:
        """List the overrides with the people that they replace, computed once for the whole schedule."""
        rows: list[ScheduleOverride] = super().list_rows(who, **ids)
        found = _compute_overridden(rows[0].schedule) if rows else {}
        for row in rows:
            row.overridden = found.get(row.unique_id, {})
        return rows

    def check_values(
        self, values: dict[str, Any], parent: Schedule, row: ScheduleOverride | None
    ) -> dict[str, object]:
        values["user"] = get_account_member(viewer().account, values["user"], "user")
        return values

    def insert(self, parent: Schedule, values: dict[str, object]) -> ScheduleOverride:
        """Insert an override under the lock of the schedule, so that a new list also replaces this one.

        It is a part of the schedule, whose number it raises.
        """
        parent.number = raise_number(parent).number
        existing_count = self.select_rows(parent).count()
        if existing_count >= MAX_OVERRIDES:
            reject("overrides", f"A schedule may have at most {MAX_OVERRIDES:,} overrides.")
        name = values.get("name") or f"Override-{existing_count + 1}"
        override: ScheduleOverride = super().insert(parent, {**values, "name": name})
        record_override(parent, None, override, existing_count)
        return override


def record_override(
    schedule: Schedule, before: Values | None, override: ScheduleOverride, place: int = 0
) -> None:
    """Record that an override was made or changed: a change of its schedule, which has its new number."""
    change: Difference = {
        "field": "overrides",
        "element": override.unique_id,
        "place": place,
        "before": before,
        "after": describe_override(override),
    }
    recording.record_change(identify("schedule", schedule, schedule.number), Content(CHANGED, [change]))


def describe_override(override: ScheduleOverride) -> Values:
    """Return an override as the history of its schedule keeps it."""
    described: Values = LISTED_OVERRIDE.dump(override)
    return described


def _compute_overridden(schedule: Schedule) -> dict[str, dict[str, list[dict[str, int]]]]:
    """Return the replaced spans by override and username, in the form of answers."""
    (facts,) = load_schedule_facts([schedule], EARLIEST)
    return {
        unique_id: {
            username: [
                {"start_time": _to_seconds(start), "end_time": _to_seconds(end)} for start, end in spans
            ]
            for username, spans in displaced.items()
        }
        for unique_id, displaced in find_displaced(facts).items()
    }


def _to_seconds(moment: datetime) -> int:
    return int(moment.timestamp())


OVERRIDES = Overrides()
