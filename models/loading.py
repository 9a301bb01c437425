"""Rows to facts: what decisions are given to know, in a constant number of queries.

Everything here is to be called inside a write transaction when something will be decided upon it.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import peewee

from models.accounts import User
from models.base import store
from models.effects import EntityState, IncidentState
from models.enums import (
    DELIVERABLE,
    AccountRole,
    Collation,
    IncidentStatus,
    ServiceStatus,
    TargetType,
    TeamRole,
    Urgency,
)
from models.events import Entity
from models.facts import (
    Directory,
    IntegrationFacts,
    LaneFacts,
    PersonFacts,
    PolicyFacts,
    RuleFacts,
    ServiceFacts,
    StepFacts,
)
from models.incidents import Incident
from models.services import Integration, Service
from models.teams import EscalationPolicy, Team, TeamMember
from models.users import ContactMethod, NotificationRule


@dataclass(frozen=True, slots=True)
class Surroundings:
    """An incident under its service's lock, and what its moves depend on."""

    incident: IncidentState
    service: ServiceFacts | None
    directory: Directory


def lock_service(service_row: int) -> Service | None:
    """The service with its team, its row locked until the transaction ends; None when it is gone."""
    query = Service.select().where(Service.id == service_row)
    return store().for_update(query).get_or_none()


def team_of_service(service_row: int) -> int:
    team: int = Service.select(Service.team).where(Service.id == service_row).scalar()
    return team


def service_surroundings(
    service_row: int, policies: Iterable[int] = ()
) -> tuple[ServiceFacts, Directory] | None:
    """A locked service's facts, with its own policy and those asked for; None when it is gone."""
    service = lock_service(service_row)
    if service is None:
        return None
    team = Team.get_by_id(service.team_id)
    wanted = {row for row in (service.escalation_policy_id, *policies) if row}
    return service_facts(service, team), directory(team, wanted)


def lock_incident(incident_row: int, policies: Iterable[int] = ()) -> Surroundings | None:
    """An incident, locked by its service (and itself); None when it is gone.

    `policies` are rows of policies that the caller may move it to.
    """
    service_row = Incident.select(Incident.service).where(Incident.id == incident_row).scalar()
    service = lock_service(service_row) if service_row else None
    row = store().for_update(Incident.select().where(Incident.id == incident_row)).get_or_none()
    if row is None:
        return None
    team = Team.get_by_id(row.team_id)
    wanted = {one for one in (row.escalation_policy_id, *policies) if one}
    facts = service_facts(service, team) if service else None
    return Surroundings(incident_state(row), facts, directory(team, wanted))


def lane_facts(service: Service) -> LaneFacts:
    """What a locked service's lane knows, for every alert of a batch."""
    team = Team.get_by_id(service.team_id)
    policies = {service.escalation_policy_id} if service.escalation_policy_id else set()
    integrations = Integration.select().where(Integration.service == service)
    return LaneFacts(
        service_facts(service, team),
        {row.id: integration_facts(row) for row in integrations},
        directory(team, policies),
    )


def service_facts(service: Service, team: Team) -> ServiceFacts:
    timeout = service.acknowledgement_timeout if service.acknowledgement_timeout_enabled else 0
    return ServiceFacts(
        row=service.id,
        unique_id=service.unique_id,
        name=service.name,
        account=team.account_id,
        team=team.id,
        status=ServiceStatus(service.status),
        under_maintenance=service.under_maintenance,
        escalation_policy=service.escalation_policy_id,
        sla=service.sla_id,
        team_priority=service.team_priority_id,
        auto_resolve_s=service.auto_resolve_timeout,
        acknowledgement_timeout_s=timeout,
        collation=Collation(service.collation),
        collation_minutes=service.collation_time,
    )


def integration_facts(row: Integration) -> IntegrationFacts:
    return IntegrationFacts(
        row.id, row.unique_id, row.name, row.create_incidents_for, Urgency(row.default_urgency)
    )


def directory(team: Team, policies: Collection[int]) -> Directory:
    """Policies by row, everybody they name, the team's managers and the account's owner.

    Removed members are not in it: a step that names only them has nobody.
    """
    rows = list(EscalationPolicy.select().where(EscalationPolicy.id.in_(policies))) if policies else []
    found = {row.id: policy_facts(row) for row in rows}
    named = {name for policy in found.values() for step in policy.steps for name in step.usernames}
    managers = (
        TeamMember.select(TeamMember.user)
        .where(TeamMember.team == team, TeamMember.role == TeamRole.MANAGER)
        .order_by(TeamMember.joining_date, TeamMember.id)
    )
    manager_rows = [row.user_id for row in managers]
    users = list(
        User.select().where(
            User.account == team.account_id,
            User.removed_at.is_null(),
            (User.username.in_(named)) | (User.id.in_(manager_rows)) | (User.role == AccountRole.OWNER),
        )
    )
    names = {user.id: user.username for user in users}
    owner = next((user.username for user in users if user.role == AccountRole.OWNER), None)
    return Directory(
        policies=found,
        people=_people(users),
        managers=tuple(names[row] for row in manager_rows if row in names),
        owner=owner,
    )


def people(usernames: Collection[str]) -> dict[str, PersonFacts]:
    """Persons by username; unknown and removed ones are left out."""
    users = User.select().where(User.username.in_(list(usernames)), User.removed_at.is_null())
    return _people(list(users))


def _people(users: list[User]) -> dict[str, PersonFacts]:
    rules: dict[int, list[RuleFacts]] = {}
    query = (
        NotificationRule.select(NotificationRule, ContactMethod)
        .join(ContactMethod)
        .where(NotificationRule.user.in_([user.id for user in users]))
        .order_by(NotificationRule.start_delay, NotificationRule.id)
    )
    for rule in query:
        if rule.contact.contact_type in DELIVERABLE:
            facts = RuleFacts(
                rule.id, rule.contact_id, rule.contact.contact_type, Urgency(rule.urgency), rule.start_delay
            )
            rules.setdefault(rule.user_id, []).append(facts)
    return {
        user.username: PersonFacts(user.id, user.username, display_name(user), tuple(rules.get(user.id, ())))
        for user in users
    }


def display_name(user: User) -> str:
    """A person's name as others read it; somebody without one goes by the part before the @."""
    return f"{user.first_name} {user.last_name}".strip() or user.email.partition("@")[0]


def policy_facts(row: EscalationPolicy) -> PolicyFacts:
    steps = tuple(
        StepFacts(
            rule["delay"],
            tuple(
                target["target_id"] for target in rule["targets"] if target["target_type"] == TargetType.USER
            ),
        )
        for rule in row.rules
    )
    return PolicyFacts(row.id, row.unique_id, row.name, steps, row.repeat_policy, row.move_to_next)


# Columns of an incident that a state carries, besides its references and its row number.
STATE_COLUMNS = (
    "unique_id", "incident_key", "title", "summary", "creation_date", "chain_started_at", "acknowledged_date",
    "resolved_date", "context_window_start", "context_window_end", "collecting", "escalating", "chain",
    "next_step",
)  # fmt: skip
STATE_REFERENCES = (
    "account",
    "team",
    "service",
    "assigned_to",
    "escalation_policy",
    "sla",
    "team_priority",
)


def incident_state(row: Incident) -> IncidentState:
    values: dict[str, Any] = {name: getattr(row, name) for name in STATE_COLUMNS}
    references: dict[str, Any] = {name: getattr(row, f"{name}_id") for name in STATE_REFERENCES}
    return IncidentState(
        status=IncidentStatus(row.status), urgency=Urgency(row.urgency), row=row.id, **values, **references
    )


def entity_states(keys: Collection[tuple[int, str]]) -> list[EntityState]:
    """The entities of these keys that exist, each with the incident that holds it."""
    if not keys:
        return []
    integrations = {integration for integration, _ in keys}
    query = (
        Entity.select(Entity, Incident.unique_id.alias("holder"))
        .join(Incident, peewee.JOIN.LEFT_OUTER)
        .where(Entity.integration.in_(integrations), Entity.entity_id.in_({name for _, name in keys}))
        .dicts()
    )
    return [
        EntityState(
            row["integration"],
            row["entity_id"],
            row["firing"],
            row["holder"],
            row["resolved_source_at"],
            row["resolved_at"],
        )
        for row in query
    ]


def open_incidents(service_row: int, unique_ids: Collection[str]) -> list[IncidentState]:
    """The open incidents among these, and the one that the service collects into, if any.

    Two queries, so that each has an index of its own, however many incidents of the service are open.
    """
    named = Incident.select().where(Incident.unique_id.in_(list(unique_ids)))
    collecting = Incident.select().where(
        Incident.service == service_row, Incident.status < IncidentStatus.RESOLVED, Incident.collecting
    )
    rows = {row.id: row for query in (named, collecting) for row in query}
    return [incident_state(row) for row in rows.values() if row.status < IncidentStatus.RESOLVED]


def open_incidents_after(service_row: int, row: int, limit: int) -> list[IncidentState]:
    """A locked service's open incidents beyond a row number, in their order: to walk over all of them."""
    query = Incident.select().where(
        Incident.service == service_row, Incident.status < IncidentStatus.RESOLVED, Incident.id > row
    )
    return [incident_state(found) for found in query.order_by(Incident.id).limit(limit)]


def firing_counts(incidents: Iterable[IncidentState]) -> dict[str, int]:
    """How many entities fire for each incident."""
    rows = {incident.row: incident.unique_id for incident in incidents}
    query = (
        Entity.select(Entity.incident, peewee.fn.COUNT(Entity.id).alias("firing_count"))
        .where(Entity.incident.in_(list(rows)), Entity.firing)
        .group_by(Entity.incident)
        .tuples()
    )
    return {rows[incident]: count for incident, count in query}
