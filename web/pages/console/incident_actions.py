"""The actions on the page of an incident. Each is an operation of the interface, with the values of a form.

Somebody else can be faster: a second tab, a colleague, or the same person by the link in a message. A form
carries what its page showed. If that is no longer true, the person sees both versions and decides again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import orjson
from flask import Response, request

from models.tables.incidents import Incident
from pipeline.messages.content import ACTIONS as STATUS_ACTIONS
from web.http import access
from web.http.access import Row
from web.http.auth import now, viewer
from web.http.errors import ApiError, reject
from web.http.resource import Resource
from web.incidents import actions
from web.incidents.change_status import change_status
from web.incidents.incidents import retrieve_incident, update_incident
from web.incidents.notes import INCIDENT_NOTES
from web.incidents.responders import RESPONDERS
from web.incidents.role_assignments import ASSIGNMENTS
from web.incidents.schemas import fill
from web.incidents.sub_resource import build_viewer_author, explain_status
from web.incidents.tags import INCIDENT_TAGS
from web.incidents.tasks import INCIDENT_TASKS
from web.pages.base import redirect_to
from web.pages.console.incident import describe, show_refused
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
    """An action: what it does to an incident (its number) with a form, and what the page says afterwards.

    `overwrites`: the action changes what somebody else may have changed meanwhile.
    """

    run: Callable[[str, Form], object]
    done: str
    overwrites: bool = False


def _take(form: Form, *names: str) -> dict[str, str]:
    """Return these fields of the form. Empty fields are left out."""
    return {name: form[name] for name in names if form.get(name)}


def _take_target(form: Form, person: str) -> dict[str, str]:
    """Return the person or the policy of a form, whose `target` is `person:ID` or `policy:ID`."""
    kind, _, key = form.get("target", "").partition(":")
    if kind not in ("person", "policy") or not key:
        reject("target", "Choose a person or an escalation policy.")
    return {person if kind == "person" else "escalation_policy": key}


def _take_numbers(form: Form) -> object:
    return {"incidents": form.get("incidents", "").replace("#", " ").replace(",", " ").split()}


def _build_edit(form: Form) -> object:
    """Build the body of a change of details. Empty: no summary, no priority."""
    edited = {name: form[name] for name in ("title", "summary") if name in form}
    chosen = {"team_priority": form.get("team_priority") or None, "urgency": form.get("urgency")}
    return {**edited, **{name: value for name, value in chosen.items() if name in form}}


def _reassign(number: str, form: Form) -> object:
    body = {**_take_target(form, "assigned_to"), **_take(form, "reason")}
    return actions.reassign_incident(viewer(), number, body)


def _page(number: str, form: Form) -> object:
    body = {**_take_target(form, "user"), **_take(form, "message")}
    return RESPONDERS.create_row(viewer(), body, incident=number)


def _create(resource: Resource[Row, Incident], *names: str) -> Callable[[str, Form], object]:
    """Return a function that creates a row of an incident with these fields of the form."""
    return lambda number, form: resource.create_row(viewer(), _take(form, *names), incident=number)


def _delete(resource: Resource[Row, Incident]) -> Callable[[str, Form], object]:
    """Return a function that deletes the row of an incident that the form names."""
    return lambda number, form: resource.delete_row(
        viewer(), **{"incident": number, resource.id_arg: form.get("row", "")}
    )


def _change_task(number: str, form: Form) -> object:
    ids = {"incident": number, INCIDENT_TASKS.id_arg: form.get("row", "")}
    return INCIDENT_TASKS.change_row(viewer(), _take(form, "status"), **ids)


ACTIONS = {
    "note": FormAction(_create(INCIDENT_NOTES, "note"), "The note was added."),
    "edit": FormAction(
        lambda number, form: update_incident(viewer(), number, _build_edit(form)),
        "The incident was changed.",
        overwrites=True,
    ),
    "reassign": FormAction(_reassign, "Reassigned.", overwrites=True),
    "snooze": FormAction(
        lambda number, form: actions.snooze_incident(viewer(), number, _take(form, "minutes")),
        "Snoozed.",
        overwrites=True,
    ),
    "unsnooze": FormAction(lambda number, form: actions.end_snooze(viewer(), number), "The snooze ended."),
    "page": FormAction(_page, "Tocsin notifies them now."),
    "tag": FormAction(_create(INCIDENT_TAGS, "team_tag"), "The tag was added."),
    "untag": FormAction(_delete(INCIDENT_TAGS), "The tag was removed."),
    "task": FormAction(_create(INCIDENT_TASKS, "title", "assigned_to"), "The task was added."),
    "task_status": FormAction(_change_task, "The task was changed."),
    "role": FormAction(_create(ASSIGNMENTS, "role", "user"), "The role was given."),
    "end_role": FormAction(_delete(ASSIGNMENTS), "The role ended."),
    "merge": FormAction(
        lambda number, form: actions.merge_incidents(viewer(), number, _take_numbers(form)), "Merged."
    ),
    "unmerge": FormAction(
        lambda number, form: actions.separate_incidents(viewer(), number, _take_numbers(form)),
        "Separated again.",
    ),
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
        action.run(str(row.incident_number), request.form)
    except ApiError as error:
        if error.status in REFUSED_FORM:
            return show_refused(row, error)
        return refuse(error, "The incident was not changed", path)
    return redirect_done(path, action.done)


def _change_status(row: Incident, name: str, path: str) -> Response:
    """Acknowledge or resolve the incident, unless somebody was faster: then show both versions."""
    access.require_permission(viewer(), row.team_id, "incident_write")
    to, _ = STATUS_ACTIONS[name]
    if change_status(row.id, build_viewer_author(), name, explain_status(to), now()):
        return redirect_to(path)
    return _show_both(retrieve_incident(viewer(), str(row.incident_number)), path)


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
