"""Load schedules as facts, in two queries for any number of schedules."""

from collections.abc import Collection, Iterable
from datetime import UTC, datetime, time, timedelta

from models.domain.enums import DoubleShifts, RestrictionType
from models.domain.facts import LayerFacts, OverrideFacts, RestrictionFacts, ScheduleFacts
from models.load.time_zones import report_unknown_zone
from models.store.prepared import Prepared, bind, in_bound
from models.tables.accounts import User
from models.tables.schedules import Schedule, ScheduleOverride, StoredLayer, StoredRestriction
from models.tables.teams import Team

# Longer than the difference between the clocks of any two hosts.
LOOKBACK = timedelta(days=2)
_DOUBLE_SHIFTS = {choice.value: choice for choice in DoubleShifts}


def get_lookback_start(at: datetime | None = None) -> datetime:
    """Return the time before which ended objects do not matter for decisions at `at` (None: now) or later."""
    return (at or datetime.now(UTC)) - LOOKBACK


_SCHEDULES = Prepared(
    lambda: (
        Schedule.select()
        .join(Team)
        .where(Team.account == bind("account"), in_bound(Schedule.unique_id, "unique_ids"))
    )
)


def load_schedule_rows(account: int, unique_ids: Collection[str]) -> list[Schedule]:
    """Load the rows of the account's schedules with these unique_ids."""
    return _SCHEDULES.load(Schedule, account=account, unique_ids=unique_ids) if unique_ids else []


def load_schedules(
    account: int, unique_ids: Collection[str], at: datetime | None = None
) -> dict[str, ScheduleFacts]:
    """Load the account's schedules with these unique_ids, for decisions at `at` (None: now) and later."""
    rows = load_schedule_rows(account, unique_ids)
    return {facts.unique_id: facts for facts in load_schedule_facts(rows, get_lookback_start(at))}


_OVERRIDES = Prepared(
    lambda: (
        ScheduleOverride.select(
            ScheduleOverride.schedule,
            ScheduleOverride.unique_id,
            ScheduleOverride.name,
            User.username,
            ScheduleOverride.start_time,
            ScheduleOverride.end_time,
        )
        .join(User)
        .where(
            in_bound(ScheduleOverride.schedule, "schedules"),
            ScheduleOverride.end_time > bind("since"),
            User.removed_at.is_null(),
        )
        .order_by(ScheduleOverride.id)
    )
)


def load_schedule_facts(rows: Iterable[Schedule], since: datetime) -> list[ScheduleFacts]:
    """Build the facts of schedules in their order, with the overrides that end after `since`.

    Overrides of removed users are left out: the people of the layers must be on call instead.
    """
    rows = list(rows)
    if not rows:
        return []
    overrides: dict[int, list[OverrideFacts]] = {}
    for schedule, *override in _OVERRIDES.rows(schedules=[row.id for row in rows], since=since):
        overrides.setdefault(schedule, []).append(OverrideFacts(*override))
    return [_build_schedule(row, tuple(overrides.get(row.id, ()))) for row in rows]


def list_usernames(schedule: ScheduleFacts) -> set[str]:
    """Return all usernames in the layers and overrides of a schedule."""
    return {name for layer in schedule.layers for name in layer.usernames}.union(
        override.username for override in schedule.overrides
    )


def _build_schedule(row: Schedule, overrides: tuple[OverrideFacts, ...]) -> ScheduleFacts:
    report_unknown_zone("schedule", row.unique_id, row.time_zone)
    layers = tuple(_build_layer(layer) for layer in row.layers if layer["is_active"])
    return ScheduleFacts(
        row.id,
        row.unique_id,
        row.name,
        row.time_zone,
        row.shift_time_in_dst,
        layers,
        overrides,
        # A later version may write other values: a schedule must page somebody in any case.
        _DOUBLE_SHIFTS.get(row.double_shifts, DoubleShifts.MINOR),
    )


def _build_layer(stored: StoredLayer) -> LayerFacts:
    end = stored["rotation_end_time"]
    return LayerFacts(
        stored["unique_id"],
        stored["name"],
        tuple(turn["user"] for turn in stored["users"]),
        timedelta(seconds=stored["shift_length"]),
        datetime.fromisoformat(stored["rotation_start_time"]),
        datetime.fromisoformat(end) if end else None,
        RestrictionType(stored["restriction_type"]),
        tuple(_build_restriction(each) for each in stored["restrictions"]),
    )


def _build_restriction(stored: StoredRestriction) -> RestrictionFacts:
    at = time.fromisoformat(stored["start_time_of_day"])
    since_midnight = timedelta(hours=at.hour, minutes=at.minute, seconds=at.second)
    return RestrictionFacts(
        stored["start_day_of_week"], since_midnight, timedelta(seconds=stored["duration"])
    )
