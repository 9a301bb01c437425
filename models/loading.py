"""Rows to facts: what decisions are given to know, in a constant number of queries.

Everything here is to be called inside a write transaction when something will be decided upon it.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import peewee

from models.accounts import Configuration, User
from models.applications import APPLICATIONS
from models.base import store
from models.effects import EntityState, IncidentState
from models.enums import (
    DELIVERABLE,
    AccountRole,
    Collation,
    IncidentStatus,
    IntegrationType,
    RuleAction,
    RuleType,
    ServiceStatus,
    TargetType,
    TeamRole,
    Urgency,
)
from models.events import Entity
from models.facts import (
    AlertRuleFacts,
    Directory,
    IntegrationFacts,
    LaneFacts,
    Nameable,
    Named,
    PersonFacts,
    PolicyFacts,
    RouterFacts,
    RouterRuleFacts,
    RuleFacts,
    ServiceFacts,
    StepFacts,
    TargetFacts,
)
from models.incidents import Incident
from models.prepared import Prepared, among, any_of, given
from models.routers import GlobalRouter, RouterRule
from models.rules import AlertRule
from models.services import Integration, Service
from models.teams import EscalationPolicy, Priority, Sla, Tag, Team, TeamMember
from models.users import ContactMethod, NotificationRule


@dataclass(frozen=True, slots=True)
class Surroundings:
    """An incident under its service's lock, and what its moves depend on."""

    incident: IncidentState
    service: ServiceFacts | None
    directory: Directory


_SERVICE = Prepared(lambda: store().for_update(Service.select().where(Service.id == given("row"))))


def lock_service(service_row: int) -> Service | None:
    """The service with its team, its row locked until the transaction ends; None when it is gone."""
    row = _SERVICE.first(row=service_row)
    return None if row is None else _as(Service, row)


def _as(table: Any, row: tuple[Any, ...]) -> Any:
    """A row of all columns as peewee would have made it."""
    made = table(**dict(zip(table._meta.sorted_field_names, row, strict=True)))
    made._dirty.clear()
    return made


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
    return service_facts(service, team.account_id), directory(team, wanted)


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
    facts = service_facts(service, team.account_id) if service else None
    return Surroundings(incident_state(row), facts, directory(team, wanted))


_VERSION_FOR_TEAM = Prepared(
    lambda: (
        Configuration.select(Configuration.version)
        .join(Team, on=Team.account == Configuration.account)
        .where(Team.id == given("team"))
    )
)


def version_for_service(service: Service) -> int:
    """The version of the configuration that a service's lane works by."""
    return _only(_VERSION_FOR_TEAM.first(team=service.team_id))


def _only(row: tuple[Any, ...] | None) -> int:
    return -1 if row is None else int(row[0])


_VERSION = Prepared(
    lambda: Configuration.select(Configuration.version).where(Configuration.account == given("account"))
)


def version_for_router(router: GlobalRouter) -> int:
    return _only(_VERSION.first(account=router.account_id))


def lane_facts(service: Service) -> LaneFacts:
    """What a locked service's lane knows, for every alert of a batch."""
    team = Team.get_by_id(service.team_id)
    integrations = list(Integration.select().where(Integration.service == service))
    rules = alert_rules(integrations)
    policies = _nameable_policies(team, service, rules)
    named = {
        str(action.get("assign_to") or action.get("value") or "")
        for some in rules.values()
        for rule in some
        for action in rule.actions
        if action["action_type"] == RuleAction.ASSIGN_USER
    }
    return LaneFacts(
        service_facts(service, team.account_id),
        {row.id: integration_facts(row) for row in integrations},
        _directory(team, policies, named),
        Nameable(_named(policies), *(_named(_of_team(table, team)) for table in (Sla, Priority, Tag))),
        rules,
    )


def _of_team(table: Any, team: Team) -> Iterable[Any]:
    rows: Iterable[Any] = table.select().where(table.team == team).order_by(table.id)
    return rows


def _named(rows: Iterable[Any]) -> dict[str, Named]:
    return {row.unique_id: Named(row.id, row.name) for row in rows}


def _nameable_policies(
    team: Team, service: Service, rules: dict[int, tuple[AlertRuleFacts, ...]]
) -> list[EscalationPolicy]:
    """The team's own policies, the account's global ones, and those that were shared with it: the
    service's, and what its rules name."""
    named = {
        str(action.get("escalation_policy") or action.get("value") or "")
        for some in rules.values()
        for rule in some
        for action in rule.actions
        if action["action_type"] == RuleAction.ROUTE_TO_ESCALATION_POLICY
    }
    query = (
        EscalationPolicy.select()
        .join(Team)
        .where(
            Team.account == team.account_id,
            (EscalationPolicy.team == team)
            | EscalationPolicy.global_ep
            | (EscalationPolicy.id == service.escalation_policy_id)
            | any_of(EscalationPolicy.unique_id, named),
        )
    )
    return list(query.order_by(EscalationPolicy.id))


def alert_rules(integrations: Iterable[Integration]) -> dict[int, tuple[AlertRuleFacts, ...]]:
    """The enabled rules of these integrations, in the order in which they act (contract 4.2)."""
    query = (
        AlertRule.select()
        .where(any_of(AlertRule.integration, [row.id for row in integrations]), AlertRule.is_enabled)
        .order_by(AlertRule.integration, AlertRule.position, AlertRule.id)
    )
    found: dict[int, list[AlertRuleFacts]] = {}
    for row in query:
        found.setdefault(row.integration_id, []).append(alert_rule_facts(row))
    return {integration: tuple(rules) for integration, rules in found.items()}


def alert_rule_facts(row: AlertRule) -> AlertRuleFacts:
    return AlertRuleFacts(
        row.unique_id,
        row.description,
        row.rule_json,
        RuleType(row.rule_type),
        tuple(row.conditions),
        tuple(row.actions),
        row.stop,
    )


def lock_router(router_row: int) -> GlobalRouter | None:
    """The router, its row locked until the transaction ends; None when it is gone."""
    query = GlobalRouter.select().where(GlobalRouter.id == router_row)
    found: GlobalRouter | None = store().for_update(query).get_or_none()
    return found


def router_facts(router: GlobalRouter) -> RouterFacts:
    """A router's rules in their order, and the integrations of its account that they name."""
    rows = RouterRule.select().where(RouterRule.router == router)
    rules = [
        RouterRuleFacts(row.unique_id, row.name, row.rule_json, tuple(row.actions))
        for row in rows.order_by(RouterRule.position, RouterRule.id)
    ]
    named = {action["integration"] for rule in rules for action in rule.actions if action["integration"]}
    targets = (
        Integration.select(Integration, Service)
        .join(Service)
        .join(Team)
        .where(Team.account == router.account_id, any_of(Integration.unique_id, named))
    )
    return RouterFacts(
        router.id, router.name, tuple(rules), {row.unique_id: _target_facts(row) for row in targets}
    )


def _target_facts(row: Integration) -> TargetFacts:
    return TargetFacts(
        row.id,
        row.service_id,
        row.name,
        APPLICATIONS[row.application].extension,
        row.is_enabled and row.integration_type == IntegrationType.ALERT,
    )


def service_facts(service: Service, account: int) -> ServiceFacts:
    timeout = service.acknowledgement_timeout if service.acknowledgement_timeout_enabled else 0
    return ServiceFacts(
        row=service.id,
        unique_id=service.unique_id,
        name=service.name,
        account=account,
        team=service.team_id,
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
    rows = list(EscalationPolicy.select().where(any_of(EscalationPolicy.id, policies))) if policies else []
    return _directory(team, rows)


def _directory(team: Team, rows: Iterable[EscalationPolicy], usernames: Collection[str] = ()) -> Directory:
    found = {row.id: policy_facts(row) for row in rows}
    named = {name for policy in found.values() for step in policy.steps for name in step.usernames}
    named.update(usernames)
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
            any_of(User.username, named) | any_of(User.id, manager_rows) | (User.role == AccountRole.OWNER),
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
    users = User.select().where(any_of(User.username, usernames), User.removed_at.is_null())
    return _people(list(users))


def _people(users: list[User]) -> dict[str, PersonFacts]:
    rules: dict[int, list[RuleFacts]] = {}
    query = (
        NotificationRule.select(NotificationRule, ContactMethod)
        .join(ContactMethod)
        .where(any_of(NotificationRule.user, [user.id for user in users]))
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


@dataclass(frozen=True, slots=True)
class LastIncident:
    """The last incident of an entity that none holds now; `ended_at` is when it was over."""

    row: int
    unique_id: str
    ended_at: datetime


def _entities() -> Any:
    last = Incident.alias()
    return (
        Entity.select(
            Entity.integration,
            Entity.entity_id,
            Entity.firing,
            Entity.incident,
            Entity.resolved_source_at,
            Entity.resolved_at,
            last.id,
            last.unique_id,
            last.resolved_date,
            last.creation_date,
        )
        .join(last, peewee.JOIN.LEFT_OUTER, on=Entity.last_incident == last.id)
        .where(among(Entity.integration, "integrations"), among(Entity.entity_id, "names"))
    )


_ENTITIES = Prepared(_entities)


def entity_states(
    keys: Collection[tuple[int, str]],
) -> tuple[list[EntityState], list[LastIncident]]:
    """The entities of these keys that exist, each with the incident that holds it; and the last incidents
    of those that are held by none."""
    if not keys:
        return [], []
    integrations, names = {integration for integration, _ in keys}, {name for _, name in keys}
    entities, ended = [], {}
    for row in _ENTITIES.rows(integrations=integrations, names=names):
        integration, name, firing, holder, said_at, resolved_at, last, unique_id, over, begun = row
        # Whatever holds an entity is also the last that did.
        held = unique_id if holder is not None else None
        entities.append(EntityState(integration, name, firing, held, said_at, resolved_at, unique_id))
        if last is not None and held is None:
            ended[last] = LastIncident(last, unique_id, over or begun)
    return entities, list(ended.values())


def _states(where: Callable[[], Any]) -> Prepared:
    """A query for incidents as states."""
    names = ("id", "status", "urgency", *STATE_COLUMNS, *STATE_REFERENCES)
    return Prepared(lambda: Incident.select(*(getattr(Incident, name) for name in names)).where(where()))


_OPEN_ONES = _states(
    lambda: among(Incident.unique_id, "unique_ids") & (Incident.status < IncidentStatus.RESOLVED)
)
_COLLECTING = _states(
    lambda: (
        (Incident.service == given("service"))
        & (Incident.status < IncidentStatus.RESOLVED)
        & Incident.collecting
    )
)


def open_incidents(
    service_row: int, unique_ids: Collection[str], *, collecting: bool = True
) -> list[IncidentState]:
    """The open incidents among these, and the one that the service collects into, if asked for.

    A query for each, so that each has an index of its own, however many incidents of the service are open.
    """
    rows = _OPEN_ONES.rows(unique_ids=unique_ids) if unique_ids else []
    if collecting:
        rows += _COLLECTING.rows(service=service_row)
    return [_state_of(row) for row in {row[0]: row for row in rows}.values()]


def _state_of(row: tuple[Any, ...]) -> IncidentState:
    number, status, urgency, *rest = row
    values = dict(zip((*STATE_COLUMNS, *STATE_REFERENCES), rest, strict=True))
    return IncidentState(status=IncidentStatus(status), urgency=Urgency(urgency), row=number, **values)


def open_incidents_after(service_row: int, row: int, limit: int) -> list[IncidentState]:
    """A locked service's open incidents beyond a row number, in their order: to walk over all of them."""
    query = Incident.select().where(
        Incident.service == service_row, Incident.status < IncidentStatus.RESOLVED, Incident.id > row
    )
    return [incident_state(found) for found in query.order_by(Incident.id).limit(limit)]


_FIRING = Prepared(
    lambda: (
        Entity.select(Entity.incident, peewee.fn.COUNT(Entity.id))
        .where(among(Entity.incident, "incidents"), Entity.firing)
        .group_by(Entity.incident)
    )
)


def firing_counts(incidents: Iterable[IncidentState]) -> dict[str, int]:
    """How many entities fire for each incident."""
    rows = {incident.row: incident.unique_id for incident in incidents}
    if not rows:
        return {}
    return {rows[incident]: count for incident, count in _FIRING.rows(incidents=list(rows))}
