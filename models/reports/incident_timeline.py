"""Build the incident timeline: log entries, notes of rules, and notifications, in order.

The alert trace (models/reports/alert_trace.py) builds the log entries and notifications.
"""

from collections.abc import Callable, Collection, Iterable

import peewee

from models.reports.alert_trace import (
    JsonDict,
    build_log_entry,
    describe_mail,
    load_notification_entries,
    load_stakeholder_mails,
)
from models.reports.trace_ids import find_trace_ids_of_alerts
from models.tables.accounts import User, get_display_name
from models.tables.incidents import Incident, IncidentLog, IncidentNote
from models.tables.notifications import Message, Notification
from models.tables.stakeholders import StakeholderMail

# An entry of the timeline: (kind, row number).
Key = tuple[int, int]

LOG, NOTE, NOTIFICATION, STAKEHOLDER = range(4)


def select_entries(incident: Incident) -> peewee.ModelCompoundSelectQuery:
    """Return a query for the timeline, oldest first; the first two columns of its tuples are a Key."""
    logs = IncidentLog.select(peewee.SQL(str(LOG)), IncidentLog.id, IncidentLog.at)
    notes = IncidentNote.select(peewee.SQL(str(NOTE)), IncidentNote.id, IncidentNote.creation_date)
    notifications = Notification.select(peewee.SQL(str(NOTIFICATION)), Notification.id, _HAPPENED_AT).join(
        Message
    )
    mails = StakeholderMail.select(
        peewee.SQL(str(STAKEHOLDER)), StakeholderMail.id, StakeholderMail.created_at
    )
    query = (
        logs.where(IncidentLog.incident == incident)
        # Notes of people are in the log already.
        .union_all(notes.where(IncidentNote.incident == incident, IncidentNote.user.is_null()))
        .union_all(mails.where(StakeholderMail.incident == incident))
        .union_all(notifications.where(Notification.incident == incident, _HAPPENED_AT.is_null(False)))
    )
    return query.order_by(peewee.SQL("3, 1, 2")).tuples()


def list_last_keys(incident: Incident, most: int) -> list[Key]:
    """Return the keys of the last entries of the timeline, the newest first."""
    ordered = select_entries(incident).order_by(peewee.SQL("3 DESC, 1 DESC, 2 DESC"))
    return [(kind, number) for kind, number, _ in ordered.limit(most)]


# The time of a notification is its first attempt or, if it was cancelled before that, its cancellation.
# It never changes afterwards, so that a notification keeps its place.
_WAS_ATTEMPTED = Notification.done_at.is_null() | (Message.first_attempt_at <= Notification.done_at)
_HAPPENED_AT = peewee.Case(None, [(_WAS_ATTEMPTED, Message.first_attempt_at)], Notification.done_at)


def load_entries(keys: Iterable[Key]) -> list[JsonDict]:
    """Load the entries of these keys in their order, in a constant number of statements."""
    requested = list(keys)
    found: dict[Key, JsonDict] = {}
    for kind, load in _LOADERS.items():
        rows = [row for entry_kind, row in requested if entry_kind == kind]
        if rows:
            found.update({(kind, row): entry for row, entry in load(rows).items()})
    return [found[key] for key in requested if key in found]


def _load_logs(rows: Collection[int]) -> dict[int, JsonDict]:
    query = IncidentLog.select(IncidentLog, User).join(User, peewee.JOIN.LEFT_OUTER)
    logs = list(query.where(IncidentLog.id.in_(rows)))
    found = find_trace_ids_of_alerts({row.alert for row in logs if row.alert})
    return {
        row.id: _build_entry(
            "log",
            {**build_log_entry(row), "trace_id": found.get(row.alert)},
            actor=_build_author(row),
        )
        for row in logs
    }


def _build_author(row: IncidentLog) -> JsonDict:
    name, username = (get_display_name(row.user), row.user.username) if row.user else (None, None)
    return {"kind": row.author_kind, "name": name, "username": username}


def _load_notes(rows: Collection[int]) -> dict[int, JsonDict]:
    return {
        row.id: _build_entry("note", {"at": row.creation_date, "what": "noted", "reason": row.note})
        for row in IncidentNote.select().where(IncidentNote.id.in_(rows))
    }


def _load_notifications(rows: Collection[int]) -> dict[int, JsonDict]:
    found = {}
    for notification, entry in load_notification_entries(Notification.id.in_(rows)):
        moments = (notification.done_at, notification.message.first_attempt_at)
        at = min(moment for moment in moments if moment is not None)
        data = {"at": at, "what": entry["state"], "reason": entry["reason"]}
        found[notification.id] = _build_entry("notification", data, notification=entry)
    return found


def _load_stakeholder_mails(rows: Collection[int]) -> dict[int, dict[str, object]]:
    return {
        mail.id: _build_entry(
            "stakeholder",
            {"at": mail.created_at, "what": "stakeholder_mail", "reason": str(describe_mail(mail))},
        )
        for mail in load_stakeholder_mails(StakeholderMail.id.in_(rows))
    }


def _build_entry(kind: str, data: JsonDict, **more: JsonDict) -> JsonDict:
    return {
        "kind": kind,
        "actor": None,
        "alert": None,
        "trace_id": None,
        "notification": None,
        **data,
        **more,
    }


_LOADERS: dict[int, Callable[[Collection[int]], dict[int, JsonDict]]] = {
    LOG: _load_logs,
    NOTE: _load_notes,
    NOTIFICATION: _load_notifications,
    STAKEHOLDER: _load_stakeholder_mails,
}
