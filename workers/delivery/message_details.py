"""Load what a message says about its only incident: where it began, who acknowledged, who is next.

The number of statements is constant. The on-call configuration is cached by its version.
"""

from collections.abc import Mapping
from datetime import datetime

import peewee

from models.domain.effects import IncidentState
from models.domain.enums import AlertType, IncidentStatus, NotificationStatus
from models.domain.reasons import Reason, format_duration, write_clause
from models.load.incident_states import load_states
from models.load.simulation import load_open_incident
from models.store.prepared import Prepared, bind
from models.tables.accounts import User, get_display_name, name_person
from models.tables.events import Event
from models.tables.incidents import IncidentLog
from models.tables.notifications import Message, Notification
from pipeline.messages.incidents import MAX_SOURCES, IncidentDetails, NextStep, list_labels
from pipeline.simulation.next_messages import NextMessages, find_next_messages
from workers.config_cache import get_oncall_configs

# At most this many other people are named.
MAX_ALSO_NOTIFIED = 10

_OPENED_BY = Prepared(
    lambda: (
        Event.select(Event.alert, Event.source_at)
        .where(Event.incident == bind("incident"), Event.incident_created)
        .order_by(Event.id)
        .limit(1)
    )
)
_LAST_LOG = Prepared(
    lambda: (
        IncidentLog.select(IncidentLog.at, IncidentLog.reason, IncidentLog.user)
        .where(IncidentLog.incident == bind("incident"), IncidentLog.what == bind("what"))
        .order_by(IncidentLog.id.desc())
        .limit(1)
    )
)
_LAST_LEVEL = Prepared(
    lambda: (
        Event.select(Event.alert_type)
        .where(Event.incident == bind("incident"))
        .order_by(Event.id.desc())
        .limit(1)
    )
)

_NOTIFIED = Prepared(
    lambda: (
        Notification.select(User.first_name, User.last_name, User.email)
        .join(User)
        .switch(Notification)
        .join(Message)
        .where(
            Notification.incident == bind("incident"),
            Notification.user != bind("reader"),
            (Notification.state == NotificationStatus.SENT)
            | ((Notification.state == NotificationStatus.PENDING) & (Message.next_attempt_at <= bind("now"))),
        )
        .group_by(User.id, User.first_name, User.last_name, User.email)
        .order_by(peewee.fn.MIN(Notification.id))
        .limit(MAX_ALSO_NOTIFIED)
    )
)


def load_details(incident_row: int, reader: int, now: datetime) -> IncidentDetails:
    """Load the details of an incident as it is now, for a user. Needs a connection, but no transaction."""
    opened = _OPENED_BY.first(incident=incident_row)
    alert, began_at = opened if opened is not None else ({}, None)
    (incident,) = load_states([incident_row])
    by, at = "", None
    if incident.status is IncidentStatus.ACKNOWLEDGED or incident.acknowledged_date is not None:
        by, at = _find_acknowledgement(incident_row)
    resolved = _LAST_LOG.first(incident=incident_row, what="resolved") if not incident.is_open else None
    following = _find_next(incident, reader, now)
    return IncidentDetails(
        began_at=began_at,
        labels=list_labels(alert.get("payload")),
        sources=_list_sources(alert.get("urls")),
        acknowledged_by=by,
        acknowledged_at=at,
        ended_by=_describe_why_resolved(incident_row, resolved[1]) if resolved is not None else "",
        resolved_by=_name_user(resolved[2]) if resolved is not None else "",
        also_notified=_find_also_notified(incident_row, reader, now),
        next_steps=_list_next_steps(following, now),
        next_end=_describe_end(incident, following, now),
    )


def _describe_why_resolved(incident_row: int, reason: Reason) -> str:
    """Return why an incident is resolved. If the service resolved it by its age, its alert may still fire."""
    why = write_clause(reason)
    last = _LAST_LEVEL.first(incident=incident_row) if reason.code == "open_too_long" else None
    is_firing = last is not None and last[0] in (AlertType.WARNING, AlertType.ERROR, AlertType.CRITICAL)
    return f"{why}; its last alert was still firing" if is_firing else why


def _find_also_notified(incident_row: int, reader: int, now: datetime) -> tuple[str, ...]:
    """Return the names of other people who were or are being notified, in this order."""
    return tuple(name_person(*name) for name in _NOTIFIED.rows(incident=incident_row, reader=reader, now=now))


def _find_acknowledgement(incident_row: int) -> tuple[str, datetime | None]:
    """Return who acknowledged the incident last, a person or a reason, and when."""
    found = _LAST_LOG.first(incident=incident_row, what="acknowledged")
    if found is None:
        return "", None
    at, reason, user_row = found
    return _name_user(user_row) or _get_author(reason), at


def _name_user(user_row: int | None) -> str:
    """Return the name of a user; empty without a user."""
    user = User.get_or_none(User.id == user_row) if user_row else None
    return get_display_name(user) if user is not None else ""


def _get_author(reason: Reason) -> str:
    return str(reason.parameters.get("by") or "an alert")


def _list_sources(urls: object) -> tuple[tuple[str, str], ...]:
    """Return text and address of each link of the source."""
    links = [url for url in urls if isinstance(url, Mapping)] if isinstance(urls, list) else []
    return tuple(
        (str(link.get("link_text") or ""), str(link.get("link_url") or "")) for link in links[:MAX_SOURCES]
    )


def _find_next(incident: IncidentState, reader: int, now: datetime) -> NextMessages:
    """Return the next messages about an incident if nobody reacts."""
    if not incident.is_open or incident.parent is not None:
        return NextMessages()
    # Workers share this cache: the configuration must also hold for the timers that are due now.
    config = get_oncall_configs([incident], now)[incident.team]
    return find_next_messages(load_open_incident(incident, config, now), now, reader)


def _list_next_steps(found: NextMessages, now: datetime) -> tuple[NextStep, ...]:
    return tuple(NextStep(round((one.at - now).total_seconds()), one.people) for one in found.messages)


def _describe_end(incident: IncidentState, found: NextMessages, now: datetime) -> str:
    """Say why nobody is notified next about a triggered incident; empty if somebody is."""
    is_silent = incident.status is IncidentStatus.TRIGGERED and incident.parent is None
    if not is_silent or found.messages or not found.is_complete:
        return ""
    if found.resolved_at is None:
        return "the escalation policy has no further step"
    after_s = max(round((found.resolved_at - now).total_seconds()), 0)
    return f"the service resolves the incident in {format_duration(after_s)}"
