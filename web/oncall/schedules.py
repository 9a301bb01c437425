"""Schedules with layers of on-call rotations. Contract section 3.4.

Layers are stored in the form of answers. A write replaces the whole list of layers or overrides. Items that a
client sends back unchanged stay the same.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, time
from typing import Any

from marshmallow import ValidationError, validate, validates_schema

from models.domain.enums import RestrictionType, TargetType
from models.store.ids import make_uuid
from models.tables.accounts import Account, User
from models.tables.schedules import Schedule, ScheduleOverride
from models.tables.teams import EscalationPolicy, Team
from web.http.auth import now, viewer
from web.http.fields import (
    LONG_TEXT,
    Boolean,
    Choice,
    InputMoment,
    List,
    Moment,
    Nested,
    Number,
    OptionalMoment,
    OptionalNumber,
    RawData,
    Reference,
    Schema,
    Text,
    TimeZone,
    Username,
    explain,
    format_moment,
)
from web.http.permissions import get_permissions
from web.http.resource import Resource, attach
from web.oncall.escalation_policies import sort_by_position
from web.teams.teams import get_account_members

# Seconds: an hour, a year and a week (contract 3.4).
MIN_SHIFT_S, MAX_SHIFT_S = 3600, 31_536_000
MAX_RESTRICTION_S = 604_800

# Limits for one schedule, because one request reads or writes all layers and overrides.
MAX_LAYERS = 50
MAX_OVERRIDES = 2000

# The day that answers show for a restriction without a day, such as a daily one. Published examples have it
# too.
NO_DAY = 7


class ChosenId(Text):
    """An ID that a client may choose: a UUID of version 4. Other values become "", which means no choice."""

    _V4 = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")

    def __init__(self) -> None:
        super().__init__(metadata=explain("A UUID of version 4, chosen by the client or generated."))

    def _deserialize(self, value: object, attr: str | None, data: RawData, **kwargs: object) -> str:
        chosen = value.strip().lower() if isinstance(value, str) else ""
        return chosen if self._V4.fullmatch(chosen) else ""


class TimeOfDay(Text):
    """A local time, HH:MM:SS in answers; requests may omit leading zeros and seconds."""

    _WHY = "Must be a time of day, for example 18:00:00."

    default_error_messages = {"time": _WHY}

    _PARTS = re.compile("([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2}))?")

    def __init__(self, *, required: bool = False, metadata: dict[str, str] | None = None) -> None:
        pattern = "^([01]?[0-9]|2[0-3]):[0-5]?[0-9](:[0-5]?[0-9])?$"
        super().__init__(
            validate=validate.Regexp(pattern, error=self._WHY), required=required, metadata=metadata
        )

    def _deserialize(self, value: object, attr: str | None, data: RawData, **kwargs: object) -> str:
        parts = self._PARTS.fullmatch(super()._deserialize(value, attr, data, **kwargs))
        if parts is None:
            raise self.make_error("time")
        hour, minute, second = (int(part or 0) for part in parts.groups())
        try:
            return time(hour, minute, second).isoformat()
        except ValueError:
            raise self.make_error("time") from None


class TurnSchema(Schema):
    """A turn in the rotation of a layer; a person may have more than one."""

    user = Username(
        required=True, blank=False, metadata=explain("The username of the person whose turn it is.")
    )
    position = OptionalNumber(
        min_value=0, metadata=explain("The place in the rotation, from 1; null: that in the list.")
    )
    unique_id = ChosenId()


class RestrictionSchema(Schema):
    """The time in which a layer is effective, daily or weekly."""

    duration = Number(
        min_value=1,
        max_value=MAX_RESTRICTION_S,
        required=True,
        metadata=explain("The length in seconds. It may go past midnight."),
    )
    start_day_of_week = OptionalNumber(
        min_value=0,
        max_value=7,
        metadata=explain(
            "The day of a weekly restriction, 1 (Monday) to 7 (Sunday). Ignored in a daily one."
        ),
    )
    start_time_of_day = TimeOfDay(
        required=True, metadata=explain("The start in the schedule's time zone, as `HH:MM:SS`.")
    )
    unique_id = ChosenId()


class LayerSchema(Schema):
    """A rotation: each of `users` is on call for `shift_length` seconds in turn."""

    shift_length = Number(
        min_value=MIN_SHIFT_S,
        max_value=MAX_SHIFT_S,
        required=True,
        metadata=explain("The length of a turn in seconds."),
    )
    restrictions = List(
        Nested(RestrictionSchema), metadata=explain("When the layer is in force; empty: always.")
    )
    name = Text()
    users = List(Nested(TurnSchema), metadata=explain("The people who take turns, in this order."))
    rotation_start_time = InputMoment(required=True, metadata=explain("The start of the first turn."))
    rotation_end_time = OptionalMoment(metadata=explain("There are no turns after this time; null: no end."))
    unique_id = ChosenId()
    last_edited = Moment(
        dump_only=True,
        allow_none=True,
        metadata=explain("When the content of the layer changed last; null: never."),
    )
    restriction_type = Choice(
        RestrictionType, metadata=explain("How the restrictions repeat; default: 0, which ignores them.")
    )
    is_active = Boolean(metadata=explain("false: the layer is ignored; default: true."))

    @validates_schema
    def _check_times(self, layer: dict[str, Any], **kwargs: object) -> None:
        end = layer.get("rotation_end_time")
        if end is not None and end <= layer["rotation_start_time"]:
            raise ValidationError("Must be after the start.", "rotation_end_time")
        if layer.get("restriction_type") == RestrictionType.WEEKLY:
            days = [restriction.get("start_day_of_week") for restriction in layer.get("restrictions", [])]
            if not all(days):
                raise ValidationError(
                    "Weekly restrictions need a day from 1 (Monday) to 7 (Sunday).", "restrictions"
                )


class OverrideSchema(Schema):
    """A person on call for a time instead of the people of the layers."""

    name = Text()
    user = Username(required=True, blank=False, metadata=explain("The username of the person on call."))
    start_time = InputMoment(
        required=True, metadata=explain("From this time on, only people of overrides are on call.")
    )
    end_time = InputMoment(required=True, metadata=explain("The override ends just before this time."))
    unique_id = Text(dump_only=True)

    @validates_schema
    def _check_times(self, override: dict[str, Any], **kwargs: object) -> None:
        if override["end_time"] <= override["start_time"]:
            raise ValidationError("Must be after the start.", "end_time")


class ListedOverrideSchema(OverrideSchema):
    """An override in the list of a schedule, which a client may send back unchanged."""

    unique_id = ChosenId()


class ScheduleSchema(Schema):
    name = Text(required=True)
    summary = Text(limit=LONG_TEXT)
    description = Text(limit=LONG_TEXT)
    time_zone = TimeZone(
        metadata=explain("The IANA name of the time zone of restrictions and handoffs; default: `UTC`.")
    )
    team = Reference(dump_only=True)
    layers = List(
        Nested(LayerSchema),
        max_items=MAX_LAYERS,
        metadata=explain("The rotations. The people of all layers are on call together."),
    )
    overrides = List(
        Nested(ListedOverrideSchema),
        max_items=MAX_OVERRIDES,
        metadata=explain("People who are on call for a time instead of the people of the layers."),
    )
    unique_id = Text(dump_only=True)
    connections = Number(dump_only=True, metadata=explain("How many escalation policies use the schedule."))
    shift_time_in_dst = Boolean(
        metadata=explain(
            "true (the default of a new schedule): handoffs keep their local time when clocks"
            " change for daylight saving. false: turns count in elapsed time, so handoffs move by an hour."
        )
    )


LAYER = LayerSchema()
LISTED_OVERRIDE = ListedOverrideSchema()


class Schedules(Resource[Schedule, Team]):
    """The schedules of a team.

    If a schedule that a policy uses is deleted, the step of the policy finds nobody.
    """

    model = Schedule
    noun = "schedule"
    schema = ScheduleSchema()
    parent_field = Schedule.team
    id_arg = "schedule_id"
    permissions = get_permissions("schedule")

    def fill(self, rows: list[Schedule]) -> list[Schedule]:
        connections = _count_connections(viewer().account)
        for row in rows:
            row.connections = connections[row.unique_id]
        # In the order of the request.
        people = ScheduleOverride.select(ScheduleOverride, User).join(User)
        attach(rows, "overrides", people, ScheduleOverride.schedule)
        return rows

    def check_values(self, values: dict[str, Any], parent: Team, row: Schedule | None) -> dict[str, object]:
        if "layers" in values:
            turns = (
                (f"layers.{number}.users.{place}", turn["user"])
                for number, layer in enumerate(values["layers"])
                for place, turn in enumerate(layer.get("users", []))
            )
            get_account_members(parent.account, turns)
            values["layers"] = _build_layers(values["layers"], row.layers if row else [], now())
        if "overrides" in values:
            named = [(f"overrides.{n}", override["user"]) for n, override in enumerate(values["overrides"])]
            people = get_account_members(parent.account, named)
            values["overrides"] = [{**each, "user": people[each["user"]]} for each in values["overrides"]]
        return values

    def insert(self, parent: Team, values: dict[str, Any]) -> Schedule:
        overrides = values.pop("overrides", [])
        schedule: Schedule = super().insert(parent, values)
        _replace_overrides(schedule, overrides, now())
        return schedule

    def change(self, row: Schedule, values: dict[str, Any]) -> None:
        overrides = values.pop("overrides", None)
        super().change(row, values)
        if overrides is not None:
            _replace_overrides(row, overrides, now())


def _count_connections(account: Account) -> Counter[str]:
    """Return the number of policies that name a schedule, by schedule, for all teams of the account."""
    names_schedule = EscalationPolicy.rules.cast("TEXT").contains(f'"target_type":{TargetType.SCHEDULE:d}')
    policies = EscalationPolicy.select(EscalationPolicy.rules).join(Team)
    counts: Counter[str] = Counter()
    for policy in policies.where(Team.account == account, names_schedule):
        counts.update({target["target_id"] for rule in policy.rules for target in rule["targets"]})
    return counts


class IdAllocator:
    """Allocates unique IDs for the items of a schedule: the ID that a client chose, or else a new one."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def allocate(self, new: Mapping[str, Any]) -> str:
        chosen: str = new.get("unique_id", "")
        found = make_uuid() if not chosen or chosen in self._taken else chosen
        self._taken.add(found)
        return found


def _build_layers(
    new: list[dict[str, Any]], old: list[dict[str, object]], at: datetime
) -> list[dict[str, object]]:
    """Return the layers as they are stored. A layer with unchanged content keeps its IDs and edit time."""
    ids = IdAllocator()
    before = {layer["unique_id"]: layer for layer in old}
    layers = [_build_layer(place, layer, ids) for place, layer in enumerate(new, start=1)]
    return [_mark_edited(layer, before.get(layer["unique_id"]), at) for layer in layers]


def _build_layer(place: int, new: dict[str, Any], ids: IdAllocator) -> dict[str, object]:
    turns = sort_by_position(new.get("users", []))
    dumped: dict[str, Any] = LAYER.dump(
        {
            "restriction_type": RestrictionType.NONE,
            "is_active": True,
            "rotation_end_time": None,
            "last_edited": None,
            **new,
            "name": new.get("name") or f"Layer-{place}",
            "unique_id": ids.allocate(new),
            "users": [
                {"user": turn["user"], "position": position, "unique_id": ids.allocate(turn)}
                for position, turn in enumerate(turns, start=1)
            ],
            "restrictions": [
                {
                    **each,
                    "start_day_of_week": NO_DAY if (day := each.get("start_day_of_week")) is None else day,
                    "unique_id": ids.allocate(each),
                }
                for each in new.get("restrictions", [])
            ],
        }
    )
    return dumped


def _mark_edited(
    layer: dict[str, object], before: dict[str, object] | None, at: datetime
) -> dict[str, object]:
    if before is None:
        return layer
    if _strip_ids(layer) == _strip_ids(before):
        return before
    return {**layer, "last_edited": format_moment(at)}


def _strip_ids(layer: object) -> object:
    """Return the content of a layer without IDs and without the time of its last edit."""
    if isinstance(layer, list):
        return [_strip_ids(part) for part in layer]
    if isinstance(layer, dict):
        return {
            name: _strip_ids(part) for name, part in layer.items() if name not in ("unique_id", "last_edited")
        }
    return layer


def _replace_overrides(schedule: Schedule, overrides: list[dict[str, Any]], at: datetime) -> None:
    """Replace all overrides, in this order. An override with a known ID keeps its creation date."""
    existing = ScheduleOverride.select().where(ScheduleOverride.schedule == schedule)
    since = {override.unique_id: override.creation_date for override in existing}
    chosen = {override.get("unique_id", "") for override in overrides} - since.keys()
    taken = ScheduleOverride.select(ScheduleOverride.unique_id).where(ScheduleOverride.unique_id.in_(chosen))
    ids = IdAllocator(override.unique_id for override in taken)
    rows = [
        {
            **override,
            "schedule": schedule,
            "name": override.get("name") or f"Override-{place}",
            "unique_id": (unique_id := ids.allocate(override)),
            "creation_date": since.get(unique_id, at),
        }
        for place, override in enumerate(overrides, start=1)
    ]
    ScheduleOverride.delete().where(ScheduleOverride.schedule == schedule).execute()
    if rows:
        ScheduleOverride.insert_many(rows).execute()


SCHEDULES = Schedules()
