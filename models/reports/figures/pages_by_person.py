"""How often each person was paged."""

from datetime import datetime

import peewee

from models.domain.enums import NotificationStatus
from models.reports.drill_report import is_drill
from models.tables.accounts import Account, User
from models.tables.incidents import Incident
from models.tables.notifications import Notification


def list_pages(
    account: Account, teams: peewee.ModelSelect, start: datetime, most: int
) -> list[tuple[User, datetime]]:
    """Return the last notifications that were sent since this time about incidents of these teams.

    Each is its person and its time. Those of drills are left out.
    """
    rows = (
        Notification.select(Notification.user, Notification.done_at)
        .join(Incident)
        .where(
            Incident.account == account,
            Incident.team.in_(teams),
            Notification.state == NotificationStatus.SENT,
            Notification.not_before >= start,
            ~is_drill(Notification.incident),
        )
        .order_by(Notification.id.desc())
        .limit(most)
    )
    found = [(user, at) for user, at in rows.tuples() if at is not None]
    people = {user.id: user for user in User.select().where(User.id.in_({user for user, _ in found}))}
    return [(people[user], at) for user, at in found]
