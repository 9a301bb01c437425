"""The flight recorder: from a trace_id, why somebody was told or was not (law 5).

Contacts are named, never shown: their values stay in their own table.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

import peewee

from models.accounts import User, display_name
from models.enums import (
    AlertType,
    ContactType,
    IncidentStatus,
    MessageState,
    NoticeState,
    Urgency,
    WorkState,
)
from models.events import Event, Receipt
from models.incidents import Incident, IncidentLog
from models.notices import Attempt, Message, Notice
from models.routers import GlobalRouter
from models.services import Integration, Service
from models.timers import Timer
from models.users import ContactMethod

Told = dict[str, Any]

# What a receipt's state is called in the alert status operation (contract 3.9).
STATE_NAMES = {WorkState.WAITING: "queued", WorkState.DONE: "completed", WorkState.ASIDE: "failed"}


def receipt_of(trace_id: str) -> Receipt | None:
    """The receipt with its integration and service, or None."""
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


def events_of(receipt: Receipt, services: Any = None) -> list[Event]:
    """The alerts of a receipt in their order, each with its incident, integration and service.

    `services`, a query of service rows, leaves out what a router sent elsewhere; None shows all.
    """
    return list(_events(receipt, services))


def first_event_of(receipt: Receipt, services: Any = None) -> Event | None:
    """The one that the alert status operation answers for."""
    found: Event | None = _events(receipt, services).first()
    return found


def _events(receipt: Receipt, services: Any) -> Any:
    query = (
        Event.select(Event, Incident, Integration, Service)
        .join(Incident, peewee.JOIN.LEFT_OUTER)
        .switch(Event)
        .join(Integration, peewee.JOIN.LEFT_OUTER)
        .switch(Event)
        .join(Service, peewee.JOIN.LEFT_OUTER, on=Event.service)
    )
    mine = (
        (Event.receipt == receipt.id)
        if services is None
        else ((Event.receipt == receipt.id) & Event.service.in_(services))
    )
    return query.where(mine).order_by(Event.position, Event.id)


def state_of(receipt: Receipt, events: Collection[Event]) -> str:
    """queued, completed or failed: a receipt is as far as the slowest of its alerts."""
    states = {_state(row) for row in (receipt, *events)}
    for state in (WorkState.ASIDE, WorkState.WAITING):
        if state in states:
            return STATE_NAMES[state]
    return STATE_NAMES[WorkState.DONE]


def _state(row: Receipt | Event) -> WorkState:
    """Work is done on what was dropped, and yet it never came to its end: only that keeps an error."""
    state = WorkState(row.state)
    return WorkState.ASIDE if state is WorkState.DONE and row.error else state


def story(receipt: Receipt, services: Any = None) -> Told:
    """The road of a receipt's alerts stage by stage, and all that became of their incidents.

    `services`, a query of service rows, leaves out what a router sent elsewhere; None shows all.
    """
    events = events_of(receipt, services)
    incidents = [i for i in {e.incident_id: e.incident for e in events}.values() if i is not None]
    return {
        "trace_id": receipt.trace_id,
        "status": state_of(receipt, events),
        "received_at": receipt.received_at,
        "replayed_at": receipt.replayed_at,
        "source": receipt.source,
        "integration": _named(receipt.integration),
        "service": _named(receipt.service),
        "router": _named(receipt.router),
        "error": receipt.error,
        "alerts": [_alert(event) for event in events],
        "incidents": _incidents(incidents),
    }


def _named(row: Any) -> Told | None:
    return {"unique_id": row.unique_id, "name": row.name} if row else None


def _alert(event: Event) -> Told:
    incident = event.incident
    return {
        "unique_id": event.unique_id,
        "integration": _named(event.integration),
        "service": _named(event.service),
        "message": event.message,
        "alert_type": AlertType(event.alert_type).name.lower(),
        "entity_id": event.entity_id,
        "suppressed": event.suppressed,
        "status": STATE_NAMES[_state(event)],
        "waits_at": event.stage if event.state == WorkState.WAITING else None,
        "error": event.error,
        "road": [{"stage": stage, "reason": reason} for stage, reason in event.reasons],
        "rules": event.rules,
        "incident": incident.incident_number if incident else None,
        "incident_created": event.incident_created,
    }


def _incidents(incidents: list[Incident]) -> list[Told]:
    rows = [incident.id for incident in incidents]
    logs = _grouped(IncidentLog.select().where(IncidentLog.incident.in_(rows)).order_by(IncidentLog.id))
    timers = _grouped(Timer.select().where(Timer.incident.in_(rows)).order_by(Timer.due_at, Timer.id))
    deliveries: dict[int, list[Told]] = {}
    for notice, told in notices_told(Notice.incident.in_(rows)):
        deliveries.setdefault(notice.incident_id, []).append(told)
    return [
        {
            "incident_number": incident.incident_number,
            "unique_id": incident.unique_id,
            "title": incident.title,
            "status": IncidentStatus(incident.status).name.lower(),
            "urgency": Urgency(incident.urgency).name.lower(),
            "creation_date": incident.creation_date,
            "log": [log_told(row) for row in logs.get(incident.id, ())],
            "timers": [_timer(row) for row in timers.get(incident.id, ())],
            "deliveries": deliveries.get(incident.id, []),
        }
        for incident in incidents
    ]


def _grouped(query: Iterable[Any]) -> dict[int, list[Any]]:
    groups: dict[int, list[Any]] = {}
    for row in query:
        groups.setdefault(row.incident_id, []).append(row)
    return groups


def log_told(row: IncidentLog) -> Told:
    return {"at": row.at, "what": row.what, "reason": row.reason, "by": row.actor_kind, "alert": row.alert}


def _timer(row: Timer) -> Told:
    return {"kind": row.kind, "due_at": row.due_at, "done_at": row.done_at, "outcome": row.outcome}


def notices_told(where: Any) -> list[tuple[Notice, Told]]:
    """What became of notices, in their order: a constant number of statements."""
    query = (
        Notice.select(Notice, User, ContactMethod, Message)
        .join(User)
        .switch(Notice)
        .join(ContactMethod, peewee.JOIN.LEFT_OUTER)
        .switch(Notice)
        .join(Message)
        .where(where)
        .order_by(Notice.id)
    )
    notices = list(query)
    attempts = _attempts({notice.message_id for notice in notices})
    return [(notice, _notice(notice, attempts)) for notice in notices]


def _attempts(messages: Collection[int]) -> dict[int, list[Told]]:
    found: dict[int, list[Told]] = {}
    query = Attempt.select().where(Attempt.message.in_(list(messages))).order_by(Attempt.id)
    for row in query:
        told = {
            "at": row.at,
            "outcome": row.outcome,
            "detail": row.detail,
            "milliseconds": row.milliseconds,
        }
        found.setdefault(row.message_id, []).append(told)
    return found


def _notice(notice: Notice, attempts: dict[int, list[Told]]) -> Told:
    message = notice.message
    next_try: datetime | None = message.next_at if message.state == MessageState.PENDING else None
    tries = attempts.get(notice.message_id, [])
    if notice.state == NoticeState.VOID:
        # What was tried later carried other notices.
        tries = [one for one in tries if one["at"] <= notice.done_at]
    return {
        "person": display_name(notice.user),
        "username": notice.user.username,
        "channel": ContactType(message.channel).name.lower(),
        "contact": notice.contact.name if notice.contact else "the account's address",
        "kind": notice.kind,
        "why": notice.reason,
        "not_before": notice.not_before,
        "state": NoticeState(notice.state).name.lower(),
        "outcome": notice.outcome,
        "done_at": notice.done_at,
        "message_id": message.message_id,
        "next_try": next_try if notice.state == NoticeState.PENDING else None,
        "attempts": tries,
    }
