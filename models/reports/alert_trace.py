"""Build the alert trace: why people were or were not notified, by trace_id (invariant 5, design, section 2).

The trace contains the names of contacts, never their addresses.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, TypeVar

import peewee

from models.changes.between import ChangesBetween, Readable, find_changes
from models.changes.sentences import write_sentence
from models.domain.channels import DELIVERY_CHANNELS, get_channel_name
from models.domain.enums import (
    AlertType,
    IncidentStatus,
    MessageKind,
    MessageStatus,
    NotificationStatus,
    ProviderState,
    Urgency,
    WorkState,
)
from models.domain.reasons import Reason, format_duration, from_json, make_reason, write_clause
from models.reports.acknowledgements import find_acknowledgements
from models.store.fields import Table
from models.store.peewee_internals import list_fields
from models.tables.accounts import User, get_display_name
from models.tables.events import Event, Receipt, ReceiptProgress, list_reasons
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import Attempt, Message, Notification
from models.tables.routers import GlobalRouter
from models.tables.services import DeletedIntegration, Integration, Service
from models.tables.stakeholders import StakeholderMail
from models.tables.timers import Timer
from models.tables.users import ContactMethod

JsonDict = dict[str, Any]

# Names of states in the alert status operation (contract 3.9).
STATE_NAMES = {WorkState.PENDING: "queued", WorkState.DONE: "completed", WorkState.DEAD_LETTER: "failed"}


# Alerts on a page of a trace.
PAGE_SIZE = 100
# Log entries of all incidents on a page, and likewise timers and notifications; they are divided equally, and
# each incident has at least MIN_ENTRIES. The incident timeline shows the others, in pages.
MAX_ENTRIES = 1_000
MIN_ENTRIES = 10
# The latest attempts of a message: a relay that is down for a day causes hundreds.
MAX_ATTEMPTS = 50

# Bodies and payloads can take megabytes, and no trace shows them.
_RECEIPT = [column for column in list_fields(Receipt) if column is not Receipt.body]
_EVENT = [column for column in list_fields(Event) if column is not Event.alert]
_INCIDENT = (
    Incident.id,
    Incident.unique_id,
    Incident.incident_number,
    Incident.title,
    Incident.status,
    Incident.urgency,
    Incident.creation_date,
)


def find_receipt(trace_id: str) -> Receipt | None:
    """Return the receipt without its body, with its integration, service and router; or None."""
    query = (
        Receipt.select(*_RECEIPT, Integration, Service, GlobalRouter)
        .join(Integration, peewee.JOIN.LEFT_OUTER)
        .switch(Receipt)
        .join(Service, peewee.JOIN.LEFT_OUTER)
        .switch(Receipt)
        .join(GlobalRouter, peewee.JOIN.LEFT_OUTER)
        .where(Receipt.trace_id == trace_id)
    )
    found: Receipt | None = query.get_or_none()
    return found


def find_first_event(receipt: Receipt, services: peewee.ModelSelect | None = None) -> Event | None:
    """Return the first alert of a receipt, for the alert status operation; None: the receipt has no alert."""
    found: Event | None = _select_events(receipt, services).first()
    return found


def _select_events(receipt: Receipt, services: peewee.ModelSelect | None) -> "peewee.ModelSelect[Event]":
    query = (
        Event.select(*_EVENT, *_INCIDENT, Integration, DeletedIntegration, Service)
        .join(Incident, peewee.JOIN.LEFT_OUTER)
        .switch(Event)
        .join(Integration, peewee.JOIN.LEFT_OUTER)
        .switch(Event)
        .join(DeletedIntegration, peewee.JOIN.LEFT_OUTER)
        .switch(Event)
        .join(Service, peewee.JOIN.LEFT_OUTER, on=Event.service)
    )
    return query.where(_is_shown(receipt, services)).order_by(Event.position, Event.id)


def _is_shown(receipt: Receipt, services: peewee.ModelSelect | None) -> peewee.Expression:
    """Return the condition for the alerts of a receipt in these services; None: in all services."""
    of_receipt = Event.receipt == receipt.id
    return of_receipt if services is None else of_receipt & Event.service.in_(services)


def count_events(receipt: Receipt, services: peewee.ModelSelect | None = None) -> int:
    """Return the number of alerts of a receipt that a trace shows, on all pages."""
    return int(Event.select().where(_is_shown(receipt, services)).count())


def get_status(receipt: Receipt, events: Collection[Event]) -> str:
    """Return queued, completed or failed for a receipt and its alerts.

    One failed alert makes the receipt failed. Without a failed alert, one pending alert makes it queued.
    """
    return _name_status({get_state(row.state, bool(row.error)) for row in (receipt, *events)})


def _get_status_of_all(receipt: Receipt, services: peewee.ModelSelect | None) -> str:
    """Return the status of a receipt and all its alerts. A page shows only some of these alerts."""
    kinds = Event.select(Event.state, Event.error.is_null(False)).where(_is_shown(receipt, services))
    found = {get_state(state, bool(has_error)) for state, has_error in kinds.distinct().tuples()}
    return _name_status(found | {get_state(receipt.state, bool(receipt.error))})


def _name_status(states: Collection[WorkState]) -> str:
    for state in (WorkState.DEAD_LETTER, WorkState.PENDING):
        if state in states:
            return STATE_NAMES[state]
    return STATE_NAMES[WorkState.DONE]


def get_state(state: int, has_error: bool) -> WorkState:
    """Return the state, but DEAD_LETTER for a dropped row. Only dropped rows are DONE with an error."""
    return WorkState.DEAD_LETTER if state == WorkState.DONE and has_error else WorkState(state)


def build_trace(
    receipt: Receipt,
    services: peewee.ModelSelect | None = None,
    *,
    start: int = 0,
    size: int = PAGE_SIZE,
    readable: Readable | None = None,
) -> JsonDict:
    """Return a page of the alert trace of a receipt: alerts stage by stage, their incidents with deliveries.

    `services` is a query of service rows; alerts that a router sent to other services are left out. None:
    all alerts. `start` is the number of alerts before the page. `readable` leaves out changes of the
    configuration that the reader may not read.
    """
    events = list(_select_events(receipt, services).limit(size).offset(start))
    changed = find_changes(receipt, events, readable)
    incidents = [i for i in {e.incident_id: e.incident for e in events}.values() if i is not None]
    return {
        "trace_id": receipt.trace_id,
        "status": _get_status_of_all(receipt, services),
        "received_at": receipt.received_at,
        "replayed_at": receipt.replayed_at,
        "source": receipt.source,
        "integration": _build_reference(receipt.integration),
        "service": _build_reference(receipt.service),
        "router": _build_reference(receipt.router),
        "error": _to_text(receipt.error),
        "count": count_events(receipt, services),
        "progress": _build_progress(receipt),
        "alerts": [_build_alert(event, changed.get(event.id)) for event in events],
        "incidents": _build_incidents(incidents),
    }


def _build_progress(receipt: Receipt) -> JsonDict | None:
    """Return how many alerts of a receipt in pieces are done; None: it is not between two pieces."""
    done = ReceiptProgress.select(ReceiptProgress.alerts_done).where(ReceiptProgress.receipt == receipt)
    alerts_done = done.scalar()
    return None if alerts_done is None else {"alerts_done": alerts_done, "alerts": receipt.alerts}


def _build_reference(
    row: Integration | DeletedIntegration | Service | GlobalRouter | None,
) -> JsonDict | None:
    return {"unique_id": row.unique_id, "name": row.name} if row else None


def _build_alert(event: Event, changed: ChangesBetween | None) -> JsonDict:
    incident, reasons = event.incident, list_reasons(event)
    return {
        "unique_id": event.unique_id,
        "integration": _build_reference(event.known_integration),
        "service": _build_reference(event.service),
        "message": event.message,
        "alert_type": AlertType(event.alert_type).name.lower(),
        "entity_id": event.entity_id,
        "suppressed": event.suppressed,
        "status": STATE_NAMES[get_state(event.state, bool(event.error))],
        "pending_stage": event.stage if event.state == WorkState.PENDING else None,
        "error": _to_text(event.error),
        "stages": [{"stage": stage, "reason": str(reason)} for stage, reason in reasons],
        # Why the alert ended where it did, as a part of a sentence.
        "end": write_clause(reasons[-1][1]) if reasons else None,
        "rules": [show_rule(record) for record in event.rules],
        "incident": incident.incident_number if incident else None,
        "incident_created": event.incident_created,
        "changed_before": _build_changes(changed),
    }


def _build_changes(found: ChangesBetween | None) -> JsonDict | None:
    """Return what changed between an alert and the one before it, as a trace shows it."""
    if found is None:
        return None
    return {
        "previous_alert_at": found.before,
        "changes": [
            {
                "unique_id": each.unique_id,
                "at": each.at,
                "object": each.object_id,
                "what": write_sentence(each),
            }
            for each in found.changes
        ],
    }


def build_incident(incident: Incident) -> JsonDict:
    """Return what happened to an incident in the form of a trace."""
    return _build_incidents([incident])[0]


def _build_incidents(incidents: list[Incident]) -> list[JsonDict]:
    limit = max(MAX_ENTRIES // max(len(incidents), 1), MIN_ENTRIES)
    rows = [incident.id for incident in incidents]
    logs = _load_first(IncidentLog, rows, limit, IncidentLog.id)
    timers = _load_first(Timer, rows, limit, Timer.due_at, Timer.id)
    found = _select_first(Notification, rows, limit, Notification.id)
    deliveries: dict[int, list[JsonDict]] = {}
    for notification, entry in load_notification_entries(Notification.id.in_(found)):
        deliveries.setdefault(notification.incident_id, []).append(entry)
    mails = _load_stakeholder_mails(rows, limit)
    groups: tuple[dict[int, Any], ...] = (logs, timers, deliveries, mails)
    return [
        {
            "incident_number": incident.incident_number,
            "unique_id": incident.unique_id,
            "title": incident.title,
            "status": IncidentStatus(incident.status).name.lower(),
            "urgency": Urgency(incident.urgency).name.lower(),
            "creation_date": incident.creation_date,
            "log": [build_log_entry(row) for row in logs.get(incident.id, ())[:limit]],
            "timers": [_build_timer(row) for row in timers.get(incident.id, ())[:limit]],
            "deliveries": deliveries.get(incident.id, [])[:limit],
            "stakeholders": mails.get(incident.id, [])[:limit],
            "is_truncated": any(len(group.get(incident.id, ())) > limit for group in groups),
        }
        for incident in incidents
    ]


def _load_stakeholder_mails(incidents: Collection[int], limit: int) -> dict[int, list[dict[str, object]]]:
    found: dict[int, list[dict[str, object]]] = {}
    for mail in load_stakeholder_mails(
        StakeholderMail.id.in_(_select_first(StakeholderMail, incidents, limit, StakeholderMail.id))
    ):
        found.setdefault(mail.incident_id, []).append(
            {"at": mail.created_at, "what": "stakeholder_mail", "reason": str(describe_mail(mail))}
        )
    return found


def load_stakeholder_mails(where: peewee.Expression) -> list[StakeholderMail]:
    """Load mails to stakeholders with their messages, in order."""
    query = StakeholderMail.select(StakeholderMail, Message).join(Message, peewee.JOIN.LEFT_OUTER)
    return list(query.where(where).order_by(StakeholderMail.id))


def describe_mail(mail: StakeholderMail) -> Reason:
    """Return what became of a mail to a stakeholder."""
    message = mail.message
    if message is None:
        state, outcome = "not sent", mail.outcome
    elif message.state == MessageStatus.PENDING:
        state, outcome = "not sent yet", message.outcome
    else:
        state, outcome = MessageStatus(message.state).name.lower(), message.outcome
    return make_reason("stakeholder_mail", stakeholder=mail.name, state=state).add(outcome)


def show_rule(record: Mapping[str, object]) -> dict[str, object]:
    """Return the record of a rule in Event.rules with its notes as texts."""
    shown, actions = _show_note(record), record.get("actions")
    if isinstance(actions, list):
        return {**shown, "actions": [_show_note(action) for action in actions]}
    return shown


def _show_note(record: Mapping[str, object]) -> dict[str, object]:
    """Return a record with its note as text. In a simulation, the note is not stored: it is a reason."""
    note = record.get("note")
    if isinstance(note, Mapping):
        note = from_json(note)
    return {**record} if note is None else {**record, "note": str(note)}


def _to_text(reason: Reason | None) -> str | None:
    return None if reason is None else str(reason)


Row = TypeVar("Row", IncidentLog, Timer)


def _load_first(
    table: type[Row], incidents: Collection[int], limit: int, *order: peewee.Field
) -> dict[int, list[Row]]:
    """Load the first rows of each incident in this order, and one more than `limit`."""
    groups: dict[int, list[Row]] = {}
    found = _select_first(table, incidents, limit, *order)
    for row in table.select().where(table.id.in_(found)).order_by(*order):
        groups.setdefault(row.incident_id, []).append(row)
    return groups


def _select_first(
    table: type[Table], incidents: Collection[int], limit: int, *order: peewee.Field
) -> peewee.Select:
    """Return a query of the numbers of these rows. Only row numbers are sorted, not rows."""
    place = peewee.fn.ROW_NUMBER().over(partition_by=[table.incident], order_by=list(order))
    numbered = table.select(table.id, place.alias("place")).where(table.incident.in_(incidents))
    return peewee.Select([numbered], [numbered.c.id]).where(numbered.c.place <= limit + 1)


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
        Notification.select(Notification, User, ContactMethod, Message, Incident.id, Incident.run_started_at)
        .join(Incident)
        .switch(Notification)
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
    acknowledged = find_acknowledgements({notification.incident_id for notification in notifications})
    return [
        (notification, _build_notification(notification, attempts, acknowledged))
        for notification in notifications
    ]


def _load_attempts(messages: Collection[int]) -> dict[int, list[JsonDict]]:
    """Load the latest attempts of these messages, in order."""
    found: dict[int, list[JsonDict]] = {}
    place = peewee.fn.ROW_NUMBER().over(partition_by=[Attempt.message], order_by=[Attempt.id.desc()])
    numbered = Attempt.select(Attempt.id, place.alias("place")).where(Attempt.message.in_(list(messages)))
    latest = peewee.Select([numbered], [numbered.c.id]).where(numbered.c.place <= MAX_ATTEMPTS)
    query = Attempt.select().where(Attempt.id.in_(latest)).order_by(Attempt.id)
    for row in query:
        entry = {
            "at": row.at,
            "outcome": row.outcome,
            "detail": str(row.detail),
            "milliseconds": row.milliseconds,
            "provider": row.provider,
            "provider_state": row.provider_state,
            "reported_at": row.reported_at,
        }
        found.setdefault(row.message_id, []).append(entry)
    return found


def _build_notification(
    notification: Notification,
    attempts: dict[int, list[JsonDict]],
    acknowledged: Mapping[tuple[int, int], datetime],
) -> JsonDict:
    message = notification.message
    is_pending = notification.state == NotificationStatus.PENDING and message.state == MessageStatus.PENDING
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
        "sentence": describe_notification(notification),
        "not_before": notification.not_before,
        "state": NotificationStatus(notification.state).name.lower(),
        # Why a pending message is not sent yet.
        "outcome": _to_text(message.outcome if is_pending else notification.outcome),
        "done_at": notification.done_at,
        "message_id": message.message_id,
        "next_attempt_at": message.next_attempt_at if is_pending else None,
        "attempt_count": message.attempts,
        "attempts": own_attempts,
        "provider": own_attempts[-1]["provider"] if own_attempts else None,
        "delivered_at": _find_delivery(own_attempts),
        # When this person acknowledged the incident, by whatever way.
        "acknowledged_at": acknowledged.get((notification.incident_id, notification.user_id)),
    }


def _find_delivery(attempts: Collection[JsonDict]) -> datetime | None:
    """Return when the provider says that a message was delivered; None: it does not say so."""
    delivered = (each for each in attempts if each["provider_state"] == ProviderState.DELIVERED)
    at: datetime | None = next((each["reported_at"] for each in delivered), None)
    return at


def describe_notification(notification: Notification) -> str:
    """Return what became of a notification as a part of a sentence, with the names of person and channel."""
    message, person = notification.message, get_display_name(notification.user)
    by = name_channel(get_channel_name(message.channel))
    if message.kind == MessageKind.BUNDLE:
        by += " in a bundle"
    outcome, state = notification.outcome, NotificationStatus(notification.state)
    if state is NotificationStatus.SENT:
        return f"sent to {person} by {by}: {write_clause(notification.reason)}"
    if state is not NotificationStatus.PENDING:
        why = write_clause(outcome) if outcome is not None else state.name.lower()
        return f"not sent to {person} by {by}: {why}"
    if message.attempts or message.outcome is not None:
        return f"not sent to {person} by {by} yet: {_describe_delay(message.outcome)}"
    delay = (notification.not_before - notification.incident.run_started_at).total_seconds()
    after = f", after {format_duration(round(delay))}" if round(delay) > 0 else ""
    return f"to be notified: {person} ({by}{after})"


def _describe_delay(outcome: Reason | None) -> str:
    """Return why a message is sent later. The first sentence of its outcome says only that it is not sent."""
    if outcome is None or not outcome.more:
        return "it is tried again"
    first, *others = outcome.more
    return write_clause(first.add(*others))


def name_channel(name: str) -> str:
    """Return what people call the channel with this name."""
    return next((spec.title for spec in DELIVERY_CHANNELS.values() if spec.name == name), name)
