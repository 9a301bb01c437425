"""Find an integration by its ID alone, for operations under /api/tocsin/integrations/."""

from models.tables.services import Integration, Service
from models.tables.teams import Team
from web.http import access
from web.http.auth import viewer


def access_integration(integration_id: str) -> Integration:
    """Return an integration of the viewer's account. NotFound, or Forbidden without a right in its team."""
    rows = Integration.select(Integration, Service).join(Service).join(Team)
    rows = rows.where(Team.account == viewer().account)
    row: Integration = access.find(rows, Integration.unique_id, integration_id)
    access.require_permission(viewer(), row.service.team_id)
    return row
