"""The form "what would happen if this alert came": the operation `simulate` with words instead of JSON."""

from collections.abc import Mapping, Sequence

from flask import Response

from models.reports.alert_trace import JsonDict
from web.http.auth import viewer
from web.http.errors import ApiError
from web.operations.simulate import SIMULATION, list_for_simulation, simulate_alert
from web.pages.console.local_times import read_local
from web.pages.console.page import read_form, render
from web.pages.console.why import build_picture
from web.pages.look.refusals import place

# The answer of the operation.
_Found = Mapping[str, Sequence[JsonDict]]

MAX_CHOICES = 500
FIELDS = ("integration", "message", "entity_id", "alert_type", "at")
LEVELS = ("critical", "error", "warning", "info")


def show() -> Response:
    """Show the form."""
    return _render({}, [], {}, None)


def run() -> Response:
    """Show what would happen, below the form with the same values. Nothing is stored or sent."""
    values = read_form(FIELDS)
    try:
        found = SIMULATION.dump(simulate_alert(viewer(), _build_body(values)))
    except ApiError as error:
        return _render(values, *place(error, FIELDS), None, error.status)
    return _render(values, [], {}, found)


def _build_body(values: dict[str, str]) -> dict[str, object]:
    alert = {name: values[name] for name in ("message", "entity_id", "alert_type") if name in values}
    at = {"at": read_local("at", values["at"]).isoformat()} if "at" in values else {}
    return {"integration": values.get("integration", ""), "alert": alert, **at}


def _render(
    values: dict[str, str],
    problems: list[str],
    at_fields: dict[str, str],
    found: _Found | None,
    code: int = 200,
) -> Response:
    return render(
        "simulation.html",
        code,
        values=values,
        problems=problems,
        at_fields=at_fields,
        found=found,
        pictures=[build_picture(alert) for alert in found["alerts"]] if found else [],
        integrations=list_for_simulation(viewer(), MAX_CHOICES),
        levels=[(level, level) for level in LEVELS],
        zone=viewer().user.time_zone,
    )
