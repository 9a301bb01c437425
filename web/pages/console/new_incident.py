"""Open an incident by hand."""

from flask import Response

from web.http.auth import viewer
from web.http.errors import ApiError
from web.incidents.incidents import create_incident
from web.pages.base import redirect_to
from web.pages.console.incident import list_people
from web.pages.console.page import read_form, render
from web.pages.look.refusals import place
from web.services.services import list_for_incidents

FIELDS = ("service", "title", "summary", "urgency", "assigned_to")
MAX_CHOICES = 500


def show() -> Response:
    """Show the form."""
    return _render({}, [], {})


def create() -> Response:
    """Open an incident. It notifies people like an incident that an alert opened."""
    values = read_form(FIELDS)
    try:
        made = create_incident(viewer(), values)
    except ApiError as error:
        return _render(values, *place(error, FIELDS), error.status)
    return redirect_to(f"/incidents/{made.incident_number}/")


def _render(
    values: dict[str, str], problems: list[str], at_fields: dict[str, str], code: int = 200
) -> Response:
    services = list_for_incidents(viewer())
    return render(
        "new_incident.html",
        code,
        values=values,
        problems=problems,
        at_fields=at_fields,
        services=[(each.unique_id, each.name) for each in services[:MAX_CHOICES]],
        people=list_people(),
    )
