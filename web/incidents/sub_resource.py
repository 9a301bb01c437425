"""What stands under an incident, as a resource: not configuration, and each write is in its history."""

from contextlib import AbstractContextManager

from models.domain.effects import Actor, ChangeSet, RecordLog
from models.domain.enums import ActorKind
from models.store.base import store
from models.tables.accounts import get_display_name
from models.tables.incidents import Incident
from models.write.apply import apply
from web.http import access
from web.http.auth import now, viewer
from web.http.permissions import get_permissions
from web.http.resource import Resource


class IncidentResource(Resource):
    """Rows of one incident, for those who may read it and act on it."""

    permissions = get_permissions("incident")

    def get_parent(self, **ids: str) -> Incident:
        return access.access_incident(viewer(), ids["incident"])

    def transaction(self) -> AbstractContextManager[None]:
        return store().write_transaction()


def get_actor() -> Actor:
    """The viewer, as what they do is noted."""
    user = viewer().user
    return Actor(ActorKind.USER, get_display_name(user), user=user.id)


def log_change(incident: Incident, what: str, reason: str) -> None:
    """Write into an incident's history what the viewer does, inside the caller's transaction."""
    log = RecordLog(incident.unique_id, now(), what, f"{reason} by {get_actor().name}", get_actor())
    apply(ChangeSet(effects=[log]), {incident.unique_id: incident.id})
