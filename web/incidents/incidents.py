"""Create, update and read incidents through the interface: contract sections 2.5, 3.7 and 4.3.

pipeline.incidents decides each change under the lock of the service, as for alerts and timers.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from models.domain.effects import Author, Effect, IncidentState, RecordLog, SaveIncident
from models.domain.enums import IncidentStatus, Urgency
from models.domain.facts import IncidentContext, OnCallConfig, PersonFacts, ServiceFacts
from models.domain.reasons import make_reason
from models.domain.values import replace
from models.load.lane import load_service_config
from models.load.notification_facts import load_notifications
from models.load.oncall_config import load_people, lock_next_target
from models.store.ids import make_short_id
from models.store.store import store
from models.tables.incidents import Incident
from models.tables.services import Service
from models.tables.teams import Priority, Sla, Team
from models.write.change_incident import write_changes
from pipeline import incidents
from pipeline.incidents.new_incident import NewIncident, build_incident
from web.http import access, serialization
from web.http.auth import Viewer, now, operation, viewer
from web.http.errors import collect_refusals, reject
from web.incidents.schemas import IncidentChangeSchema, IncidentSchema, NewIncidentSchema, fill
from web.incidents.sub_resource import build_viewer_author, change_as_viewer, explain_status
from web.services.services import get_team_row, get_usable_policy
from web.teams.teams import get_account_member
from workers import queue

NEW = NewIncidentSchema()
CHANGE = IncidentChangeSchema()
INCIDENT = IncidentSchema()


def retrieve(incident: str) -> Incident:
    """Get an incident."""
    return retrieve_incident(viewer(), incident)


@operation("incident_read")
def retrieve_incident(who: Viewer, incident: str) -> Incident:
    """Return the incident that a number or a unique_id names."""
    return fill([access.access_incident(who, incident)])[0]


def create() -> Incident:
    """Create an incident. It notifies people like an incident that an alert opened."""
    return create_incident(viewer(), serialization.REQUEST_BODY)


@operation("incident_write")
def create_incident(who: Viewer, body: object) -> Incident:
    """Create an incident with the values of a body."""
    values = serialization.load(NEW, body)
    service = _find_service(who, values.pop("service"))
    requested = resolve_references(values, service.team)
    with store().write_transaction():
        unique_id = open_incident(service.id, requested, build_viewer_author(), now())
        if unique_id is None:
            reject("service", "The service was deleted meanwhile.")
    return fill([Incident.get(Incident.unique_id == unique_id)])[0]


def open_incident(service: int, requested: dict[str, Any], author: Author, at: datetime) -> str | None:
    """Open an incident with the requested values in a service (row number). Needs a write transaction.

    Return its unique_id; None: the service was deleted.
    """
    found = load_service_config(service, get_policy_ids(requested), slas=get_sla_ids(requested))
    if found is None:
        return None
    new = _build_new(load_assignee(requested))
    write_changes(_open(new, *found, author, at), {}, queue.enqueue_deliveries)
    return new.unique_id


def update(incident: str) -> Incident:
    """Update an incident. A service in the body is ignored."""
    return update_incident(viewer(), incident, serialization.REQUEST_BODY)


@operation("incident_write")
def update_incident(who: Viewer, incident: str, body: object) -> Incident:
    """Change an incident, which a number or a unique_id names, by the values of a body."""
    row = access.access_incident(who, incident)
    requested = resolve_references(serialization.load(CHANGE, body, partial=True), row.team)
    change_as_viewer(
        row,
        lambda context: _decide(context, load_assignee(requested)),
        policies=get_policy_ids(requested),
        slas=get_sla_ids(requested),
    )
    return fill([Incident.get_by_id(row.id)])[0]


def _find_service(who: Viewer, unique_id: str) -> Service:
    """Return the service that a body names.

    Raise BadRequest if the service is unknown, Forbidden without the permission in its team.
    """
    service: Service | None = (
        Service.select(Service, Team)
        .join(Team)
        .where(Service.unique_id == unique_id, Team.account == who.account)
        .first()
    )
    if service is None:
        reject("service", f"{unique_id} is not a service of this account.")
    access.require_permission(who, service.team_id)
    return service


def resolve_references(values: dict[str, Any], team: Team) -> dict[str, Any]:
    """Return the body with rows instead of IDs. Raise BadRequest for objects that the team may not use."""
    with collect_refusals() as check:
        for name, model in (("sla", Sla), ("team_priority", Priority)):
            if values.get(name):
                with check():
                    values[name] = get_team_row(model, team, values[name], name).id
        policy = values.get("escalation_policy")
        if policy:
            with check():
                values["escalation_policy"] = get_usable_policy(team, policy, "escalation_policy").id
        if values.get("assigned_to"):
            with check():
                get_account_member(team.account, values["assigned_to"], "assigned_to")
    return values


def load_assignee(requested: dict[str, Any]) -> dict[str, Any]:
    """Return the body with the assignee as facts. Raise BadRequest for a user who is not in the account.

    The lock on the user delays an offboarding until this transaction ends.
    """
    username = requested.get("assigned_to")
    if not username:
        return requested
    found = load_people([username])
    if username not in found:
        reject("assigned_to", f"{username} is not a member of this account.")
    return {**requested, "assigned_to": found[username]}


def get_policy_ids(requested: dict[str, Any]) -> list[int]:
    return [requested["escalation_policy"]] if requested.get("escalation_policy") else []


def get_sla_ids(requested: dict[str, Any]) -> list[int]:
    return [requested["sla"]] if requested.get("sla") else []


def _build_new(requested: dict[str, Any]) -> NewIncident:
    """Return what a request says about a new incident. Later alerts of the service never join it."""
    return NewIncident(
        unique_id=make_short_id(),
        incident_key=make_short_id(),
        title=requested["title"],
        summary=requested.get("summary", ""),
        urgency=Urgency(requested.get("urgency", Urgency.HIGH)),
        status=IncidentStatus(requested.get("status", IncidentStatus.TRIGGERED)),
        escalation_policy=requested.get("escalation_policy"),
        sla=requested.get("sla"),
        team_priority=requested.get("team_priority"),
        assignee=requested.get("assigned_to"),
    )


def _open(
    new: NewIncident, service: ServiceFacts, config: OnCallConfig, author: Author, at: datetime
) -> Iterable[Effect]:
    """Yield the effects that create the incident, and start its escalation if it is triggered."""
    if new.assignee is None:
        config = lock_next_target(config, new.escalation_policy or service.escalation_policy)
    incident, advanced = build_incident(new, service, config, config.next_targets, at)
    context = IncidentContext(incident, service, config, author, at)
    templates = [service.task_template]
    yield from incidents.open_incident(context, make_reason("created", by=author.name), templates=templates)
    if new.status is IncidentStatus.TRIGGERED:
        yield from incidents.start_for_assignee(context, new.assignee)
    else:
        yield from incidents.save_with_timers(context)
    yield from advanced


Effects = tuple[Effect, ...]


def _decide(context: IncidentContext, requested: dict[str, Any]) -> list[Effect]:
    """Return the effects of the requested changes, in this order: details, policy, assignee, status."""
    changes = [_change_details, _change_policy, _change_assignee, _change_status]
    # If a client sends the present assignee back, the assignee stays and the escalation run continues.
    if not _has_new_assignee(context.incident, requested):
        changes.remove(_change_assignee)
    effects: list[Effect] = []
    for change in changes:
        more = change(context, requested)
        context = context.with_incident(incidents.get_saved(context.incident, more))
        effects += more
    return effects


_DETAIL_FIELDS = ("title", "summary", "urgency", "sla", "team_priority")
# Detail fields that change timers or notifications.
_TIMER_FIELDS = frozenset({"urgency", "sla"})


def _change_details(context: IncidentContext, requested: dict[str, Any]) -> Effects:
    state, author = context.incident, context.author
    details = {name: requested[name] for name in _DETAIL_FIELDS if name in requested}
    if "urgency" in details:
        details["urgency"] = Urgency(details["urgency"])
    new = {name: value for name, value in details.items() if value != getattr(state, name)}
    if not new:
        return ()
    why = make_reason("edited", fields=tuple(new), by=author.name)
    context = context.with_incident(
        state.with_changes(**{name: new[name] for name in new if name not in _TIMER_FIELDS})
    )
    effects: Effects = (
        SaveIncident(context.incident),
        RecordLog(state.unique_id, context.now, "edited", why, author),
    )
    if "urgency" in new and state.row is not None:
        effects += incidents.change_urgency(context, new["urgency"], load_notifications(state.row))
    if "sla" in new:
        context = context.with_incident(incidents.get_saved(context.incident, effects))
        effects += incidents.change_sla(context, new["sla"], why)
    return effects


def _change_policy(context: IncidentContext, requested: dict[str, Any]) -> Effects:
    if "escalation_policy" not in requested:
        return ()
    policy = requested["escalation_policy"]
    # A client that sends the assignee has either chosen one or sends the present one back.
    keep_assignee = "assigned_to" in requested
    return incidents.change_policy(lock_round_robin(context, policy), policy, keep_assignee=keep_assignee)


def lock_round_robin(context: IncidentContext, policy: int | None) -> IncidentContext:
    """Lock the next target of a round-robin policy (row number), and return the context with it."""
    return replace(context, config=lock_next_target(context.config, policy))


def _has_new_assignee(incident: IncidentState, requested: dict[str, Any]) -> bool:
    person: PersonFacts | None = requested.get("assigned_to")
    return "assigned_to" in requested and incident.assigned_to != (person.row if person else None)


def _change_assignee(context: IncidentContext, requested: dict[str, Any]) -> Effects:
    return incidents.assign(context, requested["assigned_to"])


def _change_status(context: IncidentContext, requested: dict[str, Any]) -> Effects:
    if not requested.get("status"):
        return ()
    to = IncidentStatus(requested["status"])
    return incidents.change_status(context, to, explain_status(to))
