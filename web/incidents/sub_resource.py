"""Resources of an incident, such as notes. They are not configuration. The timeline records each write."""

from models.domain.effects import Author, ChangeSet, RecordLog
from models.domain.enums import AuthorKind
from models.domain.reasons import Reason
from models.tables.accounts import get_display_name
from models.tables.incidents import Incident
from models.write.apply import apply
from web.http import access
from web.http.access import Row
from web.http.auth import now, viewer
from web.http.permissions import get_permissions
from web.http.resource import Resource


class IncidentResource(Resource[Row, Incident]):
    """The rows of one incident, for viewers who may read and change the incident."""

    permissions = get_permissions("incident")
    is_configuration = False

    def get_parent(self, **ids: str) -> Incident:
        return access.access_incident(viewer(), ids["incident"])


def build_viewer_author() -> Author:
    """Return the viewer as the author of changes for the incident timeline."""
    user = viewer().user
    return Author(AuthorKind.USER, get_display_name(user), user=user.id)


def log_change(incident: Incident, what: str, why: Reason) -> None:
    """Record a change by the viewer in the incident timeline, in the transaction of the caller."""
    log = RecordLog(incident.unique_id, now(), what, why, build_viewer_author())
    apply(ChangeSet(effects=[log]), {incident.unique_id: incident.id})


def get_author_name() -> str:
    """Return the name of the viewer, for reasons."""
    return build_viewer_author().name
