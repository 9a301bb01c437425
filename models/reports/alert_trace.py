"""Build the alert trace: why people were or were not notified, by trace_id (invariant 5, design, section 2).

The trace contains the names of contacts, never their addresses.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

import peewee

from models.domain.channels import get_channel_name
from models.domain.enums import (
    AlertType,
    IncidentStatus,
    MessageStatus,
    NotificationStatus,
    Urgency,
    WorkState,
)
from models.domain.reasons import Reason, from_json
from models.tables.accounts import User, get_display_name
from models.tables.events import Event, Receipt, list_reasons
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import Attempt, Message, Notification
from models.tables.routers import GlobalRouter
from models.tables.services import Integration, Service
from models.tables.timers import Timer
from models.tables.users import ContactMethod

JsonDict = dict[str, Any]

# Names of states in the alert status operation (contract 3.9).
STATE_NAMES = {WorkState.PENDING: "queued", WorkState.DONE: "completed", WorkState.DEAD_LETTER: "failed"}


def find_receipt(trace_id: str) -> Receipt | None:
    """Return the receipt with its integration, service and router, or None."""
    query = (
        Receipt.select(Receipt, Integration, Service, GlobalRouter)
        .join(Integration, peewee.JOIN.LEFT_OUTER)
        .switch(Receipt)
        .join(Service, peewee.JOIN.LEFT_OUTER)
        .switch(Receipt)
        .join(GlobalRouter, peewee.JOIN.LEFT_OUTER)
        .where(Receipt.trace_id == trace_id)
    )
    found: Receipt | None = query.get_or_none()
    return found


def list_events(receipt: Receipt, services: peewee.ModelSelect | None = None) -> list[Event]:
    """Return the alerts of a receipt in order, each with its incident, integration and service.

    `services` is a query of service rows; alerts that a router sent to other services are left out. None:
    all alerts.
    """
    return list(_select_events(receipt, services))


def find_first_event(receipt: Receipt, services: peewee.ModelSelect | None = None) -> Event | None:
    """Return the first alert of a receipt, for the alert status operation; None: the receipt has no alert."""
    found: Event | None = _select_events(receipt, services).first()
    return found


def _select_events(receipt: Receipt, services: peewee.ModelSelect | None) -> "peewee.ModelSelect[Event]":
    query = (
        Event.select(Event, Incident, Integration, Service)
        .join(Incident, peewee.JOIN.LEFT_OUTER)
        .switch(Event)
        .join(Integration, peewee.JOIN.LEFT_OUTER)
        .switch(Event)
        .join(Service, peewee.JOIN.LEFT_OUTER, on=Event.service)
    )
    condition = (
        (Event.receipt == receipt.id)
        if services is None
        else ((Event.receipt == receipt.id) & Event.service.in_(services))
    )
    return query.where(condition).order_by(Event.position, Event.id)


def get_status(receipt: Receipt, events: Collection[Event]) -> str:
    """Return queued, completed or failed for a receipt and its alerts.

    One failed alert makes the receipt failed. Without a failed alert, one pending alert makes it queued.
    """
    states = {_get_state(row) for row in (receipt, *events)}
    for state in (WorkState.DEAD_LETTER, WorkState.PENDING):
        if state in states:
            return STATE_NAMES[state]
    return STATE_NAMES[WorkState.DONE]


def _get_state(row: Receipt | Event) -> WorkState:
    """Return the state, but DEAD_LETTER for a dropped row. Only dropped rows are DONE with an error."""
    state = WorkState(row.state)
    return WorkState.DEAD_LETTER if state is WorkState.DONE and row.error else state


def build_trace(receipt: Receipt, services: peewee.ModelSelect | None = None) -> JsonDict:
    """Return the alert trace of a receipt: its alerts stage by stage, and their incidents with deliveries.

    `services` is a query of service rows; alerts that a router sent to other services are left out. None:
    all alerts.
    """
    events = list_events(receipt, services)
    incidents = [i for i in {e.incident_id: e.incident for e in events}.values() if i is not None]
    return {
        "trace_id": receipt.trace_id,
        "status": get_status(receipt, events),
        "received_at": receipt.received_at,
        "replayed_at": receipt.replayed_at,
        "source": receipt.source,
        "integration": _build_reference(receipt.integration),
        "service": _build_reference(receipt.service),
        "router": _build_reference(receipt.router),
        "error": _to_text(receipt.error),
        "alerts": [_build_alert(event) for event in events],
        "incidents": _build_incidents(incidents),
    }


def _build_reference(row: Integration | Service | GlobalRouter | None) -> JsonDict | None:
    return {"unique_id": row.unique_id, "name": row.name} if row else None


def _build_alert(event: Event) -> JsonDict:
    incident = event.incident
    return {
        "unique_id": event.unique_id,
        "integration": _build_reference(event.integration),
        "service": _build_reference(event.service),
        "message": event.message,
        "alert_type": AlertType(event.alert_type).name.lower(),
        "entity_id": event.entity_id,
        "suppressed": event.suppressed,
        "status": STATE_NAMES[_get_state(event)],
        "pending_stage": event.stage if event.state == WorkState.PENDING else None,
        "error": _to_text(event.error),
        "stages": [{"stage": stage, "reason": str(reason)} for stage, reason in list_reasons(event)],
        "rules": [show_rule(record) for record in event.rules],
        "incident": incident.incident_number if incident else None,
        "incident_created": event.incident_created,
    }


def _build_incidents(incidents: list[Incident]) -> list[JsonDict]:
    rows = [incident.id for incident in incidents]
    logs = _group_by_incident(
        IncidentLog.select().where(IncidentLog.incident.in_(rows)).order_by(IncidentLog.id)
    )
    timers = _group_by_incident(
        Timer.select().where(Timer.incident.in_(rows)).order_by(Timer.due_at, Timer.id)
    )
    deliveries: dict[int, list[JsonDict]] = {}
    for notification, entry in load_notification_entries(Notification.incident.in_(rows)):
        deliveries.setdefault(notification.incident_id, []).append(entry)
    return [
        {
            "incident_number": incident.incident_number,
            "unique_id": incident.unique_id,
            "title": incident.title,
            "status": IncidentStatus(incident.status).name.lower(),
            "urgency": Urgency(incident.urgency).name.lower(),
            "creation_date": incident.creation_date,
            "log": [build_log_entry(row) for row in logs.get(incident.id, ())],
            "timers": [_build_timer(row) for row in timers.get(incident.id, ())],
            "deliveries": deliveries.get(incident.id, []),
        }
        for incident in incidents
    ]


def show_rule(record: Mapping[str, object]) -> dict[str, object]:
    """Return the record of a rule in Event.rules with its notes as texts."""
    shown, actions = _show_note(record), record.get("actions")
    if isinstance(actions, list):
        return {**shown, "actions": [_show_note(action) for action in actions]}
    return shown


def _show_note(record: Mapping[str, object]) -> dict[str, object]:
    """Return a record with its note as text. In a simulation, the note is not stored: it is a reason."""
    note = record.get("note")
    if isinstance(note, str | Mapping):
        note = from_json(note)
    return {**record} if note is None else {**record, "note": str(note)}


def _to_text(reason: Reason | None) -> str | None:
    return None if reason is None else str(reason)


Row = TypeVar("Row", IncidentLog, Timer)


def _group_by_incident(query: Iterable[Row]) -> dict[int, list[Row]]:
    groups: dict[int, list[Row]] = {}
    for row in query:
        groups.setdefault(row.incident_id, []).append(row)
    return groups


def build_log_entry(row: IncidentLog) -> JsonDict:
    return {
        "at": row.at,
        "what": row.what,
        "reason": str(row.reason),
        "by": row.author_kind,
        "alert": row.alert,
    }


def _build_timer(row: Timer) -> JsonDict:
    return {"kind": row.kind, "due_at": row.due_at, "done_at": row.done_at, "outcome": _to_text(row.outcome)}


def load_notification_entries(where: peewee.Expression) -> list[tuple[Notification, JsonDict]]:
    """Load notifications in order, with their attempts, in a constant number of statements."""
    query = (
        Notification.select(Notification, User, ContactMethod, Message)
        .join(User)
        .switch(Notification)
        .join(ContactMethod, peewee.JOIN.LEFT_OUTER)
        .switch(Notification)
        .join(Message)
        .where(where)
        .order_by(Notification.id)
    )
    notifications = list(query)
    attempts = _load_attempts({notification.message_id for notification in notifications})
    return [(notification, _build_notification(notification, attempts)) for notification in notifications]


def _load_attempts(messages: Collection[int]) -> dict[int, list[JsonDict]]:
    found: dict[int, list[JsonDict]] = {}
    query = Attempt.select().where(Attempt.message.in_(list(messages))).order_by(Attempt.id)
    for row in query:
        entry = {
            "at": row.at,
            "outcome": row.outcome,
            "detail": str(row.detail),
            "milliseconds": row.milliseconds,
        }
        found.setdefault(row.message_id, []).append(entry)
    return found


def _build_notification(notification: Notification, attempts: dict[int, list[JsonDict]]) -> JsonDict:
    message = notification.message
    next_attempt_at: datetime | None = (
        message.next_attempt_at if message.state == MessageStatus.PENDING else None
    )
    own_attempts = attempts.get(notification.message_id, [])
    if notification.state == NotificationStatus.CANCELLED:
        # Later attempts carried the other notifications of the message.
        own_attempts = [attempt for attempt in own_attempts if attempt["at"] <= notification.done_at]
    return {
        "person": get_display_name(notification.user),
        "username": notification.user.username,
        "channel": get_channel_name(message.channel),
        "contact": notification.contact.name if notification.contact else "the user's own e-mail address",
        "kind": notification.kind,
        "reason": str(notification.reason),
        "not_before": notification.not_before,
        "state": NotificationStatus(notification.state).name.lower(),
        "outcome": _to_text(notification.outcome),
        "done_at": notification.done_at,
        "message_id": message.message_id,
        "next_attempt_at": next_attempt_at if notification.state == NotificationStatus.PENDING else None,
        "attempts": own_attempts,
    }
