"""The page behind a message's link: one incident, for the person it was sent to, without a login.

GET shows and never changes anything, since mail scanners follow links; POST acts, as that person "by
link", and then shows. Works without JavaScript and loads nothing from anywhere.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import peewee
from flask import Response, current_app, make_response, redirect, request

from models import links
from models.accounts import User, display_name
from models.apply import apply
from models.base import store
from models.effects import Actor, Outcome
from models.enums import ActorKind, AlertType, IncidentStatus, Urgency
from models.events import Event
from models.incidents import Incident, IncidentLog
from models.loading import lock_incident
from models.notices import Notice
from models.services import Service
from pipeline import moves
from pipeline.sources.cleaning import clean_url
from pipeline.wording import moment
from web.auth import now
from web.pages import HEADERS, page
from workers import bell

# A phone shows so much; the whole story is in the interface.
MOST_ALERTS = 10
MOST_URLS = 3
MOST_HAPPENINGS = 50

# What a button says -> the state it leads to, and the states in which it stands on the page.
BUTTONS = {
    "acknowledge": (IncidentStatus.ACKNOWLEDGED, {IncidentStatus.TRIGGERED}),
    "resolve": (IncidentStatus.RESOLVED, {IncidentStatus.TRIGGERED, IncidentStatus.ACKNOWLEDGED}),
}


@dataclass(frozen=True, slots=True)
class Reading:
    """A link that works: whose it is, and what it shows."""

    user: User
    incident: Incident

    def moment(self, at: datetime) -> str:
        return moment(at, self.user.time_zone)


def show(token: str) -> Response:
    """Show the incident behind a link."""
    found = _opened(token)
    return found if isinstance(found, Response) else _incident_page(found)


def act(token: str) -> Response:
    """Acknowledge or resolve the incident behind a link; nothing when it has moved on meanwhile."""
    found = _opened(token)
    if isinstance(found, Response):
        return found
    button = BUTTONS.get(request.form.get("act", ""))
    if button is not None:
        _move(found, *button)
    # A reload of what follows shows again, and does not act again.
    prefix = urlsplit(current_app.config["SETTINGS"].public_url).path
    response: Any = redirect(f"{prefix}{request.path}", 303)
    response.headers.update(HEADERS)
    return make_response(response)


def _opened(token: str) -> Reading | Response:
    """What the link is for, or the page that says why it is no more."""
    try:
        link = links.read(token, now())
    except links.ExpiredLink:
        return page("gone.html", 410, expired=True)
    except links.BadLink:
        return page("gone.html", 404, expired=False)
    query = (
        Notice.select(Notice, Incident, User, Service)
        .join(Incident)
        .join(Service, peewee.JOIN.LEFT_OUTER)
        .switch(Notice)
        .join(User)
        .where(Notice.id == link.notice, Notice.incident == link.incident, Notice.user == link.user)
    )
    notice = query.first()
    if notice is None or notice.user.removed_at is not None:
        return page("gone.html", 404, expired=False)
    return Reading(notice.user, notice.incident)


def _move(reading: Reading, to: IncidentStatus, allowed: set[IncidentStatus]) -> None:
    actor = Actor(ActorKind.LINK, f"{display_name(reading.user)} by link", user=reading.user.id)
    with store().writing():
        found = lock_incident(reading.incident.id)
        if found is None or found.incident.status not in allowed:
            return
        reason = f"asked for by {actor.name}"
        effects = moves.move(
            found.incident, to, found.service, found.directory, actor, now(), reason, found.children
        )
        written = apply(Outcome(effects=list(effects)))
    bell.ring_deliveries(written.channels)


def _incident_page(reading: Reading) -> Response:
    incident = reading.incident
    status = IncidentStatus(incident.status)
    assignee = User.get_or_none(User.id == incident.assigned_to_id)
    return page(
        "incident.html",
        200,
        incident=incident,
        service=incident.service.name if incident.service else None,
        status=status.name.lower(),
        urgency=Urgency(incident.urgency).name.lower(),
        since=reading.moment(incident.creation_date),
        assignee=display_name(assignee) if assignee else None,
        reader=display_name(reading.user),
        buttons=[word for word, (_, states) in BUTTONS.items() if status in states],
        alerts=[_alert(reading, row) for row in _last_alerts(incident)],
        log=[_happening(reading, row) for row in _last_happenings(incident)],
    )


def _last_alerts(incident: Incident) -> Any:
    return Event.select().where(Event.incident == incident).order_by(Event.id.desc()).limit(MOST_ALERTS)


def _alert(reading: Reading, event: Event) -> dict[str, Any]:
    urls = [clean_url(str(url.get("link_url", ""))) for url in event.alert.get("urls") or ()]
    return {
        "message": event.message,
        "summary": event.summary,
        "level": AlertType(event.alert_type).name.lower(),
        "at": reading.moment(event.creation_date),
        "urls": [url for url in urls if url][:MOST_URLS],
    }


def _last_happenings(incident: Incident) -> Any:
    query = IncidentLog.select().where(IncidentLog.incident == incident)
    return query.order_by(IncidentLog.id.desc()).limit(MOST_HAPPENINGS)


def _happening(reading: Reading, row: IncidentLog) -> dict[str, str]:
    return {"at": reading.moment(row.at), "what": row.what, "reason": row.reason}
