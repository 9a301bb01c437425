"""Resources of an incident, such as notes. They are not configuration. The timeline records each write."""

from collections.abc import Iterable

from models.domain.effects import Author, Effect, RecordLog
from models.domain.enums import AuthorKind, IncidentStatus
from models.domain.reasons import Reason, make_reason
from models.tables.accounts import get_display_name
from models.tables.incidents import Incident
from models.write.change_incident import Decide, change_incident, write_changes
from web.http import access
from web.http.access import Row
from web.http.auth import now, viewer
from web.http.errors import NotFound
from web.http.permissions import get_permissions
from web.http.resource import Resource
from workers import queue


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


def explain_status(to: IncidentStatus) -> Reason:
    """Return why this request changes a status: who did it, and whether on a page or by the interface."""
    by = get_author_name()
    # A signed-in page has no token.
    on_page = viewer().token_row is None
    if to is IncidentStatus.ACKNOWLEDGED:
        if on_page:
            return make_reason("acknowledged_on_page", by=by)
        return make_reason("acknowledged_by_interface", by=by)
    if to is IncidentStatus.RESOLVED:
        if on_page:
            return make_reason("resolved_on_page", by=by)
        return make_reason("resolved_by_interface", by=by)
    return make_reason("requested", by=by)


def change_as_viewer(
    incident: Incident, decide: Decide, *, policies: Iterable[int] = (), slas: Iterable[int] = ()
) -> None:
    """Change an incident in the name of the viewer, as change_incident(). Raise NotFound if it is deleted."""
    author = build_viewer_author()
    before = change_incident(
        incident.id, author, decide, now(), queue.enqueue_deliveries, policies=policies, slas=slas
    )
    if before is None:
        raise NotFound


def write_effects(incident: Incident, effects: Iterable[Effect]) -> None:
    """Write effects on an incident, in the transaction of the caller. Those that change it need its lock."""
    write_changes(effects, {incident.unique_id: incident.id}, queue.enqueue_deliveries)


def log_change(incident: Incident, what: str, why: Reason) -> None:
    """Record a change by the viewer in the incident timeline, in the transaction of the caller."""
    write_effects(incident, [RecordLog(incident.unique_id, now(), what, why, build_viewer_author())])


def get_author_name() -> str:
    """Return the name of the viewer, for reasons."""
    return build_viewer_author().name
