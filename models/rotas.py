"""Schedules with what is around them, for looking at a whole time: rows to facts, in a few queries."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from models.accounts import User
from models.enums import TargetType
from models.facts import RotaFacts, ScheduleFacts
from models.oncall import schedules_of
from models.prepared import any_of, holding
from models.schedules import Schedule, ScheduleOverride
from models.teams import EscalationPolicy, Team, TeamMember


def rotas_of(rows: Iterable[Schedule], since: datetime) -> list[RotaFacts]:
    """Schedules, in their order, with the overrides that reach beyond `since`. The rows bring their teams."""
    rows = list(rows)
    facts = schedules_of(rows, since)
    members = _members({row.team_id for row in rows})
    used = _used({row.team.account_id for row in rows}, [row.unique_id for row in rows])
    return [
        RotaFacts(schedule, row.team.name, frozenset(members.get(row.team_id, ())), row.unique_id in used)
        for row, schedule in zip(rows, facts, strict=True)
    ]


def with_teams(condition: Any) -> Any:
    """The schedules that meet a condition, each with its team, in the order in which they were made."""
    return Schedule.select(Schedule, Team).join(Team).where(condition).order_by(Schedule.id)


def naming(usernames: Collection[str], teams: Any, since: datetime) -> list[ScheduleFacts]:
    """The schedules of these teams that name one of these people, be it by an override that reaches beyond
    `since`."""
    overrides = ScheduleOverride.select(ScheduleOverride.schedule).join(User)
    overriding = overrides.where(any_of(User.username, usernames), ScheduleOverride.end_time > since)
    named = holding(Schedule.layers, usernames) | Schedule.id.in_(overriding)
    return schedules_of(Schedule.select().where(Schedule.team.in_(teams), named).order_by(Schedule.id), since)


def present(account: int, usernames: Collection[str]) -> dict[str, User]:
    """Those of these people who are in the account, by username."""
    here = User.select().where(User.account == account, User.removed_at.is_null())
    return {user.username: user for user in here.where(any_of(User.username, usernames))}


def _members(teams: Collection[int]) -> dict[int, set[str]]:
    """Usernames of the members of these teams, by team."""
    found: dict[int, set[str]] = {}
    rows = TeamMember.select(TeamMember.team, User.username).join(User).where(any_of(TeamMember.team, teams))
    for team, username in rows.tuples():
        found.setdefault(team, set()).add(username)
    return found


def _used(accounts: Collection[int], unique_ids: Collection[str]) -> set[str]:
    """Those of these schedules that policies of their accounts name."""
    policies = EscalationPolicy.select(EscalationPolicy.rules).join(Team)
    rows = policies.where(any_of(Team.account, accounts), holding(EscalationPolicy.rules, unique_ids))
    return {
        target["target_id"]
        for policy in rows
        for rule in policy.rules
        for target in rule["targets"]
        if target["target_type"] == TargetType.SCHEDULE
    }
