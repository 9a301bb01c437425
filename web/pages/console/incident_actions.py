"""The actions on the page of an incident. Each is an operation of the interface with a form as its body.

Somebody else can be faster: a second tab, a colleague, or the same person by the link in a message. A form
carries what its page showed. If that is no longer true, the person sees both versions and decides again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import orjson
from flask import Response, request

from models.domain.reasons import make_reason
from models.tables.incidents import Incident
from pipeline.messages.content import ACTIONS as STATUS_ACTIONS
from web.http import access
from web.http.auth import now, viewer
from web.http.errors import ApiError, reject
from web.incidents.change_status import change_status
from web.incidents.schemas import fill
from web.incidents.sub_resource import build_viewer_author
from web.pages.base import redirect_to
from web.pages.console.incident import describe, show_refused
from web.pages.console.operations import call
from web.pages.console.page import redirect_done, refuse, render

Form = Mapping[str, str]
# The statuses with which an operation refuses what a form says, and not who sends it.
REFUSED_FORM = (400, 409)
# More than the description of an incident takes.
MAX_SEEN = 16_384
# Fields of a form that are not values of its action.
FRAME = ("csrf", "back", "seen", "act")


@dataclass(frozen=True, slots=True)
class FormAction:
    """An action: its operation, the body that its form makes, and what the page says afterwards.

    `row_id` is the id of a row of the incident in the path of the operation. `overwrites`: the action changes
    what somebody else may have changed meanwhile.
    """

    operation: str
    build_body: Callable[[Form], object]
    done: str
    row_id: str = ""
    overwrites: bool = False


def _take(*names: str, **constants: object) -> Callable[[Form], object]:
    """Return a function that builds a body with these fields of the form. Empty fields are left out."""
    return lambda form: {**{name: form[name] for name in names if form.get(name)}, **constants}


def _take_person_or_policy(*names: str, person: str) -> Callable[[Form], object]:
    """Return a function for forms whose `target` is a person or a policy: `person:ID` or `policy:ID`."""

    def build(form: Form) -> object:
        kind, _, key = form.get("target", "").partition(":")
        if kind not in ("person", "policy") or not key:
            reject("target", "Choose a person or an escalation policy.")
        target = {person if kind == "person" else "escalation_policy": key}
        return {**target, **{name: form[name] for name in names if form.get(name)}}

    return build


def _take_numbers(form: Form) -> object:
    return {"incidents": form.get("incidents", "").replace("#", " ").replace(",", " ").split()}


def _build_edit(form: Form) -> object:
    """Build the body of a change of details. Empty: no summary, no priority."""
    edited = {name: form[name] for name in ("title", "summary") if name in form}
    chosen = {"team_priority": form.get("team_priority") or None, "urgency": form.get("urgency")}
    return {**edited, **{name: value for name, value in chosen.items() if name in form}}


ACTIONS = {
    "note": FormAction("create_incident_note", _take("note"), "The note was added."),
    "edit": FormAction("incidents_change", _build_edit, "The incident was changed.", overwrites=True),
    "reassign": FormAction(
        "actions_reassign",
        _take_person_or_policy("reason", person="assigned_to"),
        "Reassigned.",
        overwrites=True,
    ),
    "snooze": FormAction("actions_snooze", _take("minutes"), "Snoozed.", overwrites=True),
    "unsnooze": FormAction("actions_unsnooze", lambda form: None, "The snooze ended."),
    "page": FormAction(
        "create_incident_responder",
        _take_person_or_policy("message", person="user"),
        "Tocsin notifies them now.",
    ),
    "tag": FormAction("create_incident_tag", _take("team_tag"), "The tag was added."),
    "untag": FormAction("destroy_incident_tag", lambda form: None, "The tag was removed.", "incident_tag_id"),
    "task": FormAction("create_incident_task", _take("title", "assigned_to"), "The task was added."),
    "task_status": FormAction(
        "change_incident_task", _take("status"), "The task was changed.", "incident_task_id"
    ),
    "role": FormAction("create_role_in_an_incident", _take("role", "user"), "The role was given."),
    "end_role": FormAction(
        "destroy_role_in_an_incident", lambda form: None, "The role ended.", "assignment_id"
    ),
    "merge": FormAction("actions_merge", _take_numbers, "Merged."),
    "unmerge": FormAction("actions_unmerge", _take_numbers, "Separated again."),
}


def act(incident: str) -> Response:
    """Do what a form of the incident's page asks for."""
    row = access.access_incident(viewer(), incident)
    fill([row])
    path = f"/incidents/{row.incident_number}/"
    name = request.form.get("act", "")
    action = ACTIONS.get(name)
    if (name in STATUS_ACTIONS or (action and action.overwrites)) and _has_changed(row):
        return _show_both(row, path)
    try:
        if name in STATUS_ACTIONS:
            return _change_status(row, name, path)
        if action is None:
            reject("act", "This action does not exist.")
        ids = {action.row_id: request.form.get("row", "")} if action.row_id else {}
        call(
            action.operation, action.build_body(request.form), None, incident=str(row.incident_number), **ids
        )
    except ApiError as error:
        if error.status in REFUSED_FORM:
            return show_refused(row, error)
        return refuse(error, "The incident was not changed", path)
    return redirect_done(path, action.done)


def _change_status(row: Incident, name: str, path: str) -> Response:
    """Acknowledge or resolve the incident, unless somebody was faster: then show both versions."""
    access.require_permission(viewer(), row.team_id, "incident_write")
    author = build_viewer_author()
    if change_status(row.id, author, name, make_reason("requested", by=author.name), now()):
        return redirect_to(path)
    return _show_both(fill([Incident.get_by_id(row.id)])[0], path)


def _read_seen() -> dict[str, str]:
    """Return what the page with the form showed; {} if the form does not say."""
    text = request.form.get("seen", "")
    try:
        found = orjson.loads(text) if 0 < len(text) <= MAX_SEEN else {}
    except ValueError:
        return {}
    values = found if isinstance(found, dict) else {}
    return {name: value for name, value in values.items() if isinstance(value, str)}


def _has_changed(row: Incident) -> bool:
    seen, present = _read_seen(), describe(row)
    return bool(seen) and any(seen.get(name) != value for name, value in present.items())


def _show_both(row: Incident, path: str) -> Response:
    """Show what the page showed and what is true now. The form repeats the action for the new version."""
    seen = _read_seen()
    present = describe(row)
    fields = [
        {
            "name": name,
            "before": str(seen.get(name, ""))[:1_000],
            "present": value,
            "differs": seen.get(name) != value,
        }
        for name, value in present.items()
    ]
    name = request.form.get("act", "")
    is_possible = name not in STATUS_ACTIONS or row.status in STATUS_ACTIONS[name][1]
    return render(
        "changed_meanwhile.html",
        409,
        incident=row,
        fields=fields,
        action=name,
        values=[(key, value) for key, value in request.form.items(multi=True) if key not in FRAME],
        seen=orjson.dumps(present).decode(),
        is_possible=is_possible,
        back=path,
    )
