"""Assign, snooze and merge incidents: operations of Tocsin, contract section 4.3.

pipeline.incidents decides what each operation changes, under the locks of all incidents that it changes.
"""

from datetime import datetime, timedelta
from typing import Any

from marshmallow import validate

from models.domain.effects import Effect, IncidentState
from models.domain.facts import IncidentContext
from models.domain.reasons import describe
from models.load.lane import LockedIncidents, list_slas, lock_with_children
from models.load.oncall_config import load_slas
from models.store.store import store
from models.tables.incidents import Incident
from pipeline import incidents
from web.http import access, serialization
from web.http.auth import Viewer, now, operation, viewer
from web.http.errors import NotFound, reject
from web.http.fields import (
    List,
    OptionalMoment,
    OptionalNumber,
    Reference,
    Schema,
    TextOrNumber,
    Username,
    explain,
)
from web.incidents.incidents import get_policy_ids, load_assignee, lock_round_robin, resolve_references
from web.incidents.schemas import Reason, fill
from web.incidents.sub_resource import build_viewer_author, change_as_viewer, write_effects

MAX_SNOOZE = timedelta(days=30)
# The largest number of incidents that are merged into one. One transaction changes all of them.
MAX_CHILDREN = 1_000


class ReassignSchema(Schema):
    """Either a person or a policy, and a reason."""

    assigned_to = Username(
        metadata=explain("The username of the new assignee, or null if `escalation_policy` is given.")
    )
    escalation_policy = Reference(
        metadata=explain(
            "The unique_id of the policy that starts instead, or null if `assigned_to` is given."
        )
    )
    reason = Reason(metadata=explain("Why, for the incident timeline."))


class SnoozeSchema(Schema):
    """Either the end of the snooze or its length in minutes."""

    until = OptionalMoment(
        metadata=explain("The end of the snooze, at most 30 days from now; null if `minutes` is given.")
    )
    minutes = OptionalNumber(
        min_value=1,
        max_value=MAX_SNOOZE // timedelta(minutes=1),
        metadata=explain("The length of the snooze in minutes; null if `until` is given."),
    )


class IncidentRefsSchema(Schema):
    """Other incidents, each identified by number or unique_id."""

    incidents = List(
        TextOrNumber(limit=64),
        required=True,
        validate=validate.Length(min=1),
        metadata=explain("Other incidents, each by number or unique_id."),
    )


REASSIGN = ReassignSchema()
SNOOZE = SnoozeSchema()
INCIDENT_REFS = IncidentRefsSchema()


def reassign(incident: str) -> Incident:
    """Assign an incident to a person or to another escalation policy."""
    return reassign_incident(viewer(), incident, serialization.REQUEST_BODY)


@operation("incident_write")
def reassign_incident(who: Viewer, incident: str, body: object) -> Incident:
    """Assign an incident, which a number or a unique_id names."""
    row = access.access_incident(who, incident)
    values = serialization.load(REASSIGN, body)
    _require_one(values, "assigned_to", "escalation_policy")
    requested = resolve_references(values, row.team)
    note = describe(requested.get("reason", ""))

    def decide(context: IncidentContext) -> tuple[Effect, ...]:
        context = lock_round_robin(context, requested.get("escalation_policy"))
        if requested.get("assigned_to"):
            return incidents.assign(context, load_assignee(requested)["assigned_to"], note)
        return incidents.change_policy(context, requested["escalation_policy"], note)

    change_as_viewer(row, decide, policies=get_policy_ids(requested))
    return _reload(row)


def snooze(incident: str) -> Incident:
    """Snooze an acknowledged incident. It is triggered again at the end of the snooze."""
    return snooze_incident(viewer(), incident, serialization.REQUEST_BODY)


@operation("incident_write")
def snooze_incident(who: Viewer, incident: str, body: object) -> Incident:
    """Snooze an incident, which a number or a unique_id names."""
    row = access.access_incident(who, incident)
    until = _get_until(serialization.load(SNOOZE, body))

    def decide(context: IncidentContext) -> tuple[Effect, ...]:
        obstacle = incidents.check_snooze(context.incident)
        if obstacle:
            reject("incident", obstacle)
        return incidents.snooze(context, until)

    change_as_viewer(row, decide)
    return _reload(row)


def unsnooze(incident: str) -> None:
    """End the snooze of an incident early. It stays acknowledged."""
    end_snooze(viewer(), incident)


@operation("incident_write")
def end_snooze(who: Viewer, incident: str) -> None:
    """End the snooze of an incident, which a number or a unique_id names."""
    row = access.access_incident(who, incident)
    change_as_viewer(row, incidents.unsnooze)


def merge(incident: str) -> Incident:
    """Merge other incidents into this one. They notify nobody and are resolved together with it."""
    return merge_incidents(viewer(), incident, serialization.REQUEST_BODY)


@operation("incident_write")
def merge_incidents(who: Viewer, incident: str, body: object) -> Incident:
    """Merge the incidents of the body into the one that a number or a unique_id names."""
    row = access.access_incident(who, incident)
    children_rows = _find_incidents(who, serialization.load(INCIDENT_REFS, body)["incidents"])
    with store().write_transaction():
        found, parent, children = _lock_for_merge(row, children_rows)
        obstacle = incidents.check_merge(parent, children)
        if obstacle:
            reject("incidents", obstacle)
        grandchildren = [grandchild for child in children for grandchild in found.get_children(child)]
        if len(found.get_children(parent)) + len(children) + len(grandchildren) > MAX_CHILDREN:
            reject("incidents", f"No more than {MAX_CHILDREN:,} incidents may be merged into one.")
        merged = incidents.merge(parent, children, grandchildren, build_viewer_author(), now())
        write_effects(row, merged)
    return _reload(row)


def unmerge(incident: str) -> Incident:
    """Separate merged incidents from this one again. They stay acknowledged."""
    return separate_incidents(viewer(), incident, serialization.REQUEST_BODY)


@operation("incident_write")
def separate_incidents(who: Viewer, incident: str, body: object) -> Incident:
    """Separate the incidents of the body from the one that a number or a unique_id names."""
    row = access.access_incident(who, incident)
    children_rows = _find_incidents(who, serialization.load(INCIDENT_REFS, body)["incidents"])
    with store().write_transaction():
        found, parent, children = _lock_for_merge(row, children_rows)
        not_merged = ", ".join(f"#{child.number}" for child in children if child.parent != parent.row)
        if not_merged:
            reject("incidents", f"Not merged into this incident: {not_merged}.")
        author, at, slas = build_viewer_author(), now(), load_slas(list_slas(children))
        contexts = [
            IncidentContext(child, found.services.get(child.service or 0), slas, author, at)
            for child in children
        ]
        unmerged = [incidents.unmerge(context, parent) for context in contexts]
        write_effects(row, (effect for effects in unmerged for effect in effects))
    return _reload(row)


def _require_one(values: dict[str, object], first: str, second: str) -> None:
    if bool(values.get(first)) == bool(values.get(second)):
        reject(first, f"Give either {first} or {second}.")


def _get_until(values: dict[str, Any]) -> datetime:
    _require_one(values, "until", "minutes")
    until: datetime = values.get("until") or now() + timedelta(minutes=values["minutes"])
    if not now() < until <= now() + MAX_SNOOZE:
        reject("until", f"Must be later than now, by at most {MAX_SNOOZE.days} days.")
    return until


def _find_incidents(who: Viewer, references: list[str]) -> list[Incident]:
    """Return the incidents that a body names. Raise BadRequest for those that the viewer cannot change."""
    found = access.find_incidents(who, references)
    missing = [reference for reference in references if reference not in found]
    if missing:
        reject("incidents", f"No such incidents: {', '.join(missing)}.")
    if len({row.id for row in found.values()}) < len(references):
        reject("incidents", "Name each incident only once.")
    return [found[reference] for reference in references]


def _lock_for_merge(
    row: Incident, children_rows: list[Incident]
) -> tuple[LockedIncidents, IncidentState, list[IncidentState]]:
    """Lock these incidents and all incidents merged into them.

    Return everything that is locked, then the parent and the children of the request.
    """
    found = lock_with_children([row.id, *(incident.id for incident in children_rows)])
    if any(incident.id not in found.incidents for incident in (row, *children_rows)):
        raise NotFound
    return found, found.incidents[row.id], [found.incidents[incident.id] for incident in children_rows]


def _reload(row: Incident) -> Incident:
    return fill([Incident.get_by_id(row.id)])[0]
