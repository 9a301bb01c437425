"""Rows to facts: what decisions are given to know, in a constant number of queries.

Everything here is to be called inside a write transaction when something will be decided upon it.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from models.accounts import Configuration
from models.applications import APPLICATIONS
from models.base import Busy, db, store
from models.directories import directory, directory_of
from models.effects import IncidentState
from models.enums import (
    Collation,
    IntegrationType,
    RuleAction,
    RuleType,
    ServiceStatus,
    Urgency,
)
from models.facts import (
    AlertRuleFacts,
    Directory,
    IntegrationFacts,
    LaneFacts,
    Nameable,
    Named,
    RouterFacts,
    RouterRuleFacts,
    ServiceFacts,
    Surroundings,
    TargetFacts,
)
from models.incident_states import lock_families_of, services_of_families
from models.oncall import recently
from models.prepared import Prepared, among, any_of, given
from models.routers import GlobalRouter, RouterRule
from models.rules import AlertRule
from models.schedules import Schedule
from models.services import Integration, Service
from models.tasks import TaskTemplate
from models.teams import EscalationPolicy, IncidentRole, Priority, Sla, Tag, Team
from models.windows import windows_of

_SERVICE = Prepared(lambda: store().for_update(Service.select().where(Service.id == given("row"))))


def lock_service(service_row: int) -> Service | None:
    """The service with its team, its row locked until the transaction ends; None when it is gone."""
    row = _SERVICE.first(row=service_row)
    return None if row is None else _as(Service, row)


def _services(*, skip_locked: bool) -> Prepared:
    def query() -> Any:
        wanted = Service.select().where(among(Service.id, "rows")).order_by(Service.id)
        return store().for_update(wanted, skip_locked=skip_locked)

    return Prepared(query)


_SERVICES = _services(skip_locked=False)
_FREE_SERVICES = _services(skip_locked=True)


def lock_services(rows: Collection[int], *, waits: bool = True) -> dict[int, Service]:
    """Those of these services that are left, locked in the order in which everybody locks them.

    Where it is not to wait, it raises Busy unless it has the locks of all of them at once; one that is
    gone counts as busy.
    """
    if not rows:
        return {}
    found = [_as(Service, row) for row in (_SERVICES if waits else _FREE_SERVICES).rows(rows=rows)]
    if not waits and len(found) < len(set(rows)):
        raise Busy
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
    service_row: int, policies: Iterable[int] = (), at: datetime | None = None, slas: Iterable[int] = ()
) -> tuple[ServiceFacts, Directory] | None:
    """A locked service's facts, with its own policy and SLA and those asked for; None when it is gone."""
    service = lock_service(service_row)
    if service is None:
        return None
    team = Team.get_by_id(service.team_id)
    wanted = {row for row in (service.escalation_policy_id, *policies) if row}
    promised = {row for row in (service.sla_id, *slas) if row}
    return service_facts(service, team.account_id), directory(team, wanted, at, promised)


def lock_incident(
    incident_row: int, policies: Iterable[int] = (), at: datetime | None = None, slas: Iterable[int] = ()
) -> Surroundings | None:
    """An incident with its children, locked as `lock_families` says; None when it is gone.

    `policies` and `slas` are rows of those that the caller may give it, `at` when it is decided, None for
    now.
    """
    found = lock_families([incident_row])
    incident = found.incidents.get(incident_row)
    if incident is None:
        return None
    service = found.services.get(incident.service or 0)
    needed = Needed.by([incident]).besides(policies, slas)
    return Surroundings(incident, service, directory_for(needed, at), found.children_of(incident))


@dataclass(frozen=True, slots=True)
class Needed:
    """What incidents of a team are decided by: rows of policies and of SLAs."""

    team: int
    policies: frozenset[int]
    slas: frozenset[int]

    @classmethod
    def by(cls, incidents: Collection[IncidentState]) -> "Needed":
        """Of one or more incidents of one team."""
        (team,) = {one.team for one in incidents}
        return cls(
            team, _rows(one.escalation_policy for one in incidents), _rows(one.sla for one in incidents)
        )

    def besides(self, policies: Iterable[int | None], slas: Iterable[int | None]) -> "Needed":
        """With these besides."""
        return Needed(self.team, self.policies | _rows(policies), self.slas | _rows(slas))


def _rows(rows: Iterable[int | None]) -> frozenset[int]:
    return frozenset(row for row in rows if row)


def slas_behind(incidents: Iterable[IncidentState]) -> frozenset[int]:
    """The SLAs that promise something of these incidents."""
    return _rows(one.sla for one in incidents)


def directory_for(needed: Needed, at: datetime | None = None) -> Directory:
    """Whom incidents may name, and what they were promised; see `models.directories.directory`."""
    return directory(Team.get_by_id(needed.team), needed.policies, at, needed.slas)


@dataclass(frozen=True, slots=True)
class Families:
    """Incidents with all that are merged into them, by row; and the services of all these."""

    incidents: dict[int, IncidentState]
    services: dict[int, ServiceFacts]

    def children_of(self, incident: IncidentState) -> tuple[IncidentState, ...]:
        return tuple(one for one in self.incidents.values() if one.parent == incident.row)


def lock_families(incident_rows: Collection[int], *, waits: bool = True) -> Families:
    """These incidents and their children, locked by their services (and themselves).

    Who are children is certain only under the lock: where something was merged between looking and locking,
    all is let go and locked again with its service, in order. Where it is not to wait, it raises Busy when
    somebody else holds one of the services, and leaves out incidents that have none and are held by somebody
    else.
    """
    asked = services_of_families(incident_rows)
    while True:
        with db.atomic() as tried:
            services = lock_services(asked, waits=waits)
            # Whoever holds one of a service's incidents without its lock holds it for a moment only.
            states = lock_families_of(incident_rows, waits=waits or bool(asked))
            missing = {one.service for one in states if one.service} - asked
            if not missing:
                break
            # What is held now may come after what is missing, in the order in which everybody locks.
            tried.rollback()
        asked |= missing
    accounts = {one.service: one.account for one in states}
    return Families(
        {one.row: one for one in states if one.row},
        {row: service_facts(service, accounts[row]) for row, service in services.items() if row in accounts},
    )


_AS_THEY_ARE = Prepared(lambda: Service.select().where(among(Service.id, "rows")))


def services_around(incidents: Iterable[IncidentState]) -> dict[int, ServiceFacts]:
    """The services of these incidents, by row, as they are at the moment: to look, not to decide."""
    accounts = {one.service: one.account for one in incidents if one.service}
    found = _AS_THEY_ARE.rows(rows=list(accounts)) if accounts else []
    services = (_as(Service, row) for row in found)
    return {service.id: service_facts(service, accounts[service.id]) for service in services}


_VERSION_FOR_TEAM = Prepared(
    lambda: (
        Configuration.select(Configuration.version)
        .join(Team, on=Team.account == Configuration.account)
        .where(Team.id == given("team"))
    )
)


def version_for_team(team_row: int) -> int:
    """The version of the configuration that a team's services and incidents are worked on by."""
    return _only(_VERSION_FOR_TEAM.first(team=team_row))


def _only(row: tuple[Any, ...] | None) -> int:
    return -1 if row is None else int(row[0])


_VERSION = Prepared(
    lambda: Configuration.select(Configuration.version).where(Configuration.account == given("account"))
)


def version_for_router(router: GlobalRouter) -> int:
    return _only(_VERSION.first(account=router.account_id))


def lane_facts(
    service: Service, at: datetime | None = None, drafted: AlertRuleFacts | None = None
) -> LaneFacts:
    """What a service's lane knows, for alerts of this moment (None: now) and later ones.

    Also what a drafted rule names besides.
    """
    team = Team.get_by_id(service.team_id)
    integrations = list(Integration.select().where(Integration.service == service))
    rules = alert_rules(integrations)
    naming = [*(rule for some in rules.values() for rule in some), *([drafted] if drafted else [])]
    policies = _nameable_policies(team, service, naming)
    people = (RuleAction.ASSIGN_USER, RuleAction.ASSIGN_ROLE, RuleAction.ADD_RESPONDER)
    named = _named_by(naming, "assign_to", people)
    schedules = _named_schedules(team, naming)
    slas = list(_of_team(Sla, team))
    return LaneFacts(
        service_facts(service, team.account_id),
        {row.id: integration_facts(row) for row in integrations},
        directory_of(team, policies, named, [schedule.unique_id for schedule in schedules], at, slas),
        Nameable(
            policies=_named(policies),
            slas=_named(slas),
            priorities=_named(_of_team(Priority, team)),
            tags=_named(_of_team(Tag, team)),
            roles={row.unique_id: Named(row.id, row.title) for row in _of_team(IncidentRole, team)},
            task_templates=_named(_of_team(TaskTemplate, team)),
            schedules=_named(schedules),
        ),
        rules,
        windows_of([service.id], recently(at)).get(service.id, ()),
    )


def _of_team(table: Any, team: Team) -> Iterable[Any]:
    rows: Iterable[Any] = table.select().where(table.team == team).order_by(table.id)
    return rows


def _named(rows: Iterable[Any]) -> dict[str, Named]:
    return {row.unique_id: Named(row.id, row.name) for row in rows}


def _named_by(rules: Iterable[AlertRuleFacts], field: str, kinds: Collection[RuleAction]) -> set[str]:
    """What actions of these kinds name, in that field or in their value."""
    return {
        str(action.get(field) or action.get("value") or "").strip().lower()
        for rule in rules
        for action in rule.actions
        if action["action_type"] in kinds
    }


def _nameable_policies(
    team: Team, service: Service, rules: Iterable[AlertRuleFacts]
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


def _named_schedules(team: Team, rules: Iterable[AlertRuleFacts]) -> list[Schedule]:
    """The schedules that the rules of a team's service name."""
    named = _named_by(rules, "schedule", (RuleAction.ASSIGN_SCHEDULE, RuleAction.ADD_RESPONDER))
    query = Schedule.select().join(Team)
    return list(query.where(Team.account == team.account_id, any_of(Schedule.unique_id, named)))


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
    within = timedelta(seconds=row.heartbeat_every + row.heartbeat_grace) if row.heartbeat_every else None
    return IntegrationFacts(
        row.id, row.unique_id, row.name, row.create_incidents_for, Urgency(row.default_urgency), within
    )
