"""Count the alerts of each day, among the newest alerts of the installation.

Alerts have no index by account and time. So the newest rows are read in the order of their numbers, and their
count is limited: an account cannot make others wait, and days before the oldest row are unknown.
"""

from collections.abc import Sequence
from datetime import datetime

import peewee

from models.tables.events import Event
from models.tables.services import Service

# The rows that one question reads at most.
MAX_SEARCHED = 100_000


def count_by_day(days: Sequence[datetime], teams: peewee.ModelSelect) -> list[int | None]:
    """Return the number of alerts of the services of these teams in each day; None: not all are searched.

    `days` are the starts of the days, and the end of the last one. `teams` is a query of team rows.
    """
    newest = Event.select(peewee.fn.MAX(Event.id)).scalar() or 0
    first = Event.select(Event.creation_date).where(Event.id > newest - MAX_SEARCHED).order_by(Event.id)
    searched_since = first.limit(1).scalar() if newest > MAX_SEARCHED else None
    query = Event.select(_find_day(days, 0, len(days) - 1).alias("day"), peewee.fn.COUNT(Event.id)).where(
        Event.id > newest - MAX_SEARCHED,
        Event.creation_date >= days[0],
        Event.creation_date < days[-1],
        Event.service.in_(Service.select(Service.id).where(Service.team.in_(teams))),
    )
    found = dict(query.group_by(peewee.SQL("day")).tuples())
    return [
        found.get(place, 0) if searched_since is None or start >= searched_since else None
        for place, start in enumerate(days[:-1])
    ]


def _find_day(days: Sequence[datetime], first: int, end: int) -> peewee.Case | peewee.Value:
    """Return an expression with the place of the day of an alert, by few comparisons."""
    if end - first <= 1:
        return peewee.Value(first)
    middle = (first + end) // 2
    is_before = Event.creation_date < days[middle]
    return peewee.Case(None, [(is_before, _find_day(days, first, middle))], _find_day(days, middle, end))
