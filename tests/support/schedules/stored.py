"""Build layers of schedules in their stored form, with plain defaults."""

from datetime import UTC, datetime

from models.store.ids import make_uuid
from models.tables.schedules import Schedule

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


def layer(*users, start=MONDAY, shift_length=86_400, **changes):
    """Build a layer with turns of a day for these users, from midnight UTC on a Monday."""
    turns = [
        {"user": user.username, "position": place, "unique_id": make_uuid()}
        for place, user in enumerate(users, start=1)
    ]
    return {
        "shift_length": shift_length,
        "restrictions": [],
        "name": "Layer-1",
        "users": turns,
        "rotation_start_time": start.isoformat(),
        "rotation_end_time": None,
        "unique_id": make_uuid(),
        "last_edited": None,
        "restriction_type": 0,
        "is_active": True,
        **changes,
    }


def restriction(time_of_day, duration, day=7):
    return {
        "duration": duration,
        "start_day_of_week": day,
        "start_time_of_day": time_of_day,
        "unique_id": make_uuid(),
    }


def schedule(team, *layers, name="Primary", **changes):
    return Schedule.create(
        unique_id=make_uuid(), team=team, name=name, layers=list(layers), creation_date=MONDAY, **changes
    )
