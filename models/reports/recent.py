"""List the newest alerts and incidents of accounts, each with its trace_id, for the commands of operators.

"Reached nobody" means that no message about the incident was sent to a person of the account. Messages to
stakeholders do not count: they ask nobody to act.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import peewee

from models.domain.enums import (
    OPEN_STATUSES,
    AlertType,
    IncidentStatus,
    NotificationStatus,
    Urgency,
)
from models.domain.reasons import Reason, StoredReason, from_json
from models.reports.alert_trace import STATE_NAMES, get_state
from models.reports.trace_ids import find_trace_ids
from models.tables.accounts import Account, User, get_display_name
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident
from models.tables.notifications import Notification
from models.tables.services import Service


@dataclass(frozen=True, slots=True)
class RecentAlert:
    """An alert, or a receipt that is not processed: then it has neither an ID nor a message.

    `reason` is that of the last stage, or the error.
    """

    account: str
    accepted_at: datetime
    status: str
    trace_id: str
    unique_id: str | None
    alert_type: str | None
    message: str | None
    entity_id: str | None
    service: str | None
    incident_number: int | None
    incident_created: bool
    notified_nobody: bool
    reason: str | None


@dataclass(frozen=True, slots=True)
class RecentIncident:
    """An incident. `trace_id` is that of the alert that opened it; None: no alert of it is stored."""

    account: str
    incident_number: int
    unique_id: str
    title: str
    status: str
    urgency: str
    service: str | None
    assigned_to: str | None
    creation_date: datetime
    notified_nobody: bool
    trace_id: str | None


class _AlertRow(NamedTuple):
    """A receipt with its service, and one of its alerts with its incident, if there are any."""

    account: int
    received_at: datetime
    receipt_state: int
    receipt_error: Reason | None
    trace_id: str
    service: str | None
    unique_id: str | None
    alert_type: int | None
    message: str | None
    entity_id: str | None
    event_state: int | None
    event_error: Reason | None
    reasons: Sequence[tuple[str, StoredReason]] | None
    incident_created: bool | None
    incident_number: int | None
    was_notified: bool


def list_alerts(accounts: Collection[Account], limit: int, *, notified_nobody: bool) -> list[RecentAlert]:
    """Return the newest alerts, newest first.

    With `notified_nobody`, leave out alerts that only acknowledge or resolve: they ask nobody.
    """
    identifiers = {account.id: account.account_identifier for account in accounts}
    was_notified = _was_somebody_notified()
    query = _select_alerts(was_notified).where(Receipt.account.in_(list(identifiers))).limit(limit)
    if notified_nobody:
        query = query.where(_asks_somebody(), ~was_notified)
    rows = map(_AlertRow._make, query.tuples())
    return [_build_alert(row, identifiers[row.account]) for row in rows]


# Receipts that a search for alerts that reached nobody reads.
MAX_SEARCHED = 10_000


def list_alerts_without_notification(
    account: Account, since: datetime, limit: int, teams: peewee.ModelSelect | None
) -> list[RecentAlert]:
    """Return the newest alerts since a time that reached nobody, among the last MAX_SEARCHED receipts.

    `teams` is a query of team rows: only alerts of their services. None: all alerts of the account.
    """
    was_notified = _was_somebody_notified()
    newest = Receipt.select(Receipt.id).where(Receipt.account == account, Receipt.received_at >= since)
    searched = newest.order_by(Receipt.id.desc()).limit(MAX_SEARCHED).alias("searched")
    query = (
        _select_alerts(was_notified)
        .where(Receipt.id.in_(peewee.Select([searched], [searched.c.id])), _asks_somebody(), ~was_notified)
        .limit(limit)
    )
    if teams is not None:
        query = query.where(Service.team.in_(teams))
    return [_build_alert(_AlertRow._make(row), account.account_identifier) for row in query.tuples()]


def _asks_somebody() -> peewee.Expression:
    """Return the condition that an alert does not only acknowledge or resolve."""
    quiet = [AlertType.ACKNOWLEDGED, AlertType.RESOLVED]
    return Event.alert_type.is_null() | Event.alert_type.not_in(quiet)


def _select_alerts(was_notified: peewee.Expression) -> "peewee.ModelSelect[Receipt]":
    """Return a query of the columns of _AlertRow, in their order, newest first."""
    service = peewee.fn.COALESCE(Event.service, Receipt.service)
    of_receipt = (Receipt.account, Receipt.received_at, Receipt.state, Receipt.error, Receipt.trace_id)
    of_event = (Event.unique_id, Event.alert_type, Event.message, Event.entity_id)
    of_work = (Event.state, Event.error, Event.reasons, Event.incident_created)
    return (
        Receipt.select(*of_receipt, Service.name, *of_event, *of_work, Incident.incident_number, was_notified)
        .join(Event, peewee.JOIN.LEFT_OUTER)
        .join(Incident, peewee.JOIN.LEFT_OUTER)
        .join_from(Receipt, Service, peewee.JOIN.LEFT_OUTER, on=(Service.id == service))
        .order_by(Receipt.id.desc(), Event.position.desc(), Event.id.desc())
    )


def _build_alert(row: _AlertRow, account: str) -> RecentAlert:
    if row.event_state is None:
        state = get_state(row.receipt_state, bool(row.receipt_error))
    else:
        state = get_state(row.event_state, bool(row.event_error))
    return RecentAlert(
        account=account,
        accepted_at=row.received_at,
        status=STATE_NAMES[state],
        trace_id=row.trace_id,
        unique_id=row.unique_id,
        alert_type=None if row.alert_type is None else AlertType(row.alert_type).name.lower(),
        message=row.message,
        entity_id=row.entity_id,
        service=row.service,
        incident_number=row.incident_number,
        incident_created=bool(row.incident_created),
        notified_nobody=not row.was_notified,
        reason=_describe_last(row.event_error or row.receipt_error, row.reasons),
    )


def _describe_last(error: Reason | None, reasons: Sequence[tuple[str, StoredReason]] | None) -> str | None:
    """Return the error, or else the reason of the last stage; None: no stage has run."""
    if error:
        return str(error)
    return str(from_json(reasons[-1][1])) if reasons else None


def list_incidents(
    accounts: Collection[Account],
    limit: int,
    *,
    with_resolved: bool,
    notified_nobody: bool,
    assigned_to: int | None = None,
) -> list[RecentIncident]:
    """Return the newest open incidents, newest first; `with_resolved`: also those that are resolved.

    `assigned_to` is a user (row number): only the incidents of this person. None: all.
    """
    was_notified = _was_somebody_notified()
    shown = (*_INCIDENT, was_notified.alias("was_notified"), Account.account_identifier, Service.name, User)
    query = (
        Incident.select(*shown)
        .join(Account)
        .join_from(Incident, Service, peewee.JOIN.LEFT_OUTER)
        .join_from(Incident, User, peewee.JOIN.LEFT_OUTER, on=Incident.assigned_to)
        .where(Incident.account.in_([account.id for account in accounts]))
        .order_by(Incident.creation_date.desc(), Incident.id.desc())
        .limit(limit)
    )
    if not with_resolved:
        query = query.where(Incident.status.in_(sorted(OPEN_STATUSES)))
    if notified_nobody:
        query = query.where(~was_notified)
    if assigned_to is not None:
        query = query.where(Incident.assigned_to == assigned_to)
    incidents = list(query)
    found = find_trace_ids([incident.id for incident in incidents])
    return [
        RecentIncident(
            account=incident.account.account_identifier,
            incident_number=incident.incident_number,
            unique_id=incident.unique_id,
            title=incident.title,
            status=IncidentStatus(incident.status).name.lower(),
            urgency=Urgency(incident.urgency).name.lower(),
            service=incident.service.name if incident.service else None,
            assigned_to=get_display_name(incident.assigned_to) if incident.assigned_to else None,
            creation_date=incident.creation_date,
            notified_nobody=not incident.was_notified,
            trace_id=found.get(incident.id),
        )
        for incident in incidents
    ]


# An incident has long texts, which no list shows.
_INCIDENT = (
    Incident.id,
    Incident.account,
    Incident.incident_number,
    Incident.unique_id,
    Incident.title,
    Incident.status,
    Incident.urgency,
    Incident.service,
    Incident.assigned_to,
    Incident.creation_date,
)


def _was_somebody_notified() -> peewee.Expression:
    """Return the condition that a message about the incident, or about its parent, was sent to a person."""
    return _has_sent(Incident.id) | _has_sent(Incident.parent)


def _has_sent(incident: peewee.Field) -> peewee.Function:
    sent = Notification.select(peewee.SQL("1")).where(
        Notification.incident == incident, Notification.state == NotificationStatus.SENT
    )
    return peewee.fn.EXISTS(sent)
