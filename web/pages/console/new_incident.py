"""Open an incident by hand."""

from flask import Response

from web.http.errors import ApiError
from web.pages.base import redirect_to
from web.pages.console.incident import list_people
from web.pages.console.operations import call, call_if_allowed
from web.pages.console.page import read_form, render
from web.pages.look.refusals import place

FIELDS = ("service", "title", "summary", "urgency", "assigned_to")
MAX_CHOICES = 500


def show() -> Response:
    """Show the form."""
    return _render({}, [], {})


def create() -> Response:
    """Open an incident. It notifies people like an incident that an alert opened."""
    values = read_form(FIELDS)
    try:
        made = call("incidents_create", values)
    except ApiError as error:
        return _render(values, *place(error, FIELDS), error.status)
    return redirect_to(f"/incidents/{made['incident_number']}/")


def _render(
    values: dict[str, str], problems: list[str], at_fields: dict[str, str], code: int = 200
) -> Response:
    services: list[dict[str, object]] = call_if_allowed("services_list_available", [])
    return render(
        "new_incident.html",
        code,
        values=values,
        problems=problems,
        at_fields=at_fields,
        services=[(each["unique_id"], each["name"]) for each in services[:MAX_CHOICES]],
        people=list_people(),
    )
