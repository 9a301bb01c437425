"""The alerts of an integration (contract 2.8, X9), and the integration of a key (X8)."""

from flask import Response, request
from marshmallow import fields

from models.tables.events import Event
from models.tables.services import Integration, Service
from models.tables.teams import Team
from web.http import access, client_profile, paging
from web.http.auth import viewer
from web.http.fields import Schema, Text, explain
from web.incidents import alerts


class ParentSchema(Schema):
    name = Text(dump_only=True)
    unique_id = Text(dump_only=True)


class KeyedIntegrationSchema(ParentSchema):
    extension = Text(dump_only=True, metadata=explain("The name of its application in addresses."))


class IntegrationMetadataSchema(Schema):
    """An integration with its service and team."""

    team = fields.Nested(
        ParentSchema, attribute="service.team", dump_only=True, metadata=explain("The team of the service.")
    )
    service = fields.Nested(ParentSchema, dump_only=True, metadata=explain("The service of the integration."))
    integration = fields.Nested(KeyedIntegrationSchema, dump_only=True, metadata=explain("The integration."))


METADATA = IntegrationMetadataSchema()


def index(team_id: str, service_id: str, integration_id: str) -> dict[str, object] | Response:
    """List the alerts of an integration, newest first. The answer is a page, or the latest alerts."""
    integration = access.access_integration(viewer(), team_id, service_id, integration_id)
    found = Event.select(Event.id).where(Event.integration == integration)
    latest = found.order_by(Event.id.desc()).tuples()
    if client_profile.current().has_paged_lists or "page" in request.args:
        return paging.build_page(latest, paging.read_page(), alerts.load_alerts)
    return paging.build_array(latest, alerts.load_alerts)


def get_metadata(integration_key: str) -> dict[str, object]:
    """Get the names of an integration, its service and its team by its key."""
    rows = (
        Integration.select(Integration, Service, Team)
        .join(Service)
        .join(Team)
        .where(Team.account == viewer().account)
    )
    integration = access.find(rows, Integration.integration_key, integration_key)
    access.require_permission(viewer(), integration.service.team_id)
    integration.extension = integration.application_reference.extension
    return {"service": integration.service, "integration": integration}
