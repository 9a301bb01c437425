"""The rows of the list of incidents: its changes in one statement, and what it shows of each incident."""

from collections import defaultdict
from collections.abc import Collection

import peewee

from models.store.store import store
from models.tables.accounts import Account, ConfigVersion, User
from models.tables.events import Event
from models.tables.incidents import Incident, IncidentLog, IncidentTag
from models.tables.services import Service
from models.tables.teams import Priority, Tag


def load_changes(
    found: "peewee.ModelSelect[Incident]", account: Account, start: int, most: int, max_count: int
) -> list[tuple[int, ...]]:
    """Return row number, last change and count for each incident of a part, in one statement.

    The newest incidents are first. The count stops after `max_count`.
    """
    ordered = found.order_by(Incident.creation_date.desc(), Incident.id.desc())
    last = IncidentLog.select(peewee.fn.MAX(IncidentLog.id)).where(IncidentLog.incident == Incident.id)
    first = found.clone().order_by().limit(max_count + 1).alias("counted")
    count = peewee.Select([first], [peewee.fn.COUNT(peewee.SQL("1"))])
    version = ConfigVersion.select(ConfigVersion.version).where(ConfigVersion.account == account)
    return list(ordered.select(Incident.id, last, count, version).limit(most).offset(start).tuples())


def load_rows(numbers: list[int]) -> list[tuple[Incident, list[str]]]:
    """Load the incidents with these row numbers in this order, each with the names of its tags."""
    incidents = (
        Incident.select(*_SHOWN)
        .join_from(Incident, Service, peewee.JOIN.LEFT_OUTER)
        .join_from(Incident, User, peewee.JOIN.LEFT_OUTER, on=Incident.assigned_to)
        .join_from(Incident, Priority, peewee.JOIN.LEFT_OUTER)
        .where(Incident.id.in_(numbers))
    )
    tags = IncidentTag.select(IncidentTag.incident, Tag.name).join(Tag)
    tags = tags.where(IncidentTag.incident.in_(numbers)).order_by(IncidentTag.creation_date, IncidentTag.id)
    by_incident = defaultdict(list)
    for row, name in tags.tuples():
        by_incident[row].append(name)
    by_row = {incident.id: incident for incident in incidents}
    return [(by_row[number], by_incident[number]) for number in numbers if number in by_row]


_SHOWN = (
    Incident.id, Incident.incident_number, Incident.title, Incident.status, Incident.urgency,
    Incident.creation_date, Incident.snoozed_till, Incident.parent, Service.id, Service.name,
    User.id, User.first_name, User.last_name, User.email, Priority.id, Priority.name,
)  # fmt: skip


def count_alerts(rows: Collection[int]) -> dict[int, int]:
    """Return the number of alerts of these incidents, by row number. Only an index is read."""
    counts = Event.select(Event.incident, peewee.fn.COUNT(Event.id)).where(Event.incident.in_(list(rows)))
    return dict(counts.group_by(Event.incident).tuples())


def load_levels(rows: Collection[int]) -> dict[int, int]:
    """Return the level of the alert that opened each of these incidents, by row number."""
    openers = Event.select(Event.incident, Event.alert_type)
    return dict(openers.where(Event.incident.in_(list(rows)), Event.incident_created).tuples())


def count_by_status(found: "peewee.ModelSelect[Incident]", most: int) -> dict[int, int]:
    """Return how many of the first incidents of a query have each status, in one statement."""
    first = found.select(Incident.status).limit(most).alias("counted")
    columns = [peewee.SQL("status"), peewee.fn.COUNT(peewee.SQL("1"))]
    query = peewee.Select([first], columns).group_by(columns[0])
    return dict(query.tuples().execute(store().database))
