"""What stands under an incident, as a resource: not configuration, and each write is in its history."""

from contextlib import AbstractContextManager

from models.accounts import display_name
from models.apply import apply
from models.base import store
from models.effects import Actor, Outcome, RecordLog
from models.enums import ActorKind
from models.incidents import Incident
from web import access
from web.auth import now, viewer
from web.permissions import named
from web.resource import Resource


class PartOfIncident(Resource):
    """Rows of one incident, for those who may read it and act on it."""

    needs = named("incident")

    def parent(self, **ids: str) -> Incident:
        return access.access_incident(viewer(), ids["incident"])

    def writing(self) -> AbstractContextManager[None]:
        return store().writing()


def acting() -> Actor:
    """The viewer, as what they do is noted."""
    user = viewer().user
    return Actor(ActorKind.USER, display_name(user), user=user.id)


def note(incident: Incident, what: str, reason: str) -> None:
    """Write into an incident's history what the viewer does, inside the caller's transaction."""
    log = RecordLog(incident.unique_id, now(), what, f"{reason} by {acting().name}", acting())
    apply(Outcome(effects=[log]), {incident.unique_id: incident.id})
