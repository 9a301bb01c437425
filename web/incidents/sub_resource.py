"""Resources below an incident. They are not configuration, and its timeline records each write."""

from contextlib import AbstractContextManager

from models.domain.effects import Author, ChangeSet, RecordLog
from models.domain.enums import AuthorKind
from models.store.base import store
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

    def get_parent(self, **ids: str) -> Incident:
        return access.access_incident(viewer(), ids["incident"])

    def transaction(self) -> AbstractContextManager[None]:
        return store().write_transaction()


def build_viewer_author() -> Author:
    """Return the viewer as the author of changes for the incident timeline."""
    user = viewer().user
    return Author(AuthorKind.USER, get_display_name(user), user=user.id)


def log_change(incident: Incident, what: str, reason: str) -> None:
    """Record a change by the viewer in the incident timeline, in the transaction of the caller."""
    author = build_viewer_author()
    log = RecordLog(incident.unique_id, now(), what, f"{reason} by {author.name}", author)
    apply(ChangeSet(effects=[log]), {incident.unique_id: incident.id})
