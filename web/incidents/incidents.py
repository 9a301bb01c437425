"""Create, update and read incidents through the interface: contract sections 2.5, 3.7 and 4.3.

pipeline.incidents decides each change under the lock of the service, as for alerts and timers.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from models.domain.effects import Actor, ChangeSet, Effect, IncidentState, RecordLog, SaveIncident
from models.domain.enums import IncidentStatus, Urgency
from models.domain.facts import IncidentContext, OnCallConfig, ServiceFacts
from models.load.lane import load_service_config, lock_incident
from models.load.notifications import load_notifications
from models.load.oncall_config import load_people, lock_next_target
from models.store.base import store
from models.store.ids import new_short_id
from models.tables.incidents import Incident
from models.tables.services import Service
from models.tables.teams import Priority, Sla, Team
from models.write.apply import apply
from pipeline import incidents
from schedules.escalation import targets
from web.http import access, serialization
from web.http.auth import now, viewer
from web.http.errors import NotFound, reject
from web.incidents.schemas import IncidentChangeSchema, IncidentSchema, NewIncidentSchema, fill
from web.incidents.sub_resource import get_actor
from web.services.services import get_team_row, get_usable_policy
from web.teams.teams import get_account_member
from workers import queue

NEW = NewIncidentSchema()
CHANGE = IncidentChangeSchema()
INCIDENT = IncidentSchema()


def retrieve(incident: str) -> Incident:
    """Retrieve an incident, by number or unique_id."""
    return fill([access.access_incident(viewer(), incident)])[0]


def create() -> Incident:
    """Create an incident; it notifies people like an incident that an alert opened."""
    values = serialization.read_body()
    service = _find_service(values.pop("service"))
    requested = resolve_references(values, service.team)
    with store().write_transaction():
        found = load_service_config(service.id, get_policy_ids(requested), slas=get_sla_ids(requested))
        if found is None:
            reject("service", "No such service.")
        requested = load_assignee(requested)
        state, turn = _build_state(requested, *found, now())
        effects = _open(state, requested, *found, get_actor(), now())
        written = apply(ChangeSet(effects=[*effects, *turn]))
    queue.enqueue_deliveries(written.channels)
    return fill([Incident.get(Incident.unique_id == state.unique_id)])[0]


def update(incident: str) -> Incident:
    """Update an incident, by number or unique_id; a service in the body is ignored."""
    row = access.access_incident(viewer(), incident)
    requested = resolve_references(serialization.read_as(CHANGE, partial=True), row.team)
    with store().write_transaction():
        found = lock_incident(row.id, get_policy_ids(requested), slas=get_sla_ids(requested))
        if found is None:
            raise NotFound
        written = apply(ChangeSet(effects=_decide(found, load_assignee(requested), get_actor(), now())))
    queue.enqueue_deliveries(written.channels)
    return fill([Incident.get_by_id(row.id)])[0]


def _find_service(unique_id: str) -> Service:
    """Return the service that a body names. Raise BadRequest if it is unknown, Forbidden by permissions."""
    service: Service | None = (
        Service.select(Service, Team)
        .join(Team)
        .where(Service.unique_id == unique_id, Team.account == viewer().account)
        .first()
    )
    if service is None:
        reject("service", "No such service.")
    access.require(viewer(), service.team_id)
    return service


def resolve_references(values: dict[str, Any], team: Team) -> dict[str, Any]:
    """Return the body with rows instead of IDs. Raise BadRequest for objects that the team may not use."""
    for name, model in (("sla", Sla), ("team_priority", Priority)):
        if values.get(name):
            values[name] = get_team_row(model, team, values[name], name).id
    if values.get("escalation_policy"):
        values["escalation_policy"] = get_usable_policy(
            team, values["escalation_policy"], "escalation_policy"
        ).id
    if values.get("assigned_to"):
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
        reject("assigned_to", "Nobody in this account has that username.")
    return {**requested, "assigned_to": found[username]}


def get_policy_ids(requested: dict[str, Any]) -> list[int]:
    return [requested["escalation_policy"]] if requested.get("escalation_policy") else []


def get_sla_ids(requested: dict[str, Any]) -> list[int]:
    return [requested["sla"]] if requested.get("sla") else []


def _build_state(
    requested: dict[str, Any], service: ServiceFacts, config: OnCallConfig, at: datetime
) -> tuple[IncidentState, tuple[Effect, ...]]:
    """Return the new incident, with defaults of the service, and the effect of its round-robin assignment."""
    status = IncidentStatus(requested.get("status", IncidentStatus.TRIGGERED))
    policy = requested.get("escalation_policy") or service.escalation_policy
    person = requested.get("assigned_to")
    turn: tuple[Effect, ...] = ()
    if person is None:
        config = lock_next_target(config, policy)
        policy_facts = config.policies.get(policy or 0)
        person, turn = targets.choose_assignee(
            policy_facts, config, config.next_targets.get(policy or 0, 0), at
        )
    incident = IncidentState(
        unique_id=new_short_id(),
        account=service.account,
        team=service.team,
        service=service.row,
        incident_key=new_short_id(),
        title=requested["title"],
        summary=requested.get("summary", ""),
        status=status,
        urgency=Urgency(requested.get("urgency", Urgency.HIGH)),
        creation_date=at,
        run_started_at=at,
        sla_started_at=at,
        sla_acknowledged_at=at if status is IncidentStatus.ACKNOWLEDGED else None,
        assigned_to=person.row if person else None,
        escalation_policy=policy,
        sla=requested.get("sla") or service.sla,
        team_priority=requested.get("team_priority") or service.team_priority,
        acknowledged_date=at if status is IncidentStatus.ACKNOWLEDGED else None,
        resolved_date=at if status is IncidentStatus.RESOLVED else None,
    )
    return incident, turn


def _open(
    state: IncidentState,
    requested: dict[str, Any],
    service: ServiceFacts,
    config: OnCallConfig,
    actor: Actor,
    at: datetime,
) -> Iterable[Effect]:
    templates = [service.task_template]
    yield from incidents.open_incident(state, actor, at, f"created by {actor.name}", templates=templates)
    if state.status is not IncidentStatus.TRIGGERED:
        yield from incidents.save_with_timers(state, service, config, at)
        return
    yield from incidents.start_for_assignee(state, requested.get("assigned_to"), service, config, actor, at)


def _decide(found: IncidentContext, requested: dict[str, Any], actor: Actor, at: datetime) -> list[Effect]:
    """Return the effects of the requested changes, in this order: details, policy, assignee, status."""
    effects: list[Effect] = []
    state = found.incident
    for change in (_change_details, _change_policy, _change_assignee, _change_status):
        more = change(state, requested, found, actor, at)
        state = incidents.get_saved(state, more)
        effects += more
    return effects


Effects = tuple[Effect, ...]

_DETAIL_FIELDS = ("title", "summary", "urgency", "sla", "team_priority")
# Detail fields that change timers or notifications.
_TIMER_FIELDS = frozenset({"urgency", "sla"})


def _change_details(
    state: IncidentState, requested: dict[str, Any], found: IncidentContext, actor: Actor, at: datetime
) -> Effects:
    details = {name: requested[name] for name in _DETAIL_FIELDS if name in requested}
    if "urgency" in details:
        details["urgency"] = Urgency(details["urgency"])
    new = {name: value for name, value in details.items() if value != getattr(state, name)}
    if not new:
        return ()
    reason = f"{', '.join(new)} changed by {actor.name}"
    changed = state.with_changes(**{name: new[name] for name in new if name not in _TIMER_FIELDS})
    effects: Effects = (SaveIncident(changed), RecordLog(state.unique_id, at, "edited", reason, actor))
    if "urgency" in new and state.row is not None:
        effects += incidents.change_urgency(changed, new["urgency"], load_notifications(state.row), actor, at)
    if "sla" in new:
        current = incidents.get_saved(changed, effects)
        effects += incidents.change_sla(current, new["sla"], found.service, found.config, at, reason)
    return effects


def _change_policy(
    state: IncidentState, requested: dict[str, Any], found: IncidentContext, actor: Actor, at: datetime
) -> Effects:
    if "escalation_policy" not in requested:
        return ()
    policy = requested["escalation_policy"]
    return incidents.change_policy(
        state,
        policy,
        found.service,
        lock_next_target(found.config, policy),
        actor,
        at,
        # A client that sends the assignee has either chosen one or sends the present one back.
        keep_assignee="assigned_to" in requested,
    )


def _change_assignee(
    state: IncidentState, requested: dict[str, Any], found: IncidentContext, actor: Actor, at: datetime
) -> Effects:
    if "assigned_to" not in requested:
        return ()
    person = requested["assigned_to"]
    # A client sends the present assignee back: nobody takes over, and the escalation run continues.
    if found.incident.assigned_to == (person.row if person else None):
        return ()
    return incidents.assign(state, person, found.service, found.config, actor, at)


def _change_status(
    state: IncidentState, requested: dict[str, Any], found: IncidentContext, actor: Actor, at: datetime
) -> Effects:
    if not requested.get("status"):
        return ()
    to = IncidentStatus(requested["status"])
    reason = f"requested by {actor.name}"
    return incidents.change_status(state, to, found.service, found.config, actor, at, reason, found.children)
