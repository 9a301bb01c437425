"""Schedules as decisions are given to know them: rows to facts, in two queries however many there are."""

from collections.abc import Collection, Iterable
from datetime import UTC, datetime, time, timedelta
from typing import Any

from models.accounts import User
from models.enums import RestrictionType
from models.facts import LayerFacts, OverrideFacts, RestrictionFacts, ScheduleFacts
from models.prepared import any_of
from models.schedules import Schedule, ScheduleOverride
from models.teams import Team

# By more than this no host's clock is wrong.
LATELY = timedelta(days=2)


def recently(at: datetime | None = None) -> datetime:
    """What had ended by then is of no meaning to what is decided about a moment and later ones; about now."""
    return (at or datetime.now(UTC)) - LATELY


def schedules_named(
    account: int, unique_ids: Collection[str], at: datetime | None = None
) -> dict[str, ScheduleFacts]:
    """Those of these schedules that the account has, by unique_id, for questions about a moment and later."""
    if not unique_ids:
        return {}
    rows = Schedule.select().join(Team).where(Team.account == account, any_of(Schedule.unique_id, unique_ids))
    return {facts.unique_id: facts for facts in schedules_of(rows, recently(at))}


def schedules_of(rows: Iterable[Schedule], since: datetime) -> list[ScheduleFacts]:
    """Facts of schedules, in their order, with the overrides that reach beyond `since`, in theirs.

    An override by somebody who left the account is none: it must not keep others from being on call.
    """
    rows = list(rows)
    overrides: dict[int, list[OverrideFacts]] = {}
    query = ScheduleOverride.select(ScheduleOverride, User.username).join(User)
    holding = query.where(
        any_of(ScheduleOverride.schedule, [row.id for row in rows]),
        ScheduleOverride.end_time > since,
        User.removed_at.is_null(),
    )
    for row in holding.order_by(ScheduleOverride.id):
        facts = OverrideFacts(row.unique_id, row.name, row.user.username, row.start_time, row.end_time)
        overrides.setdefault(row.schedule_id, []).append(facts)
    return [_schedule(row, tuple(overrides.get(row.id, ()))) for row in rows]


def usernames_of(schedule: ScheduleFacts) -> set[str]:
    """Everybody who may ever be on call by a schedule."""
    return {name for layer in schedule.layers for name in layer.usernames}.union(
        override.username for override in schedule.overrides
    )


def _schedule(row: Schedule, overrides: tuple[OverrideFacts, ...]) -> ScheduleFacts:
    layers = tuple(_layer(layer) for layer in row.layers if layer["is_active"])
    return ScheduleFacts(
        row.id, row.unique_id, row.name, row.time_zone, row.shift_time_in_dst, layers, overrides
    )


def _layer(kept: dict[str, Any]) -> LayerFacts:
    end = kept["rotation_end_time"]
    return LayerFacts(
        kept["unique_id"],
        kept["name"],
        tuple(turn["user"] for turn in kept["users"]),
        timedelta(seconds=kept["shift_length"]),
        datetime.fromisoformat(kept["rotation_start_time"]),
        datetime.fromisoformat(end) if end else None,
        RestrictionType(kept["restriction_type"]),
        tuple(_restriction(each) for each in kept["restrictions"]),
    )


def _restriction(kept: dict[str, Any]) -> RestrictionFacts:
    at = time.fromisoformat(kept["start_time_of_day"])
    since_midnight = timedelta(hours=at.hour, minutes=at.minute, seconds=at.second)
    return RestrictionFacts(kept["start_day_of_week"], since_midnight, timedelta(seconds=kept["duration"]))
