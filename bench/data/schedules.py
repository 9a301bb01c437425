"""Build many schedules and policies, as facts and as rows of an instance."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from models.domain.enums import AccountRole, RestrictionType, TargetType
from models.domain.facts import LayerFacts, OverrideFacts, RestrictionFacts, ScheduleFacts
from models.people import provisioning
from models.store import bulk
from models.store.ids import make_uuid
from models.store.store import connection, store
from models.tables.accounts import Account, User
from models.tables.schedules import Schedule
from models.tables.teams import EscalationPolicy, Team

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
STARTED_AT = datetime(2025, 12, 29, 9, tzinfo=UTC)

LAYERS, USERS, OVERRIDES = 10, 50, 52


@dataclass(frozen=True, slots=True)
class Kind:
    """A schedule with ten layers and fifty users: the length of turns and the restrictions of layers."""

    name: str
    shift_length: timedelta
    restriction_type: RestrictionType = RestrictionType.NONE
    restrictions: tuple[RestrictionFacts, ...] = ()
    by_local_time: bool = False


NIGHT_HOURS = (RestrictionFacts(7, 22 * HOUR, 10 * HOUR),)
WORKDAYS = tuple(RestrictionFacts(day, 9 * HOUR, 8 * HOUR) for day in range(1, 6))

KINDS = (
    Kind("weeks", 7 * DAY),
    Kind("weeks, by local time", 7 * DAY, by_local_time=True),
    Kind("days", DAY),
    Kind("days, by local time", DAY, by_local_time=True),
    Kind("days, nights only", DAY, RestrictionType.DAILY, NIGHT_HOURS, by_local_time=True),
    Kind("weeks, workdays only", 7 * DAY, RestrictionType.WEEKLY, WORKDAYS, by_local_time=True),
)


def build_schedule(kind: Kind) -> ScheduleFacts:
    """Build a schedule with an override of eight hours per week."""
    each = USERS // LAYERS
    layers = tuple(
        LayerFacts(
            f"layer-{place}",
            f"Layer-{place}",
            tuple(f"user-{place * each + turn}" for turn in range(each)),
            kind.shift_length,
            STARTED_AT + place * HOUR,
            restriction_type=kind.restriction_type,
            restrictions=kind.restrictions,
        )
        for place in range(LAYERS)
    )
    overrides = tuple(
        OverrideFacts(f"override-{week}", "", f"user-{week % USERS}", begins, begins + 8 * HOUR)
        for week in range(OVERRIDES)
        for begins in [STARTED_AT + week * 7 * DAY]
    )
    return ScheduleFacts(1, "schedule", "Schedule", "Europe/Berlin", kind.by_local_time, layers, overrides)


def write_policies(account_id: str, count: int, schedules: int = 500, people: int = 200) -> Team:
    """Write a team with policies of three steps. Each step names a schedule and a user."""
    with connection(), store().write_transaction():
        now = store().now()
        account = Account.get(Account.account_identifier == account_id)
        owner = User.get(User.account == account)
        team = provisioning.create_team(account, "Many", owner, now)
        users = [
            provisioning.create_user(
                account, f"many-{n}@example.org", AccountRole.USER, now, first_name=f"N{n}"
            )
            for n in range(people)
        ]
        names = [user.username for user in users]
        rows = [_build_schedule_row(team, place, names, now) for place in range(schedules)]
        bulk.insert(Schedule, rows)
        ids = [row["unique_id"] for row in rows]
        bulk.insert(EscalationPolicy, [_build_policy(team, place, ids, names, now) for place in range(count)])
    return team


def _build_schedule_row(team: Team, place: int, names: list[str], now: datetime) -> dict[str, Any]:
    return {
        "unique_id": make_uuid(),
        "team": team.id,
        "name": f"Schedule {place}",
        "time_zone": "Europe/Berlin",
        "shift_time_in_dst": True,
        "layers": [_build_layer(place, half, names) for half in range(2)],
        "creation_date": now,
    }


def _build_layer(place: int, half: int, names: list[str]) -> dict[str, Any]:
    """Build a weekly layer for days or nights, with five people."""
    first = (place * 10 + half * 5) % len(names)
    hours = {"duration": 43_200, "start_day_of_week": 7, "start_time_of_day": ("08:00:00", "20:00:00")[half]}
    return {
        "shift_length": 604_800,
        "restrictions": [{**hours, "unique_id": make_uuid()}],
        "name": f"Layer-{half + 1}",
        "users": [
            {"user": name, "position": turn, "unique_id": make_uuid()}
            for turn, name in enumerate(names[first : first + 5], start=1)
        ],
        "rotation_start_time": STARTED_AT.isoformat(),
        "rotation_end_time": None,
        "unique_id": make_uuid(),
        "last_edited": None,
        "restriction_type": RestrictionType.DAILY,
        "is_active": True,
    }


def _build_policy(team: Team, place: int, ids: list[str], names: list[str], now: datetime) -> dict[str, Any]:
    steps = [
        {
            "unique_id": make_uuid(),
            "delay": step * 10,
            "position": step + 1,
            "targets": [
                {
                    "target_type": TargetType.SCHEDULE,
                    "target_id": ids[(place + step) % len(ids)],
                    "position": 0,
                },
                {
                    "target_type": TargetType.USER,
                    "target_id": names[(place + step) % len(names)],
                    "position": 1,
                },
            ],
        }
        for step in range(3)
    ]
    return {
        "unique_id": make_uuid(),
        "team": team.id,
        "name": f"Policy {place}",
        "rules": steps,
        "assignment_settings": provisioning.build_assignment_settings(),
        "creation_date": now,
    }
