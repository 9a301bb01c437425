"""Load schedules with their teams for the schedule overview, in a few queries."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

import peewee

from models.domain.enums import TargetType
from models.domain.facts import ScheduleFacts, ScheduleOverview
from models.load.schedules import load_schedule_facts
from models.store.prepared import contains_any, in_list
from models.tables.accounts import User
from models.tables.schedules import Schedule, ScheduleOverride
from models.tables.teams import EscalationPolicy, Team, TeamMember


def load_overviews(rows: Iterable[Schedule], since: datetime) -> list[ScheduleOverview]:
    """Load overviews of these schedules in their order, with the overrides that end after `since`.

    The rows must be joined with their teams.
    """
    rows = list(rows)
    return build_overviews(rows, load_schedule_facts(rows, since))


def build_overviews(rows: Sequence[Schedule], facts: Sequence[ScheduleFacts]) -> list[ScheduleOverview]:
    """Build overviews of these schedules, which are joined with their teams, from their facts."""
    members = _load_usernames({row.team_id for row in rows})
    used = _find_used({row.team.account_id for row in rows}, [row.unique_id for row in rows])
    return [
        ScheduleOverview(
            schedule, row.team.name, frozenset(members.get(row.team_id, ())), row.unique_id in used
        )
        for row, schedule in zip(rows, facts, strict=True)
    ]


def select_schedules(condition: peewee.Expression) -> "peewee.ModelSelect[Schedule]":
    """Return a query for the schedules that match a condition, joined with their teams, oldest first."""
    return Schedule.select(Schedule, Team).join(Team).where(condition).order_by(Schedule.id)


def list_page(rows: "peewee.ModelSelect[Schedule]", start: int, most: int) -> list[Schedule]:
    """Load a part of these schedules, joined with their teams, by team and name."""
    joined = Schedule.select(Schedule, Team).join(Team).where(Schedule.id.in_(rows.select(Schedule.id)))
    return list(joined.order_by(Team.name, Schedule.name, Schedule.id).limit(most).offset(start))


def find_schedules_naming(
    usernames: Collection[str], teams: peewee.ModelSelect, since: datetime
) -> list[ScheduleFacts]:
    """Load the schedules of these teams that name one of these people in a layer or an override.

    Only overrides that end after `since` count.
    """
    overrides = ScheduleOverride.select(ScheduleOverride.schedule).join(User)
    overriding = overrides.where(in_list(User.username, usernames), ScheduleOverride.end_time > since)
    named = contains_any(Schedule.layers, usernames) | Schedule.id.in_(overriding)
    return load_schedule_facts(
        Schedule.select().where(Schedule.team.in_(teams), named).order_by(Schedule.id), since
    )


def find_members(account: int, usernames: Collection[str]) -> dict[str, User]:
    """Load the users of the account among these usernames, by username; removed users are left out."""
    members = User.select().where(User.account == account, User.removed_at.is_null())
    return {user.username: user for user in members.where(in_list(User.username, usernames))}


def _load_usernames(teams: Collection[int]) -> dict[int, set[str]]:
    """Load the usernames of the members by team row."""
    found: dict[int, set[str]] = {}
    rows = TeamMember.select(TeamMember.team, User.username).join(User).where(in_list(TeamMember.team, teams))
    for team, username in rows.tuples():
        found.setdefault(team, set()).add(username)
    return found


def _find_used(accounts: Collection[int], unique_ids: Collection[str]) -> set[str]:
    """Return the schedules among these unique_ids that an escalation policy of the accounts names."""
    policies = EscalationPolicy.select(EscalationPolicy.rules).join(Team)
    rows = policies.where(in_list(Team.account, accounts), contains_any(EscalationPolicy.rules, unique_ids))
    return {
        target["target_id"]
        for policy in rows
        for rule in policy.rules
        for target in rule["targets"]
        if target["target_type"] == TargetType.SCHEDULE
    }
