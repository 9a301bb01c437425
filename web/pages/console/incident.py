"""The page of one incident: what happened, whom Tocsin notified and notifies next, and what can be done."""

from collections.abc import Iterable
from datetime import datetime

import orjson
import peewee
from flask import Response, request

from models.domain.enums import IncidentStatus, ResponseStatus, TaskStatus, Urgency
from models.reports import incident_timeline
from models.store.fields import Table
from models.store.store import store
from models.tables.accounts import get_display_name
from models.tables.incidents import Incident, IncidentLog, IncidentResponder, IncidentTask
from models.tables.notifications import Notification
from pipeline.messages.content import ACTIONS
from web.http import access
from web.http.auth import viewer
from web.http.errors import ApiError, Forbidden
from web.incidents.schemas import fill
from web.pages import forms
from web.pages.console.operations import call, call_if_allowed
from web.pages.console.page import answer_unchanged, build_etag, format_moment, is_known, render
from web.pages.console.timeline import add_sentences, group_by_second
from web.pages.linked_incident import build_alert, list_alerts, list_notes
from web.pages.look.incident_rows import NOBODY, find_following, find_next, get_level, load_alert_figures
from web.pages.look.refusals import RefusedForm, read_refused_form

MAX_ALERTS = 20
MAX_ENTRIES = 100
# The largest number of people and policies in a list to choose from.
MAX_CHOICES = 500
SNOOZES = ((30, "30 minutes"), (60, "1 hour"), (240, "4 hours"), (480, "8 hours"), (1440, "1 day"))


def show(incident: str) -> Response:
    """Show an incident. A poll reads only the incident and its last changes."""
    row = access.access_incident(viewer(), incident)
    etag = build_etag(row.id, _find_last_change(row), request.query_string)
    if is_known(etag):
        return answer_unchanged(etag)
    return _render(row, etag)


def show_refused(row: Incident, error: ApiError) -> Response:
    """Show the incident with the form that was refused, as it was filled in. It is not polled."""
    return _render(row, "", read_refused_form(error, "The incident was not changed"), error.status)


def _render(row: Incident, etag: str, refused: RefusedForm | None = None, code: int = 200) -> Response:
    fill([row])
    figures = load_alert_figures([row.id]).get(row.id)
    may_act = _may_change(row)
    return render(
        "incident.html",
        code,
        etag=etag,
        refused=refused,
        incident=row,
        status=IncidentStatus(row.status).name.lower(),
        urgency=Urgency(row.urgency).name.lower(),
        assignee=get_display_name(row.assigned_to) if row.assigned_to else "",
        seen=orjson.dumps(describe(row)).decode(),
        buttons=[
            word for word, (_, states) in ACTIONS.items() if may_act and IncidentStatus(row.status) in states
        ],
        following=find_following(row, viewer().user.id),
        alerts=[build_alert(each) for each in list_alerts(row, MAX_ALERTS)],
        timeline=group_by_second(_load_timeline(row)),
        upcoming=find_next([row.id], viewer().user.id).get(row.id, NOBODY),
        figures=figures,
        level=get_level(figures, row.status, row.urgency),
        may_act=may_act,
        max_entries=MAX_ENTRIES,
        notes=list_notes(row),
        name_user=get_display_name,
        done=forms.read_done(),
        more={**_load_details(row), **_load_choices(row)},
    )


def _may_change(row: Incident) -> bool:
    """Return whether the person may change the incident: then the page has its buttons and forms."""
    try:
        access.require_permission(viewer(), row.team_id, "incident_write")
    except Forbidden:
        return False
    return True


def _find_last_change(row: Incident) -> tuple[object, ...]:
    """Return what changes when the page does, in one statement."""

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
    return (*(str(value) for value in found), row.status, row.assigned_to_id, row.title)


def describe(row: Incident) -> dict[str, str]:
    """Return the fields of an incident whose change by somebody else matters for an action, in words."""
    return {
        "Status": IncidentStatus(row.status).name.lower(),
        "Assigned to": get_display_name(row.assigned_to) if row.assigned_to else "nobody",
        "Title": row.title,
        "Urgency": Urgency(row.urgency).name.lower(),
        "Escalation policy": row.escalation_policy.name if row.escalation_policy else "none",
        "Priority": row.team_priority.name if row.team_priority else "none",
        "Snoozed until": format_moment(row.snoozed_till) or "not snoozed",
    }


def _load_timeline(row: Incident) -> list[dict[str, object]]:
    """Return the last entries of the timeline, the newest first."""
    keys = incident_timeline.select_entries(row).order_by(peewee.SQL("3 DESC, 1 DESC, 2 DESC"))
    found: Iterable[tuple[int, int, datetime]] = keys.limit(MAX_ENTRIES)
    return add_sentences(row, incident_timeline.load_entries((kind, number) for kind, number, _ in found))


def _load_details(row: Incident) -> dict[str, object]:
    """Return what people added to the incident."""
    number = str(row.incident_number)
    # Merged incidents can belong to a team whose incidents the person may not read.
    related = Incident.select(Incident.incident_number, Incident.title).where(
        Incident.team.in_(access.select_permitted_teams(viewer()))
    )
    children = related.where(Incident.parent == row)
    return {
        "responders": call("index_incident_responder", incident=number),
        "tasks": call("index_incident_task", incident=number),
        "roles": call("index_role_in_an_incident", incident=number),
        "children": list(children.order_by(Incident.id).limit(MAX_ENTRIES)),
        "parent": related.where(Incident.id == row.parent_id).first() if row.parent_id else None,
        "responses": {each.value: each.name.lower() for each in ResponseStatus},
        "task_statuses": [(each.value, each.name.lower().replace("_", " ")) for each in TaskStatus],
        "snoozes": SNOOZES,
    }


def _load_choices(row: Incident) -> dict[str, object]:
    """Return the people and objects that the forms of the page offer."""
    team = row.team.unique_id
    no_policies: dict[str, list[dict[str, str]]] = {"escalations": []}
    policies = call_if_allowed("escalation_policies_list_available", no_policies)["escalations"]
    return {
        "people": list_people(),
        "policies": _name(policies),
        "tag_choices": _name(call_if_allowed("index_tag", [], team_id=team)),
        "priorities": _name(call_if_allowed("index_priority", [], team_id=team)),
        "role_choices": _name(call_if_allowed("index_incident_role", [], team_id=team), "title"),
    }


def list_people() -> list[tuple[str, str]]:
    """Return username and name of the members of the account, at most MAX_CHOICES, by name."""
    members = [each["user"] for each in call("index_account_member")[:MAX_CHOICES]]
    return sorted(
        ((user["username"], name_person(user)) for user in members), key=lambda pair: pair[1].lower()
    )


def name_person(user: dict[str, str]) -> str:
    return f"{user['first_name']} {user['last_name']}".strip() or user["email"].partition("@")[0]


def _name(rows: list[dict[str, str]], field: str = "name") -> list[tuple[str, str]]:
    return [(row["unique_id"], row[field]) for row in rows[:MAX_CHOICES]]
