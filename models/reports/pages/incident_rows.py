"""The rows about one incident that its page, the page of a link and the postmortem show."""

from collections.abc import Collection, Iterable
from datetime import datetime

import peewee

from models.store.fields import Table
from models.store.store import store
from models.tables.accounts import Account, CustomRole, User
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident, IncidentLog, IncidentNote, IncidentResponder, IncidentTask
from models.tables.notifications import Notification
from models.tables.services import Service


def find_last_change(row: Incident) -> tuple[str, ...]:
    """Return what changes when somebody or something changes the incident, in one statement."""

    def last(table: type[Table], column: object) -> peewee.Select:
        return table.select(column).where(table.incident == row.id)

    done = Notification.state * 1
    found: tuple[object, ...] = (
        peewee.Select(
            columns=[
                last(IncidentLog, peewee.fn.MAX(IncidentLog.id)),
                last(Notification, peewee.fn.MAX(Notification.id)),
                last(Notification, peewee.fn.SUM(done)),
                last(IncidentResponder, peewee.fn.SUM(IncidentResponder.response_status)),
                last(IncidentTask, peewee.fn.SUM(IncidentTask.status + 1)),
            ]
        )
        .tuples()
        .execute(store().database)[0]
    )
    return tuple(str(value) for value in found)


def list_children(row: Incident, teams: peewee.ModelSelect, most: int) -> list[Incident]:
    """Return number and title of the incidents of these teams that are merged into this one."""
    return list(_select_related(teams).where(Incident.parent == row).order_by(Incident.id).limit(most))


def find_parent(row: Incident, teams: peewee.ModelSelect) -> Incident | None:
    """Return number and title of the incident into which this one is merged, if it is one of these teams."""
    if row.parent_id is None:
        return None
    found: Incident | None = _select_related(teams).where(Incident.id == row.parent_id).first()
    return found


def _select_related(teams: peewee.ModelSelect) -> "peewee.ModelSelect[Incident]":
    return Incident.select(Incident.incident_number, Incident.title).where(Incident.team.in_(teams))


def list_alerts(incident: Incident, most: int) -> list[Event]:
    """Return the last alerts of an incident with their receipts, the newest first."""
    query = Event.select(Event, Receipt.trace_id).join(Receipt).where(Event.incident == incident)
    return list(query.order_by(Event.id.desc()).limit(most))


def list_notes(incident: Incident, most: int) -> list[IncidentNote]:
    """Return the last notes on an incident with their authors, the newest first."""
    query = IncidentNote.select(IncidentNote, User).join(User, peewee.JOIN.LEFT_OUTER)
    return list(query.where(IncidentNote.incident == incident).order_by(IncidentNote.id.desc()).limit(most))


def load_note_texts(incident: Incident, times: Collection[object]) -> dict[tuple[str, datetime], str]:
    """Return the notes that people wrote at these times, by author (username) and time."""
    if not times:
        return {}
    query = (
        IncidentNote.select(IncidentNote, User)
        .join(User)
        .where(IncidentNote.incident == incident, IncidentNote.creation_date.in_(list(times)))
    )
    found: Iterable[IncidentNote] = query
    return {(note.user.username, note.creation_date): note.note for note in found if note.user is not None}


def list_log(incident: Incident, most: int) -> list[IncidentLog]:
    """Return the last entries of the log of an incident, the newest first."""
    query = IncidentLog.select().where(IncidentLog.incident == incident)
    return list(query.order_by(IncidentLog.id.desc()).limit(most))


def select_last_notifications(incident: Incident, most: int) -> peewee.Expression:
    """Return a condition for the last notifications of an incident."""
    last = Notification.select(Notification.id).where(Notification.incident == incident)
    return Notification.id.in_([row.id for row in last.order_by(Notification.id.desc()).limit(most)])


def find_notification(notification: int, incident: int, user: int) -> Notification | None:
    """Return a notification (row numbers) with its incident, service, account and person, if they match."""
    query = (
        Notification.select(Notification, Incident, User, Service, Account, CustomRole)
        .join(Incident)
        .join(Account)
        .switch(Incident)
        .join(Service, peewee.JOIN.LEFT_OUTER)
        .switch(Notification)
        .join(User)
        .join(CustomRole, peewee.JOIN.LEFT_OUTER)
        .where(Notification.id == notification, Notification.incident == incident, Notification.user == user)
    )
    found: Notification | None = query.first()
    return found


def find_person(row: int | None) -> User | None:
    """Return a person by row number; None: there is none."""
    found: User | None = User.get_or_none(User.id == row)
    return found
