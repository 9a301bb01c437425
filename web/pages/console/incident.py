"""The page of one incident: what happened, whom Tocsin notified and notifies next, and what can be done."""

import orjson
from flask import Response, request

from models.domain.enums import IncidentStatus, ResponseStatus, TaskStatus, Urgency
from models.reports import incident_timeline
from models.reports.pages import incident_rows
from models.tables.accounts import get_display_name
from models.tables.incidents import Incident
from pipeline.messages.content import ACTIONS
from web.account.members import MEMBERS
from web.http import access
from web.http.auth import viewer
from web.http.errors import ApiError
from web.incidents.responders import RESPONDERS
from web.incidents.role_assignments import ASSIGNMENTS
from web.incidents.schemas import fill
from web.incidents.tags import INCIDENT_TAGS
from web.incidents.tasks import INCIDENT_TASKS
from web.oncall.escalation_policies import POLICIES
from web.pages import forms
from web.pages.console.page import answer_unchanged, build_etag, format_moment, is_known, render
from web.pages.console.timeline import add_sentences, group_by_second
from web.pages.linked_incident import build_alert
from web.pages.look.incident_rows import NOBODY, find_following, find_next, get_level, load_alert_figures
from web.pages.look.refusals import RefusedForm, read_refused_form
from web.teams.incident_roles import INCIDENT_ROLES
from web.teams.labels import PRIORITIES, TAGS

MAX_ALERTS = 20
MAX_ENTRIES = 100
MAX_NOTES = 20
# The largest number of people and policies in a list to choose from.
MAX_CHOICES = 500
SNOOZES = ((30, "30 minutes"), (60, "1 hour"), (240, "4 hours"), (480, "8 hours"), (1440, "1 day"))


def show(incident: str) -> Response:
    """Show an incident. A poll reads only the incident and its last changes."""
    row = access.access_incident(viewer(), incident)
    shown = (row.status, row.assigned_to_id, row.title)
    etag = build_etag(row.id, incident_rows.find_last_change(row), shown, request.query_string)
    if is_known(etag):
        return answer_unchanged(etag)
    return _render(row, etag)


def show_refused(row: Incident, error: ApiError) -> Response:
    """Show the incident with the form that was refused, as it was filled in. It is not polled."""
    return _render(row, "", read_refused_form(error, "The incident was not changed"), error.status)


def _render(row: Incident, etag: str, refused: RefusedForm | None = None, code: int = 200) -> Response:
    fill([row])
    may_write = access.may(viewer(), INCIDENT_TAGS.permissions.write, row.team_id)
    figures = load_alert_figures([row.id]).get(row.id)
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
            word
            for word, (_, states) in ACTIONS.items()
            if may_write and IncidentStatus(row.status) in states
        ],
        following=find_following(row, viewer().user.id),
        alerts=[build_alert(each) for each in incident_rows.list_alerts(row, MAX_ALERTS)],
        timeline=group_by_second(_load_timeline(row)),
        upcoming=find_next([row.id], viewer().user.id).get(row.id, NOBODY),
        figures=figures,
        level=get_level(figures, row.status, row.urgency),
        max_entries=MAX_ENTRIES,
        notes=incident_rows.list_notes(row, MAX_NOTES),
        may_write=may_write,
        name_user=get_display_name,
        done=forms.read_done(),
        more={**_load_details(row), **_load_choices(row)},
    )


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
    keys = incident_timeline.list_last_keys(row, MAX_ENTRIES)
    return add_sentences(row, incident_timeline.load_entries(keys))


def _load_details(row: Incident) -> dict[str, object]:
    """Return what people added to the incident."""
    number = str(row.incident_number)
    # Merged incidents can belong to a team whose incidents the person may not read.
    teams = access.select_permitted_teams(viewer())
    return {
        "responders": RESPONDERS.show_rows(viewer(), incident=number),
        "tasks": INCIDENT_TASKS.show_rows(viewer(), incident=number),
        "roles": ASSIGNMENTS.show_rows(viewer(), incident=number),
        "children": incident_rows.list_children(row, teams, MAX_ENTRIES),
        "parent": incident_rows.find_parent(row, teams),
        "responses": {each.value: each.name.lower() for each in ResponseStatus},
        "task_statuses": [(each.value, each.name.lower().replace("_", " ")) for each in TaskStatus],
        "snoozes": SNOOZES,
    }


def _load_choices(row: Incident) -> dict[str, object]:
    """Return the people and objects that the forms of the page offer."""
    return {
        "people": list_people(),
        "policies": POLICIES.list_names(viewer())[:MAX_CHOICES],
        "tag_choices": TAGS.list_names(viewer(), row.team)[:MAX_CHOICES],
        "priorities": PRIORITIES.list_names(viewer(), row.team)[:MAX_CHOICES],
        "role_choices": INCIDENT_ROLES.list_names(viewer(), row.team)[:MAX_CHOICES],
    }


def list_people() -> list[tuple[str, str]]:
    """Return username and name of the members of the account, at most MAX_CHOICES, by name."""
    members = MEMBERS.list_visible(viewer())[:MAX_CHOICES]
    return sorted(
        ((user.username, get_display_name(user)) for user in members), key=lambda pair: pair[1].lower()
    )
