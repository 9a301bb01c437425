"""Random incidents, and what analytics must answer about them.

The answers are counted in Python, one incident after the other, from the rows. Days are those that a clock
on the wall shows. Nothing here uses the product's SQL or its calculation of local time.
"""

import random
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from statistics import fmean
from typing import Any
from zoneinfo import ZoneInfo

from models.domain.enums import AccountRole
from models.people import provisioning
from models.store import bulk
from models.store.ids import make_short_id, make_uuid
from models.store.store import store
from models.tables.accounts import Account, User
from models.tables.incidents import Incident, IncidentTag
from models.tables.services import Service
from models.tables.teams import Priority, Sla, Tag, Team
from tests.support.world import World

PATH = "/api/v2/account/analytics/{}/"
METRICS = ("total_incidents", "total_acknowledged", "total_resolved", "mtta_seconds", "mttr_seconds")

# Zones with the days on which their clocks change, in 2026 or as named: forward and back; a zone that skips
# midnight, one that repeats the hour before midnight, one with half an hour, one without a change.
CLOCK_CHANGES = {
    "Europe/Berlin": (date(2026, 3, 29), date(2026, 10, 25)),
    "America/New_York": (date(2026, 3, 8), date(2026, 11, 1)),
    "America/Sao_Paulo": (date(2018, 11, 4), date(2018, 2, 17)),
    "Australia/Lord_Howe": (date(2026, 4, 5), date(2026, 10, 4)),
    "Asia/Kathmandu": (date(2026, 6, 15),),
    "UTC": (date(2026, 3, 29),),
}
MONTH_ENDS = (date(2026, 1, 31), date(2026, 2, 28), date(2024, 2, 29), date(2025, 12, 31), date(2026, 4, 30))


class RandomIncidents:
    """Random incidents of two accounts, most of them near midnight in one zone."""

    def __init__(self, world: World, zone: str, seed: int, count: int = 250) -> None:
        self._random = random.Random(seed)
        self.zone = ZoneInfo(zone)
        self.days = (*CLOCK_CHANGES[zone], *MONTH_ENDS)
        # The order of records is that of creation.
        at = world.service.creation_date
        common = {"creation_date": at}
        self.teams = [world.team, world.charlies_team]
        self.services = [
            provisioning.create_service(team, f"Service {number}", world.policy, world.alice, at)
            for number, team in enumerate((world.team, world.team, world.charlies_team))
        ]
        self.users = [
            world.alice,
            world.bob,
            provisioning.create_user(world.account, "dora@example.org", AccountRole.USER, at),
        ]
        self.priorities = [
            Priority.create(unique_id=make_uuid(), team=world.team, name=name, **common) for name in "AB"
        ]
        self.slas = [Sla.create(unique_id=make_uuid(), team=world.team, name=name, **common) for name in "AB"]
        self.tags = [Tag.create(unique_id=make_uuid(), team=world.team, name=name, **common) for name in "AB"]
        self.policies = [world.policy, world.charlies_team.escalationpolicy_set.get()]
        with store().write_transaction():
            User.update(time_zone=zone).where(User.account == world.account).execute()
            self._insert(world.account, count)
            self._insert_foreign(world, at)

    def _insert(self, account: Account, count: int) -> None:
        bulk.insert(Incident, [self._build_incident(account, number) for number in range(1, count + 1)])
        rows = list(Incident.select(Incident.id).where(Incident.account == account).order_by(Incident.id))
        for row in rows[1::7]:
            Incident.update(parent=rows[0].id).where(Incident.id == row.id).execute()
        for row in rows[::3]:
            # Some have both tags: each incident counts once.
            for tag in self.tags if row.id % 2 else self.tags[:1]:
                IncidentTag.create(
                    unique_id=make_uuid(),
                    incident=row,
                    team_tag=tag,
                    creation_date=datetime(2026, 1, 1, tzinfo=UTC),
                )

    def _insert_foreign(self, world: World, at: datetime) -> None:
        """Insert incidents of another account, which no answer may count."""
        mallory = {"account": world.mallory.account, "team": world.mallorys_team, "service": None}
        foreign = [
            self._build_incident(world.account, number) | mallory | {"assigned_to": world.mallory}
            for number in range(1, 20)
        ]
        for record in foreign:
            Incident.create(**record)

    def _build_incident(self, account: Account, number: int) -> dict[str, Any]:
        rng = self._random
        created = self._choose_moment()
        service = rng.choice([*self.services, None])
        team = service.team if service is not None else rng.choice(self.teams)
        status = rng.choice([1, 2, 3, 3, 3])
        acknowledged = created + self._choose_duration() if status == 2 or status * rng.random() > 1 else None
        return {
            "unique_id": make_short_id(),
            "account": account.id,
            "incident_number": number,
            "incident_key": make_short_id(),
            "service": service and service.id,
            "team": team.id,
            "title": "x",
            "status": status,
            "urgency": rng.choice([0, 1]),
            "assigned_to": rng.choice([*[user.id for user in self.users], None]),
            "escalation_policy": rng.choice(self.policies).id,
            "sla": rng.choice([*[sla.id for sla in self.slas], None]),
            "team_priority": rng.choice([*[one.id for one in self.priorities], None]),
            "creation_date": created,
            "run_started_at": created,
            "acknowledged_date": acknowledged,
            "resolved_date": (acknowledged or created) + self._choose_duration() if status == 3 else None,
        }

    def _choose_moment(self) -> datetime:
        """Return a moment on or near one of the days, in most cases within a few hours of its midnights."""
        rng = self._random
        start = datetime.combine(rng.choice(self.days), datetime.min.time(), self.zone).astimezone(UTC)
        offset = rng.choice(
            [
                timedelta(0),
                timedelta(microseconds=-1),
                timedelta(hours=rng.randrange(-3, 28)),
                timedelta(hours=rng.randrange(-3, 28), microseconds=-1),
                timedelta(seconds=rng.uniform(-100_000, 200_000)),
            ]
        )
        return start + offset

    def _choose_duration(self) -> timedelta:
        rng = self._random
        return rng.choice(
            [
                timedelta(seconds=rng.choice([0, 60, 3600])),
                timedelta(seconds=60, microseconds=rng.choice([-1, 1])),
                timedelta(seconds=rng.expovariate(1 / 5000)),
                timedelta(days=rng.randrange(300)),
            ]
        )

    def choose_question(self) -> dict[str, Any]:
        """Return a random body of a request."""
        rng = self._random
        first = rng.choice(self.days) + timedelta(days=rng.randrange(-2, 2))
        body: dict[str, Any] = {
            "from_date": first.isoformat(),
            "to_date": (first + timedelta(days=rng.choice([0, 0, 1, 2, 30, 59, 365]))).isoformat(),
        }
        choices: dict[str, Callable[[], Any]] = {
            "team_ids": lambda: self._choose_ids(self.teams),
            "service_ids": lambda: self._choose_ids(self.services),
            "user_ids": lambda: self._choose_ids(self.users, "username") + rng.choice([[], ["Unassigned"]]),
            "priority_ids": lambda: self._choose_ids(self.priorities),
            "sla_ids": lambda: self._choose_ids(self.slas),
            "escalation_policy_ids": lambda: self._choose_ids(self.policies),
            "tag_ids": lambda: self._choose_ids(self.tags),
            "urgency": lambda: rng.choice([0, 1, "0", "1", "", None]),
            "child_incident": lambda: rng.choice(["exclude", "include", "", None]),
        }
        for name in rng.sample(sorted(choices), rng.randrange(4)):
            body[name] = choices[name]()
        if rng.random() < 0.3:
            body |= {"tta": rng.choice([0, 60, 60.5, 3600]), "tta_comparator": rng.choice(["gt", "lt"])}
        if rng.random() < 0.3:
            body |= {"ttr": rng.choice([3600, 5000.25, 86_400]), "ttr_comparator": rng.choice(["gt", "lt"])}
        return body

    def _choose_ids(self, rows: list[Any], key: str = "unique_id") -> list[str]:
        return [getattr(row, key) for row in self._random.sample(rows, self._random.randrange(len(rows) + 1))]


def count_slowly(zone: ZoneInfo, viewer: User, teams: Iterable[Team], body: dict[str, Any]) -> dict[str, Any]:
    """Return the four answers to a body, by the last part of their paths, for a viewer of these teams."""
    visible = {team.id for team in teams}
    incidents = [
        row
        for row in Incident.select().order_by(Incident.id)
        if row.team_id in visible and _matches(row, body, zone)
    ]
    own = [row for row in incidents if row.assigned_to_id == viewer.id]
    stats = {}
    for start, rows in (("total_{}incidents", incidents), ("user_{}incidents", own)):
        stats[start.format("total_" if start.startswith("user") else "")] = len(rows)
        for status, word in ((1, "triggered_"), (2, "acknowledged_"), (3, "resolved_")):
            stats[start.format(word)] = sum(row.status == status for row in rows)
    return {
        "incident_stats": stats,
        "team_analytics": {
            "all_teams": _measure(incidents),
            "team_records": _group(incidents, Team, "team_id", lambda row: {"team": _name(row)}),
        },
        "service_analytics": {
            "all_services": _measure(incidents),
            "service_records": _group(
                incidents,
                Service,
                "service_id",
                lambda row: {"team": _name(row.team), "service": _name(row)},
            ),
        },
        "user_analytics": {
            "all_users": _measure(incidents),
            "user_records": _group(
                incidents,
                User,
                "assigned_to_id",
                lambda row: {
                    "user": {
                        "full_name": f"{row.first_name} {row.last_name}".strip() or row.email.split("@")[0],
                        "username": row.username,
                    }
                },
            ),
        },
    }


def _name(row: Any) -> dict[str, str]:
    return {"name": row.name, "unique_id": row.unique_id}


def _group(rows: list[Incident], table: Any, column: str, name: Callable[[Any], dict[str, Any]]) -> list[Any]:
    records = []
    for number in sorted({getattr(row, column) for row in rows} - {None}):
        members = [row for row in rows if getattr(row, column) == number]
        records.append({**name(table.get_by_id(number)), **_measure(members)})
    return records


def _measure(rows: list[Incident]) -> dict[str, float]:
    acknowledged = [row for row in rows if row.acknowledged_date is not None]
    resolved = [row for row in rows if row.resolved_date is not None]
    return {
        "total_incidents": len(rows),
        "total_acknowledged": sum(row.status > 1 for row in rows),
        "total_resolved": sum(row.status == 3 for row in rows),
        "mtta_seconds": _mean([row.acknowledged_date - row.creation_date for row in acknowledged]),
        "mttr_seconds": _mean([row.resolved_date - row.creation_date for row in resolved]),
    }


def _mean(times: list[timedelta]) -> float:
    return fmean(each.total_seconds() for each in times) if times else 0.0


def _matches(row: Incident, body: dict[str, Any], zone: ZoneInfo) -> bool:
    day = row.creation_date.astimezone(zone).date().isoformat()
    if not body["from_date"] <= day <= body["to_date"]:
        return False
    if body.get("user_ids"):
        assignee = row.assigned_to.username if row.assigned_to else "Unassigned"
        if assignee not in body["user_ids"]:
            return False
    for field, column in (
        ("team_ids", "team"),
        ("service_ids", "service"),
        ("priority_ids", "team_priority"),
        ("sla_ids", "sla"),
        ("escalation_policy_ids", "escalation_policy"),
    ):
        referred = getattr(row, column)
        if body.get(field) and (referred is None or referred.unique_id not in body[field]):
            return False
    tags = {tagged.team_tag.unique_id for tagged in row.incidenttag_set}
    if body.get("tag_ids") and not tags.intersection(body["tag_ids"]):
        return False
    if body.get("urgency") not in (None, "") and row.urgency != int(body["urgency"]):
        return False
    if body.get("child_incident") == "exclude" and row.parent_id is not None:
        return False
    return all(
        _exceeds(row, column, body.get(name), body.get(f"{name}_comparator"))
        for name, column in (("tta", "acknowledged_date"), ("ttr", "resolved_date"))
    )


def _exceeds(row: Incident, column: str, limit: float | None, comparator: str | None) -> bool:
    if limit is None:
        return True
    end = getattr(row, column)
    if end is None:
        return False
    time, limit_time = end - row.creation_date, timedelta(seconds=limit)
    return bool(time > limit_time if comparator == "gt" else time < limit_time)
