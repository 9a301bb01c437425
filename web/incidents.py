"""Incidents made, moved and read through the interface: contract sections 2.5, 3.7 and 4.3.

What a change means is decided by pipeline.moves under the service's lock, like an alert's or a timer's.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from models.apply import apply
from models.base import store
from models.directories import people, with_turns
from models.effects import Actor, Effect, IncidentState, Outcome, RecordLog, SaveIncident
from models.enums import IncidentStatus, Urgency
from models.facts import Directory, ServiceFacts, Surroundings
from models.ids import new_short_id
from models.incidents import Incident
from models.loading import lock_incident, service_surroundings
from models.services import Service
from models.teams import Priority, Sla, Team
from models.tellings import tellings_of
from pipeline import moves
from schedules import targets
from web import access, wire
from web.auth import now, viewer
from web.errors import NotFound, bad
from web.incident_parts import acting
from web.incident_shapes import ChangeShape, IncidentShape, NewShape, filled
from web.services import team_row, usable_policy
from web.teams import account_member
from workers import bell

NEW = NewShape()
CHANGE = ChangeShape()
INCIDENT = IncidentShape()


def retrieve(incident: str) -> Incident:
    """Retrieve an incident, by number or unique_id."""
    return filled([access.access_incident(viewer(), incident)])[0]


def create() -> Incident:
    """Create an incident by hand; it tells people like one that an alert made."""
    values = wire.body()
    service = _service(values.pop("service"))
    wanted = resolved(values, service.team)
    with store().writing():
        found = service_surroundings(service.id, policies_of(wanted), slas=slas_of(wanted))
        if found is None:
            bad("service", "No such service.")
        wanted = with_person(wanted)
        state, turn = _state(wanted, *found, now())
        opening = _opening(state, wanted, *found, acting(), now())
        written = apply(Outcome(effects=[*opening, *turn]))
    bell.ring_deliveries(written.channels)
    return filled([Incident.get(Incident.unique_id == state.unique_id)])[0]


def update(incident: str) -> Incident:
    """Update an incident, by number or unique_id; a service in the body is ignored."""
    row = access.access_incident(viewer(), incident)
    wanted = resolved(wire.read(CHANGE, partial=True), row.team)
    with store().writing():
        found = lock_incident(row.id, policies_of(wanted), slas=slas_of(wanted))
        if found is None:
            raise NotFound
        written = apply(Outcome(effects=_changes(found, with_person(wanted), acting(), now())))
    bell.ring_deliveries(written.channels)
    return filled([Incident.get_by_id(row.id)])[0]


def _service(unique_id: str) -> Service:
    """The service that a body names: somebody else's account has none, another team's is Forbidden."""
    service: Service | None = (
        Service.select(Service, Team)
        .join(Team)
        .where(Service.unique_id == unique_id, Team.account == viewer().account)
        .first()
    )
    if service is None:
        bad("service", "No such service.")
    access.require(viewer(), service.team_id)
    return service


def resolved(values: dict[str, Any], team: Team) -> dict[str, Any]:
    """The body with rows in the place of ids. BadRequest for what the team may not refer to."""
    for name, model in (("sla", Sla), ("team_priority", Priority)):
        if values.get(name):
            values[name] = team_row(model, team, values[name], name).id
    if values.get("escalation_policy"):
        values["escalation_policy"] = usable_policy(team, values["escalation_policy"], "escalation_policy").id
    if values.get("assigned_to"):
        account_member(team.account, values["assigned_to"], "assigned_to")
    return values


def with_person(wanted: dict[str, Any]) -> dict[str, Any]:
    """The assignee as facts, under the lock that a removal waits for; BadRequest for who has left."""
    username = wanted.get("assigned_to")
    if not username:
        return wanted
    found = people([username])
    if username not in found:
        bad("assigned_to", "Nobody in this account has that username.")
    return {**wanted, "assigned_to": found[username]}


def policies_of(wanted: dict[str, Any]) -> list[int]:
    return [wanted["escalation_policy"]] if wanted.get("escalation_policy") else []


def slas_of(wanted: dict[str, Any]) -> list[int]:
    return [wanted["sla"]] if wanted.get("sla") else []


def _state(
    wanted: dict[str, Any], service: ServiceFacts, directory: Directory, at: datetime
) -> tuple[IncidentState, tuple[Effect, ...]]:
    """The incident to be, with what the service provides for what was not said; and the turn that is taken by
    its assignment."""
    status = IncidentStatus(wanted.get("status", IncidentStatus.TRIGGERED))
    policy = wanted.get("escalation_policy") or service.escalation_policy
    person = wanted.get("assigned_to")
    turn: tuple[Effect, ...] = ()
    if person is None:
        directory = with_turns(directory, policy)
        of = directory.policies.get(policy or 0)
        person, turn = targets.assignee(of, directory, directory.turns.get(policy or 0, 0), at)
    incident = IncidentState(
        unique_id=new_short_id(),
        account=service.account,
        team=service.team,
        service=service.row,
        incident_key=new_short_id(),
        title=wanted["title"],
        summary=wanted.get("summary", ""),
        status=status,
        urgency=Urgency(wanted.get("urgency", Urgency.HIGH)),
        creation_date=at,
        chain_started_at=at,
        promised_from=at,
        answered_at=at if status is IncidentStatus.ACKNOWLEDGED else None,
        assigned_to=person.row if person else None,
        escalation_policy=policy,
        sla=wanted.get("sla") or service.sla,
        team_priority=wanted.get("team_priority") or service.team_priority,
        acknowledged_date=at if status is IncidentStatus.ACKNOWLEDGED else None,
        resolved_date=at if status is IncidentStatus.RESOLVED else None,
    )
    return incident, turn


def _opening(
    state: IncidentState,
    wanted: dict[str, Any],
    service: ServiceFacts,
    directory: Directory,
    actor: Actor,
    at: datetime,
) -> Iterable[Effect]:
    templates = [service.task_template]
    yield from moves.open_incident(state, actor, at, f"made by {actor.name}", templates=templates)
    if state.status is not IncidentStatus.TRIGGERED:
        yield from moves.rearm(state, service, directory, at)
        return
    yield from moves.start_assigned(state, wanted.get("assigned_to"), service, directory, actor, at)


def _changes(found: Surroundings, wanted: dict[str, Any], actor: Actor, at: datetime) -> list[Effect]:
    """All that the body asks for, one change upon the other: words, policy, assignee, status."""
    effects: list[Effect] = []
    state = found.incident
    for change in (_words, _policy, _assignee, _status):
        more = change(state, wanted, found, actor, at)
        state = moves.after(state, more)
        effects += more
    return effects


Changes = tuple[Effect, ...]

_WORDS = ("title", "summary", "urgency", "sla", "team_priority")
# Of these, what changes who is told, when.
_MOVING = frozenset({"urgency", "sla"})


def _words(
    state: IncidentState, wanted: dict[str, Any], found: Surroundings, actor: Actor, at: datetime
) -> Changes:
    given = {name: wanted[name] for name in _WORDS if name in wanted}
    if "urgency" in given:
        given["urgency"] = Urgency(given["urgency"])
    new = {name: value for name, value in given.items() if value != getattr(state, name)}
    if not new:
        return ()
    reason = f"{', '.join(new)} changed by {actor.name}"
    changed = state.but(**{name: new[name] for name in new if name not in _MOVING})
    effects: Changes = (SaveIncident(changed), RecordLog(state.unique_id, at, "edited", reason, actor))
    if "urgency" in new and state.row is not None:
        effects += moves.change_urgency(changed, new["urgency"], tellings_of(state.row), actor, at)
    if "sla" in new:
        now_is = moves.after(changed, effects)
        effects += moves.change_sla(now_is, new["sla"], found.service, found.directory, at, reason)
    return effects


def _policy(
    state: IncidentState, wanted: dict[str, Any], found: Surroundings, actor: Actor, at: datetime
) -> Changes:
    if "escalation_policy" not in wanted:
        return ()
    policy = wanted["escalation_policy"]
    return moves.change_policy(
        state,
        policy,
        found.service,
        with_turns(found.directory, policy),
        actor,
        at,
        # Sent back as it was received, or chosen.
        keeps_assignee="assigned_to" in wanted,
    )


def _assignee(
    state: IncidentState, wanted: dict[str, Any], found: Surroundings, actor: Actor, at: datetime
) -> Changes:
    if "assigned_to" not in wanted:
        return ()
    person = wanted["assigned_to"]
    # Sent back as it was received, it is taken over by nobody: a chain goes on.
    if found.incident.assigned_to == (person.row if person else None):
        return ()
    return moves.assign(state, person, found.service, found.directory, actor, at)


def _status(
    state: IncidentState, wanted: dict[str, Any], found: Surroundings, actor: Actor, at: datetime
) -> Changes:
    if not wanted.get("status"):
        return ()
    to = IncidentStatus(wanted["status"])
    reason = f"asked for by {actor.name}"
    return moves.move(state, to, found.service, found.directory, actor, at, reason, found.children)
