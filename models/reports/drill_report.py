"""Report a drill: whom it notified, through which channels, and how long they took to acknowledge."""

from dataclasses import dataclass, field
from datetime import datetime

import peewee

from models.domain.enums import NotificationKind
from models.reports.acknowledgements import find_acknowledgements
from models.reports.alert_trace import load_notification_entries
from models.tables.accounts import get_display_name
from models.tables.incidents import Drill, Incident
from models.tables.notifications import Notification

# Notifications in a report; a drill has fewer, unless its policy notifies hundreds of people.
MAX_NOTIFICATIONS = 1_000


def is_drill(incident: peewee.Field) -> peewee.Expression:
    """Return the condition that a column refers to the incident of a drill."""
    return incident.in_(Drill.select(Drill.incident))


@dataclass(frozen=True, slots=True)
class DrilledPerson:
    """A person whom a drill notified. `notifications` are entries of the alert trace."""

    username: str
    person: str
    acknowledged_at: datetime | None
    seconds_to_acknowledge: float | None
    notifications: list[dict[str, object]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DrillReport:
    """What happened in a drill so far, by person. `outcome` None: the drill goes on."""

    unique_id: str
    policy: str
    incident_number: int
    creation_date: datetime
    ends_at: datetime
    done_at: datetime | None
    outcome: str | None
    people: list[DrilledPerson]


def build_drill_report(drill: Drill) -> DrillReport:
    """Return what happened in a drill so far."""
    incident: Incident = Incident.get_by_id(drill.incident_id)
    about = (Notification.incident == incident) & (Notification.kind != NotificationKind.RECOVERY)
    rows = Notification.select(Notification.id).where(about).order_by(Notification.id)
    acknowledged = find_acknowledgements([incident.id])
    people: dict[int, DrilledPerson] = {}
    for notification, entry in load_notification_entries(
        Notification.id.in_([row for (row,) in rows.limit(MAX_NOTIFICATIONS).tuples()])
    ):
        user = notification.user
        at = acknowledged.get((incident.id, user.id))
        seconds = None if at is None else round((at - incident.creation_date).total_seconds(), 3)
        person = DrilledPerson(user.username, get_display_name(user), at, seconds)
        people.setdefault(user.id, person).notifications.append(entry)
    return DrillReport(
        drill.unique_id,
        drill.policy,
        incident.incident_number,
        drill.creation_date,
        drill.ends_at,
        drill.done_at,
        None if drill.outcome is None else str(drill.outcome),
        list(people.values()),
    )
