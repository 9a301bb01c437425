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
    Surroundings,
    TargetFacts,
)
from models.incidents import Incident, IncidentAssignment, IncidentResponder
from models.prepared import Prepared, among, any_of, given
from models.routers import GlobalRouter, RouterRule
from models.rules import AlertRule
from models.schedules import Schedule
from models.services import Integration, Service
from models.tasks import TaskTemplate
from models.teams import EscalationPolicy, IncidentRole, Priority, Sla, Tag, Team, TeamMember
from models.users import ContactMethod, NotificationRule

_SERVICE = Prepared(lambda: store().for_update(Service.select().where(Service.id == given("row"))))


def lock_service(service_row: int) -> Service | None:
    """The service with its team, its row locked until the transaction ends; None when it is gone."""
    row = _SERVICE.first(row=service_row)
    return None if row is None else _as(Service, row)


_SERVICES = Prepared(
    lambda: store().for_update(Service.select().where(among(Service.id, "rows")).order_by(Service.id))
)


def lock_services(rows: Collection[int]) -> dict[int, Service]:
    """Those of these services that are left, locked in the order in which everybody locks them."""
    found = [_as(Service, row) for row in _SERVICES.rows(rows=rows)] if rows else []
    return {service.id: service for service in found}


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
    """An incident with its children, locked as `lock_families` says; None when it is gone.

    `policies` are rows of policies that the caller may move it to.
    """
    found = lock_families([incident_row])
    incident = found.incidents.get(incident_row)
    if incident is None:
        return None
    team = Team.get_by_id(incident.team)
    wanted = {one for one in (incident.escalation_policy, *policies) if one}
    service = found.services.get(incident.service or 0)
    return Surroundings(incident, service, directory(team, wanted), found.children_of(incident))


@dataclass(frozen=True, slots=True)
class Families:
    """Incidents with all that are merged into them, by row; and the services of all these."""

    incidents: dict[int, IncidentState]
    services: dict[int, ServiceFacts]

    def children_of(self, incident: IncidentState) -> tuple[IncidentState, ...]:
        return tuple(one for one in self.incidents.values() if one.parent == incident.row)


def lock_families(incident_rows: Collection[int]) -> Families:
    """These incidents and their children, locked by their services (and themselves).

    Who are children is certain only under the lock: what was merged between looking and locking has its
    service locked too.
    """
    members = _of_families(incident_rows)
    asked = {row for (row,) in Incident.select(Incident.service).where(members).distinct().tuples() if row}
    services = lock_services(asked)
    while True:
        rows = list(store().for_update(Incident.select().where(members).order_by(Incident.id)))
        missing = {row.service_id for row in rows if row.service_id} - asked
        if not missing:
            break
        services |= lock_services(missing)
        asked |= missing
    accounts = {row.service_id: row.account_id for row in rows}
    return Families(
        {row.id: incident_state(row) for row in rows},
        {row: service_facts(service, accounts[row]) for row, service in services.items() if row in accounts},
    )


def _of_families(incident_rows: Collection[int]) -> Any:
    """A condition on incidents: one of these, or merged into one of these."""
    merged = Incident.parent.is_null(False) & any_of(Incident.parent, incident_rows)
    return any_of(Incident.id, incident_rows) | merged


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
    people = (RuleAction.ASSIGN_USER, RuleAction.ASSIGN_ROLE, RuleAction.ADD_RESPONDER)
    named = _named_by(rules, "assign_to", people)
    return LaneFacts(
        service_facts(service, team.account_id),
        {row.id: integration_facts(row) for row in integrations},
        _directory(team, policies, named),
        Nameable(
            policies=_named(policies),
            slas=_named(_of_team(Sla, team)),
            priorities=_named(_of_team(Priority, team)),
            tags=_named(_of_team(Tag, team)),
            roles={row.unique_id: Named(row.id, row.title) for row in _of_team(IncidentRole, team)},
            task_templates=_named(_of_team(TaskTemplate, team)),
            schedules=_named(_nameable_schedules(team, rules)),
        ),
        rules,
    )


def _of_team(table: Any, team: Team) -> Iterable[Any]:
    rows: Iterable[Any] = table.select().where(table.team == team).order_by(table.id)
    return rows


def _named(rows: Iterable[Any]) -> dict[str, Named]:
    return {row.unique_id: Named(row.id, row.name) for row in rows}


def _named_by(
    rules: dict[int, tuple[AlertRuleFacts, ...]], field: str, kinds: Collection[RuleAction]
) -> set[str]:
    """What actions of these kinds name, in that field or in their value."""
    return {
        str(action.get(field) or action.get("value") or "").strip().lower()
        for some in rules.values()
        for rule in some
        for action in rule.actions
        if action["action_type"] in kinds
    }


def _nameable_policies(
    team: Team, service: Service, rules: dict[int, tuple[AlertRuleFacts, ...]]
) -> list[EscalationPolicy]:
    """The team's own policies, the account's global ones, and those that were shared with it: the
    service's, and what its rules name."""
    kinds = (RuleAction.ROUTE_TO_ESCALATION_POLICY, RuleAction.ADD_RESPONDER)
    named = _named_by(rules, "escalation_policy", kinds)
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


def _nameable_schedules(team: Team, rules: dict[int, tuple[AlertRuleFacts, ...]]) -> list[Schedule]:
    """The team's own schedules, and those that its rules name."""
    named = _named_by(rules, "schedule", (RuleAction.ASSIGN_SCHEDULE, RuleAction.ADD_RESPONDER))
    mine = (Schedule.team == team) | any_of(Schedule.unique_id, named)
    return list(Schedule.select().join(Team).where(Team.account == team.account_id, mine))


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
        task_template=service.task_template_id,
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
    "next_step", "snoozed_at", "snoozed_till",
)  # fmt: skip
STATE_REFERENCES = (
    "account",
    "team",
    "service",
    "assigned_to",
    "escalation_policy",
    "sla",
    "team_priority",
    "parent",
)


def incident_state(row: Incident) -> IncidentState:
    values: dict[str, Any] = {name: getattr(row, name) for name in STATE_COLUMNS}
    references: dict[str, Any] = {name: getattr(row, f"{name}_id") for name in STATE_REFERENCES}
    return IncidentState(
        status=IncidentStatus(row.status),
        urgency=Urgency(row.urgency),
        number=row.incident_number,
        row=row.id,
        **values,
        **references,
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
    names = ("id", "incident_number", "status", "urgency", *STATE_COLUMNS, *STATE_REFERENCES)
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
    found, number, status, urgency, *rest = row
    values = dict(zip((*STATE_COLUMNS, *STATE_REFERENCES), rest, strict=True))
    return IncidentState(
        status=IncidentStatus(status), urgency=Urgency(urgency), number=number, row=found, **values
    )


_CHILDREN = _states(
    lambda: (
        Incident.parent.is_null(False)
        & among(Incident.parent, "parents")
        & (Incident.status < IncidentStatus.RESOLVED)
    )
)


def open_children(incidents: Iterable[IncidentState]) -> list[IncidentState]:
    """The open incidents that are merged into one of these."""
    rows = [incident.row for incident in incidents if incident.parent is None]
    return [_state_of(row) for row in _CHILDREN.rows(parents=rows)] if rows else []


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


_CALLED = Prepared(
    lambda: IncidentResponder.select(
        IncidentResponder.incident, IncidentResponder.user, IncidentResponder.escalation_policy
    ).where(among(IncidentResponder.incident, "incidents"))
)
_ASSIGNED = Prepared(
    lambda: IncidentAssignment.select(
        IncidentAssignment.incident, IncidentAssignment.role, IncidentAssignment.user
    ).where(among(IncidentAssignment.incident, "incidents"))
)


def called_responders(
    incidents: Iterable[IncidentState],
) -> set[tuple[str, int | None, int | None]]:
    """Who was asked to help with these incidents: the incident, and the row of a person or of a policy."""
    rows = {incident.row: incident.unique_id for incident in incidents}
    found = _CALLED.rows(incidents=list(rows)) if rows else []
    return {(rows[incident], user, policy) for incident, user, policy in found}


def assigned_roles(incidents: Iterable[IncidentState]) -> dict[tuple[str, int], int]:
    """Who has which role in these incidents, by the incident and the role's row."""
    rows = {incident.row: incident.unique_id for incident in incidents}
    found = _ASSIGNED.rows(incidents=list(rows)) if rows else []
    return {(rows[incident], role): user for incident, role, user in found}
