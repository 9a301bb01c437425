"""Incidents and alerts with their trace_ids (under /api/tocsin/). The contract has no field for them."""

from marshmallow import fields

from models.reports.trace_ids import find_trace_ids, find_trace_ids_of_alerts
from models.tables.events import Event
from models.tables.incidents import Incident
from models.tables.services import Integration, Service
from models.tables.teams import Team
from web.http import access, paging
from web.http.auth import viewer
from web.http.fields import List, Text, explain
from web.http.paging import PageSchema
from web.incidents import alerts, filters
from web.incidents.alerts import AlertSchema
from web.incidents.schemas import ListedIncidentSchema, fill


class TracedIncidentSchema(ListedIncidentSchema):
    """An incident with the trace_id of the alert that opened it."""

    trace_id = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain(
            "The trace_id of the alert that opened the incident; null: no alert of it is stored."
        ),
    )


class TracedIncidentPageSchema(PageSchema):
    results = List(fields.Nested(TracedIncidentSchema), dump_only=True)


class TracedAlertSchema(AlertSchema):
    """An alert with the trace_id of its receipt, which `GET /api/tocsin/alerts/TRACE_ID/` explains."""

    trace_id = Text(dump_only=True)


class TracedAlertPageSchema(PageSchema):
    results = List(fields.Nested(TracedAlertSchema), dump_only=True)


INCIDENT = TracedIncidentSchema()
INCIDENTS = TracedIncidentPageSchema()
ALERTS = TracedAlertPageSchema()


def index() -> dict[str, object]:
    """List incidents with their trace_ids, oldest first, page by page.

    The trace_id of an incident is that of the alert that opened it.

    The filter is that of `GET /api/incidents/`: `status` in the query is 1, 2 or 3; -1 means open incidents,
    0 all of them. A value that cannot be parsed sets no limit.
    """
    return filters.build_page(_add_trace_ids)


def retrieve(incident: str) -> Incident:
    """Get an incident with the trace_id of the alert that opened it."""
    return _add_trace_ids(fill([access.access_incident(viewer(), incident)]))[0]


def list_alerts(incident: str) -> dict[str, object]:
    """List the alerts of an incident with their trace_ids, oldest first, page by page."""
    row = access.access_incident(viewer(), incident)
    found = Event.select(Event.id).where(Event.incident == row).order_by(Event.id).tuples()
    return paging.build_page(found, paging.read_page(), _load_alerts)


def list_alerts_of_integration(integration_id: str) -> dict[str, object]:
    """List the alerts of an integration with their trace_ids, newest first, page by page."""
    rows = Integration.select(Integration, Service).join(Service).join(Team)
    rows = rows.where(Team.account == viewer().account)
    row: Integration = access.find(rows, Integration.unique_id, integration_id)
    access.require_permission(viewer(), row.service.team_id)
    found = Event.select(Event.id).where(Event.integration == row).order_by(Event.id.desc()).tuples()
    return paging.build_page(found, paging.read_page(), _load_alerts)


def _load_alerts(page: list[tuple[int]]) -> list[dict[str, object]]:
    shown = alerts.load_alerts(page)
    found = find_trace_ids_of_alerts([str(alert["unique_id"]) for alert in shown])
    return [{**alert, "trace_id": found.get(str(alert["unique_id"]))} for alert in shown]


def _add_trace_ids(incidents: list[Incident]) -> list[Incident]:
    found = find_trace_ids([incident.id for incident in incidents])
    for incident in incidents:
        incident.trace_id = found.get(incident.id)
    return incidents
