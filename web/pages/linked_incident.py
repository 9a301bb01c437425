"""The page that the link in a message opens: one incident, for the recipient of the message, without login.

GET changes nothing, since mail scanners follow links. POST acknowledges, resolves or snoozes the incident or
adds a note, in the name of the recipient ("by link"), and redirects to the page. The page works without
JavaScript and loads nothing. Its only script adds the browser to the person's contacts
(web/pages/browser_push.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

from flask import Response, current_app, make_response, redirect, request

from models.domain.effects import Author
from models.domain.enums import AlertType, AuthorKind, IncidentStatus, Urgency
from models.domain.reasons import Reason, make_reason
from models.links import signed_links
from models.reports.alert_trace import load_notification_entries
from models.reports.pages import incident_rows
from models.store.store import store
from models.tables.accounts import User, get_display_name
from models.tables.events import Event
from models.tables.incidents import Incident, IncidentLog, IncidentNote
from pipeline.messages.content import ACTIONS
from pipeline.messages.incidents import list_labels
from pipeline.sources.reading.cleaning import clean_text, clean_url
from web.http.auth import now
from web.http.errors import Forbidden, NotFound
from web.http.response_headers import PRIVATE_HEADERS
from web.incidents.change_status import change_status, snooze
from web.incidents.notes import write_note
from web.pages.base import render_page
from web.pages.browser_push import build_paths, is_fresh, subscribe
from web.pages.link_rights import may_use
from web.pages.look.incident_rows import NOBODY, find_following, find_next, get_level, load_alert_figures

# Enough for the screen of a phone; the interface has all alerts and log entries.
MAX_ALERTS = 10
MAX_URLS = 3
MAX_LOG_ENTRIES = 50
MAX_NOTIFICATIONS = 50
MAX_NOTES = 20
NOTE_LIMIT = 4_000
# The third button: it silences an acknowledged incident for this long.
SNOOZE, SNOOZE_TIME = "snooze", timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class OpenedLink:
    """A valid link: its user, its incident, and whether the user may change the incident."""

    user: User
    incident: Incident
    may_act: bool
    # Why the person was notified.
    reason: Reason


def show(token: str) -> Response:
    """Show the incident of a link."""
    found = _open_link(token)
    return found if isinstance(found, Response) else _render_incident(found, token)


def act(token: str) -> Response:
    """Acknowledge, resolve or snooze the incident of a link, or add a note to it.

    Do nothing if its status no longer allows it, or if the reader may only read the incident.
    """
    found = _open_link(token)
    if isinstance(found, Response):
        return found
    action = request.form.get("act", "")
    if action in ACTIONS and found.may_act:
        name = get_display_name(found.user)
        author = Author(AuthorKind.LINK, f"{name} by link", user=found.user.id)
        change_status(found.incident.id, author, action, _explain(action, name), now())
    if action == SNOOZE and found.may_act:
        author = Author(AuthorKind.LINK, f"{get_display_name(found.user)} by link", user=found.user.id)
        snooze(found.incident.id, author, now() + SNOOZE_TIME, now())
    note = clean_text(request.form.get("note", ""), NOTE_LIMIT)
    if action not in ACTIONS and note and found.may_act:
        author = Author(AuthorKind.LINK, get_display_name(found.user), user=found.user.id)
        with store().write_transaction():
            write_note(found.incident, note, author, now())
    # After the redirect, a reload of the page is a GET, so the action is not repeated.
    prefix = urlsplit(current_app.config["SETTINGS"].public_url).path
    response = redirect(f"{prefix}{request.path}", 303)
    response.headers.update(PRIVATE_HEADERS)
    return make_response(response)


def add_browser(token: str) -> dict[str, str]:
    """Let the person of a link receive messages in the browser that shows the page."""
    found = _open_link(token)
    if isinstance(found, Response):
        raise NotFound
    if not is_fresh(token):
        raise Forbidden(detail="This link is older than a day. Use the link of a newer message.")
    return subscribe(found.user)


def _open_link(token: str) -> OpenedLink | Response:
    """Return the user and incident of a link, or the page that explains why the link is not valid."""
    try:
        link = signed_links.get_reader().read(token, now())
    except signed_links.ExpiredLink:
        return render_page("gone.html", 410, expired=True)
    except signed_links.BadLink:
        return render_page("gone.html", 404, expired=False)
    notification = incident_rows.find_notification(link.notification, link.incident, link.user)
    if notification is None or notification.user.removed_at is not None:
        return render_page("gone.html", 404, expired=False)
    user, incident = notification.user, notification.incident
    if not may_use(user, incident, "incident_read", now()):
        return render_page("gone.html", 404, expired=False)
    may_act = may_use(user, incident, "incident_write", now())
    return OpenedLink(user, incident, may_act, notification.reason)


def _explain(action: str, by: str) -> Reason:
    if action == "acknowledge":
        return make_reason("acknowledged_by_link", by=by)
    return make_reason("resolved_by_link", by=by)


def _render_incident(opened: OpenedLink, token: str) -> Response:
    incident = opened.incident
    push = build_paths(f"/i/{token}/browser/") if is_fresh(token) else None
    status = IncidentStatus(incident.status)
    assignee = incident_rows.find_person(incident.assigned_to_id)
    figures = load_alert_figures([incident.id]).get(incident.id)
    return render_page(
        "incident.html",
        200,
        push=push,
        incident=incident,
        service=incident.service.name if incident.service else None,
        status=status.name.lower(),
        urgency=Urgency(incident.urgency).name.lower(),
        time_zone=opened.user.time_zone,
        figures=figures,
        level=get_level(figures, incident.status, incident.urgency),
        following=find_following(incident, opened.user.id),
        upcoming=find_next([incident.id], opened.user.id).get(incident.id, NOBODY),
        is_own=incident.assigned_to_id == opened.user.id,
        reason=str(opened.reason),
        assignee=get_display_name(assignee) if assignee else None,
        reader=get_display_name(opened.user),
        is_resolved=status is IncidentStatus.RESOLVED,
        buttons=[word for word, (_, states) in ACTIONS.items() if opened.may_act and status in states],
        alerts=[build_alert(row) for row in incident_rows.list_alerts(incident, MAX_ALERTS)],
        may_act=opened.may_act,
        note_limit=NOTE_LIMIT,
        notes=[_build_note(row) for row in incident_rows.list_notes(incident, MAX_NOTES)],
        notifications=_list_notifications(opened),
        log=[_build_entry(row) for row in incident_rows.list_log(incident, MAX_LOG_ENTRIES)],
    )


def build_alert(event: Event) -> dict[str, object]:
    """Return what a page says about an alert. Links of the source lead to http and https only."""
    return {
        "message": event.message,
        "summary": event.summary,
        "level": AlertType(event.alert_type).name.lower(),
        "at": event.creation_date,
        "trace_id": event.receipt.trace_id,
        "began": event.source_at,
        "labels": list_labels(event.alert.get("payload")),
        "urls": _list_links(event.alert.get("urls"), "link_text", "link_url"),
        "images": _list_links(event.alert.get("images"), "image_text", "image_src"),
    }


def _list_links(found: object, text: str, url: str) -> list[tuple[str, str]]:
    """Return text and address of the first links or images of an alert."""
    each = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
    pairs = [(str(one.get(text) or ""), clean_url(str(one.get(url) or ""))) for one in each]
    return [(words or address, address) for words, address in pairs if address][:MAX_URLS]


def _build_note(row: IncidentNote) -> dict[str, object]:
    by = get_display_name(row.user) if row.user else "a rule"
    return {"at": row.creation_date, "by": by, "note": row.note}


def _list_notifications(opened: OpenedLink) -> list[dict[str, object]]:
    """List the last notifications of the incident, each with its outcome, oldest first."""
    last = incident_rows.select_last_notifications(opened.incident, MAX_NOTIFICATIONS)
    entries = load_notification_entries(last)
    return [{"at": row.done_at or row.not_before, "sentence": entry["sentence"]} for row, entry in entries]


def _build_entry(row: IncidentLog) -> dict[str, object]:
    return {"at": row.at, "what": row.what, "reason": str(row.reason)}
