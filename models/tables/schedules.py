"""Schedules and their overrides (contract section 3.4)."""

from typing import TypedDict

import peewee

from models.domain.enums import DoubleShifts, SwapState
from models.store.fields import JsonField, NumberedObject, ObjectTable, UtcField
from models.tables.accounts import User
from models.tables.teams import Team


class StoredTurn(TypedDict):
    user: str
    position: int
    unique_id: str


class StoredRestriction(TypedDict):
    duration: int
    start_day_of_week: int
    start_time_of_day: str
    unique_id: str


class StoredLayer(TypedDict):
    """A layer as in the answers of contract 3.4. `shift_length` is in seconds; times are text."""

    unique_id: str
    name: str
    users: list[StoredTurn]
    shift_length: int
    rotation_start_time: str
    rotation_end_time: str | None
    restriction_type: int
    restrictions: list[StoredRestriction]
    is_active: bool
    last_edited: str | None


class Schedule(NumberedObject):
    """A schedule. `layers` is a list of StoredLayer in order, read and replaced as a whole.

    `double_shifts` is one of DoubleShifts: how checks report people who are on call by this schedule and, at
    the same time, once more.
    """

    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    name = peewee.CharField(max_length=255)
    summary = peewee.TextField(default="")
    description = peewee.TextField(default="")
    time_zone = peewee.CharField(max_length=64, default="UTC")
    shift_time_in_dst = peewee.BooleanField(default=True)
    layers = JsonField(default=list)
    double_shifts = peewee.CharField(max_length=16, default=DoubleShifts.MINOR.value)


class ScheduleOverride(ObjectTable):
    """Only `user` is on call from `start_time` until just before `end_time`, instead of the layers."""

    schedule = peewee.ForeignKeyField(Schedule, on_delete="CASCADE", index=False)
    name = peewee.CharField(max_length=255, default="")
    user = peewee.ForeignKeyField(User, on_delete="CASCADE")
    start_time = UtcField()
    end_time = UtcField()

    class Meta:
        indexes = ((("schedule", "end_time"), False),)

    @property
    def number(self) -> int:
        """Return the number of the schedule: an override is a part of it."""
        number: int = self.schedule.number
        return number


class ShiftSwap(ObjectTable):
    """A request of `asker` to swap a shift with `partner`, who is on call in `returned_start` instead.

    The shifts are stored as they were shown: a swap is refused if the schedule no longer has them.
    """

    schedule = peewee.ForeignKeyField(Schedule, on_delete="CASCADE")
    asker = peewee.ForeignKeyField(User, on_delete="CASCADE", backref="+")
    asked_start = UtcField()
    asked_end = UtcField()
    partner = peewee.ForeignKeyField(User, on_delete="CASCADE", backref="+")
    returned_start = UtcField()
    returned_end = UtcField()
    state = peewee.SmallIntegerField(default=SwapState.ASKED)
