"""The form "what would happen if this alert came": the operation `simulate` with words instead of JSON."""

from typing import Any

from flask import Response

from models.domain.enums import IntegrationType
from models.tables.services import Integration, Service
from web.http import access
from web.http.auth import viewer
from web.http.errors import ApiError
from web.pages.console.local_times import read_local
from web.pages.console.operations import call
from web.pages.console.page import read_form, render
from web.pages.console.why import build_picture
from web.pages.look.refusals import place

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
        found = call("simulate_run", _build_body(values))
    except ApiError as error:
        return _render(values, *place(error, FIELDS), None, error.status)
    return _render(values, [], {}, found)


def _build_body(values: dict[str, str]) -> dict[str, object]:
    alert = {name: values[name] for name in ("message", "entity_id", "alert_type") if name in values}
    at = {"at": read_local("at", values["at"]).isoformat()} if "at" in values else {}
    return {"integration": values.get("integration", ""), "alert": alert, **at}


def _render(
    values: dict[str, str], problems: list[str], at_fields: dict[str, str], found: Any, code: int = 200
) -> Response:
    return render(
        "simulation.html",
        code,
        values=values,
        problems=problems,
        at_fields=at_fields,
        found=found,
        pictures=[build_picture(alert) for alert in found["alerts"]] if found else [],
        integrations=_list_integrations(),
        levels=[(level, level) for level in LEVELS],
        zone=viewer().user.time_zone,
    )


def _list_integrations() -> list[tuple[str, str]]:
    """Return the integrations that the person may read, with the names of their services."""
    teams = access.select_permitted_teams(viewer(), "integration_read")
    rows = (
        Integration.select(Integration.unique_id, Integration.name, Service.name)
        .join(Service)
        .where(Service.team.in_(teams), Integration.integration_type == IntegrationType.ALERT)
        .order_by(Service.name, Integration.name, Integration.id)
        .limit(MAX_CHOICES)
    )
    return [(unique_id, f"{service}: {name}") for unique_id, name, service in rows.tuples()]
