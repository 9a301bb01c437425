"""List the newest alerts and incidents of accounts, each with its trace_id, for the commands of operators.

"Reached nobody" means that no message about the incident was sent to a person of the account. Messages to
stakeholders do not count: they ask nobody to act.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import peewee

from models.domain.enums import (
    OPEN_STATUSES,
    AlertType,
    IncidentStatus,
    NotificationStatus,
    Urgency,
)
from models.domain.reasons import Reason, from_json
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


def list_alerts(accounts: Collection[Account], limit: int, *, notified_nobody: bool) -> list[RecentAlert]:
    """Return the newest alerts, newest first.

    With `notified_nobody`, leave out alerts that only acknowledge or resolve: they ask nobody.
    """
    service = peewee.fn.COALESCE(Event.service, Receipt.service)
    was_notified = _was_somebody_notified()
    identifiers = {account.id: account.account_identifier for account in accounts}
    query = (
        Receipt.select(
            Receipt.account,
            Receipt.received_at,
            Receipt.state,
            Receipt.error,
            Receipt.trace_id,
            Event.unique_id,
            Event.alert_type,
            Event.message,
            Event.entity_id,
            Service.name,
            Incident.incident_number,
            Event.incident_created,
            Event.state,
            Event.error,
            Event.reasons,
            was_notified,
        )
        .join(Event, peewee.JOIN.LEFT_OUTER)
        .join(Incident, peewee.JOIN.LEFT_OUTER)
        .join_from(Receipt, Service, peewee.JOIN.LEFT_OUTER, on=(Service.id == service))
        .where(Receipt.account.in_(list(identifiers)))
        .order_by(Receipt.id.desc(), Event.position.desc(), Event.id.desc())
        .limit(limit)
    )
    if notified_nobody:
        asks_somebody = Event.alert_type.is_null() | Event.alert_type.not_in(
            [AlertType.ACKNOWLEDGED, AlertType.RESOLVED]
        )
        query = query.where(asks_somebody, ~was_notified)
    return [
        RecentAlert(
            account=identifiers[account],
            accepted_at=at,
            status=STATE_NAMES[
                get_state(state, bool(error))
                if event_state is None
                else get_state(event_state, bool(event_error))
            ],
            trace_id=trace_id,
            unique_id=unique_id,
            alert_type=None if level is None else AlertType(level).name.lower(),
            message=message,
            entity_id=entity_id,
            service=service_name,
            incident_number=number,
            incident_created=bool(has_opened),
            notified_nobody=not is_notified,
            reason=_describe_last(event_error or error, reasons),
        )
        for (
            account,
            at,
            state,
            error,
            trace_id,
            unique_id,
            level,
            message,
            entity_id,
            service_name,
            number,
            has_opened,
            event_state,
            event_error,
            reasons,
            is_notified,
        ) in query.tuples()
    ]


def _describe_last(error: Reason | None, reasons: Sequence[tuple[str, str]] | None) -> str | None:
    """Return the error, or else the reason of the last stage; None: no stage has run."""
    if error:
        return str(error)
    return str(from_json(reasons[-1][1])) if reasons else None


def list_incidents(
    accounts: Collection[Account], limit: int, *, with_resolved: bool, notified_nobody: bool
) -> list[RecentIncident]:
    """Return the newest open incidents, newest first; `with_resolved`: also those that are resolved."""
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
