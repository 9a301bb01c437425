"""The schedules of the strip above the list of incidents."""

import peewee

from models.tables.schedules import Schedule
from models.tables.teams import Team


def list_schedules(teams: peewee.ModelSelect, most: int) -> list[Schedule]:
    """Return the first schedules of these teams, with their teams."""
    found = Schedule.select(Schedule, Team).join(Team).where(Schedule.team.in_(teams))
    return list(found.order_by(Team.name, Schedule.name, Schedule.id).limit(most))
