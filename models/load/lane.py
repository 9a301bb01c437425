"""Load the facts of lanes and incidents for decisions, in a constant number of queries.

Call these functions inside the write transaction that writes the decision.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import peewee

from models.domain.effects import Author, IncidentState
from models.domain.enums import Collation, IntegrationType, MatchMode, RuleType, ServiceStatus, Urgency
from models.domain.facts import (
    AlertRuleFacts,
    GroupingFacts,
    IncidentContext,
    IntegrationFacts,
    LaneFacts,
    OnCallConfig,
    Reference,
    ReferenceMap,
    References,
    RouterFacts,
    RouterRuleFacts,
    RouteTarget,
    ServiceFacts,
)
from models.load.incident_states import find_services, lock_incident_rows
from models.load.maintenance import load_windows
from models.load.oncall_config import build_oncall_config, load_oncall_config
from models.load.schedules import get_lookback_start, load_schedule_rows
from models.load.source_setups import NOTHING_DECLARED, Declared, load_declared
from models.store.fields import Table
from models.store.prepared import Prepared, Row, bind, in_bound, in_list
from models.store.store import Busy, db, store
from models.tables.accounts import ConfigVersion
from models.tables.routers import GlobalRouter, RouterRule
from models.tables.rules import AlertGroupingPolicy, AlertRule
from models.tables.services import Integration, Service
from models.tables.tasks import TaskTemplate
from models.tables.teams import EscalationPolicy, IncidentRole, Priority, Sla, Tag, Team

# The length of a UUID, the longest ID in an action of an alert rule.
MAX_ID_LENGTH = 36


_COLLATIONS = {each.value: each for each in Collation}


def lock_service(service_row: int) -> Service | None:
    """Lock a service until the transaction ends and return it; None: the service was deleted."""
    return lock_services([service_row]).get(service_row)


def _prepare_services(*, skip_locked: bool) -> Prepared:
    def query() -> peewee.ModelSelect:
        services = Service.select().where(in_bound(Service.id, "rows")).order_by(Service.id)
        return store().for_update(services, skip_locked=skip_locked)

    return Prepared(query)


_SERVICES = _prepare_services(skip_locked=False)
_FREE_SERVICES = _prepare_services(skip_locked=True)


def lock_services(rows: Collection[int], *, blocking: bool = True) -> dict[int, Service]:
    """Lock these services in ascending order, as everywhere, and return them; deleted ones are absent.

    `blocking` False: do not wait for locks. Raises Busy if a service is locked by another transaction, or was
    deleted.
    """
    if not rows:
        return {}
    found = _run_lock(_SERVICES, rows) if blocking else lock_free_services(rows)
    if not blocking and len(found) < len(set(rows)):
        raise Busy
    return found


def lock_free_services(rows: Collection[int]) -> dict[int, Service]:
    """Lock those of these services that no other transaction has locked, without waiting; return them."""
    return _run_lock(_FREE_SERVICES, rows)


def _run_lock(query: Prepared, rows: Collection[int]) -> dict[int, Service]:
    return {service.id: service for service in query.load(Service, rows=rows)}


def get_team_of_service(service_row: int) -> int:
    team: int = Service.select(Service.team).where(Service.id == service_row).scalar()
    return team


_ACCOUNTS = Prepared(
    lambda: Service.select(Service.id, Team.account).join(Team).where(in_bound(Service.id, "rows"))
)


def load_accounts(service_rows: Collection[int]) -> dict[int, int]:
    """Return the accounts (row numbers) of these services; deleted services are absent."""
    return dict(_ACCOUNTS.rows(rows=service_rows))


def load_service_config(
    service_row: int, policies: Iterable[int] = (), at: datetime | None = None, slas: Iterable[int] = ()
) -> tuple[ServiceFacts, OnCallConfig] | None:
    """Lock a service and load its facts and on-call config; None: the service was deleted.

    The config contains the service's own policy and SLA and the given ones (row numbers).
    """
    service = lock_service(service_row)
    if service is None:
        return None
    team = _load_team(service.team_id)
    policy_rows = {row for row in (service.escalation_policy_id, *policies) if row}
    sla_rows = {row for row in (service.sla_id, *slas) if row}
    return build_service(service, team.account_id), load_oncall_config(team, policy_rows, at, sla_rows)


def lock_incident(
    incident_row: int,
    author: Author,
    now: datetime,
    policies: Iterable[int] = (),
    slas: Iterable[int] = (),
) -> IncidentContext | None:
    """Lock an incident with its children (see lock_with_children) and load it; None: it does not exist.

    `author` makes the decision, at the time `now`. `policies` and `slas` are row numbers that the decision
    may set on the incident.
    """
    locked = lock_with_children([incident_row])
    incident = locked.incidents.get(incident_row)
    if incident is None:
        return None
    service = locked.services.get(incident.service or 0)
    config_keys = ConfigKeys.from_incidents([incident]).with_extra(policies, slas)
    config = load_incident_config(config_keys, now)
    return IncidentContext(incident, service, config, author, now, locked.get_children(incident))


@dataclass(frozen=True, slots=True)
class ConfigKeys:
    """The policies and SLAs (row numbers) that decisions about incidents of one team need."""

    team: int
    policies: frozenset[int]
    slas: frozenset[int]

    @classmethod
    def from_incidents(cls, incidents: Collection[IncidentState]) -> "ConfigKeys":
        """Collect the keys of one or more incidents, which must have the same team."""
        (team,) = {incident.team for incident in incidents}
        return cls(
            team,
            _drop_empty(incident.escalation_policy for incident in incidents),
            _drop_empty(incident.sla for incident in incidents),
        )

    def with_extra(self, policies: Iterable[int | None], slas: Iterable[int | None]) -> "ConfigKeys":
        """Return a copy with more policies and SLAs; None is ignored."""
        return ConfigKeys(self.team, self.policies | _drop_empty(policies), self.slas | _drop_empty(slas))


def _drop_empty(rows: Iterable[int | None]) -> frozenset[int]:
    return frozenset(row for row in rows if row)


def list_slas(incidents: Iterable[IncidentState]) -> frozenset[int]:
    """Return the SLAs (row numbers) of these incidents."""
    return _drop_empty(incident.sla for incident in incidents)


def load_incident_config(config_keys: ConfigKeys, at: datetime | None = None) -> OnCallConfig:
    """Load the on-call config for these keys; see `models.load.oncall_config.load_oncall_config`."""
    return load_oncall_config(_load_team(config_keys.team), config_keys.policies, at, config_keys.slas)


@dataclass(frozen=True, slots=True)
class LockedIncidents:
    """Incidents and their children by row number, and the services of all of them."""

    incidents: dict[int, IncidentState]
    services: dict[int, ServiceFacts]

    def get_children(self, incident: IncidentState) -> tuple[IncidentState, ...]:
        return tuple(child for child in self.incidents.values() if child.parent == incident.row)


def lock_with_children(incident_rows: Collection[int], *, blocking: bool = True) -> LockedIncidents:
    """Lock the services of these incidents and of their children, then the incidents, and load them.

    The list of children is certain only under the locks. If an incident was merged between the first query
    and the locks, release all locks. Then take them again in order, with the additional service.

    `blocking` False: do not wait for locks. Raises Busy if another transaction has locked one of the
    services. Incidents without a service that are locked elsewhere are left out.
    """
    service_rows = find_services(incident_rows)
    while True:
        with db.atomic() as savepoint:
            services = lock_services(service_rows, blocking=blocking)
            # Code that locks an incident without its service keeps that lock for a short time only.
            locked = lock_incident_rows(incident_rows, blocking=blocking or bool(service_rows))
            missing = {state.service for state in locked if state.service} - service_rows
            if not missing:
                break
            # A locked service may come after the missing one in the order of locks: release them first.
            savepoint.rollback()
        service_rows |= missing
    accounts = {state.service: state.account for state in locked}
    return LockedIncidents(
        {state.row: state for state in locked if state.row},
        {row: build_service(service, accounts[row]) for row, service in services.items() if row in accounts},
    )


_SERVICES_BY_ROW = Prepared(lambda: Service.select().where(in_bound(Service.id, "rows")))


def load_services(incidents: Iterable[IncidentState]) -> dict[int, ServiceFacts]:
    """Load the services of these incidents by row number, without locks: for display, not for decisions."""
    accounts = {incident.service: incident.account for incident in incidents if incident.service}
    services = _SERVICES_BY_ROW.load(Service, rows=list(accounts)) if accounts else []
    return {service.id: build_service(service, accounts[service.id]) for service in services}


_VERSIONS_FOR_TEAMS = Prepared(
    lambda: (
        ConfigVersion.select(Team.id, ConfigVersion.version)
        .join(Team, on=Team.account == ConfigVersion.account)
        .where(in_bound(Team.id, "teams"))
    )
)


def get_team_versions(team_rows: Collection[int]) -> dict[int, int]:
    """Return the current versions of the configuration of the teams' accounts; deleted teams are absent."""
    return dict(_VERSIONS_FOR_TEAMS.rows(teams=team_rows))


def get_team_version(team_row: int) -> int:
    """Return the current version of the configuration of the team's account; -1: the team was deleted."""
    return get_team_versions([team_row]).get(team_row, -1)


def _read_version(row: tuple[int, ...] | None) -> int:
    return -1 if row is None else int(row[0])


_VERSION = Prepared(
    lambda: ConfigVersion.select(ConfigVersion.version).where(ConfigVersion.account == bind("account"))
)


def get_router_version(router: GlobalRouter) -> int:
    return _read_version(_VERSION.first(account=router.account_id))


_TEAMS = Prepared(lambda: Team.select().where(Team.id == bind("row")))


def _load_team(row: int) -> Team:
    """Return a team that exists, because a locked row refers to it."""
    (team,) = _TEAMS.load(Team, row=row)
    return team


def _prepare_of_team(table: type[Table]) -> Prepared:
    return Prepared(lambda: table.select().where(table.team == bind("team")).order_by(table.id))


# The tables whose objects alert rules name, except policies and schedules: those of other teams count, too.
_OF_TEAM = {table: _prepare_of_team(table) for table in (Sla, Priority, Tag, IncidentRole, TaskTemplate)}
_INTEGRATIONS = Prepared(lambda: Integration.select().where(Integration.service == bind("service")))


def load_lane(service: Service, at: datetime | None = None, draft: AlertRuleFacts | None = None) -> LaneFacts:
    """Load the facts of a service's lane, for alerts at this time (None: now) and later.

    `draft` is an alert rule that is not stored yet; the objects that it names are loaded too.
    """
    team = _load_team(service.team_id)
    integrations = _INTEGRATIONS.load(Integration, service=service.id)
    rules = load_alert_rules(integrations)
    declared = load_declared([row.id for row in integrations])
    all_rules = [*(rule for group in rules.values() for rule in group), *([draft] if draft else [])]
    ids = _list_possible_ids(all_rules)
    policies = _load_policies(team, service, ids)
    schedules = load_schedule_rows(team.account_id, ids)
    slas = _load_of_team(Sla, team)
    return LaneFacts(
        build_service(service, team.account_id),
        {row.id: build_integration(row, declared.get(row.id, NOTHING_DECLARED)) for row in integrations},
        build_oncall_config(team, policies, ids, [schedule.unique_id for schedule in schedules], at, slas),
        References(
            policies=_build_references(policies),
            slas=_build_references(slas),
            priorities=_build_references(_load_of_team(Priority, team)),
            tags=_build_references(_load_of_team(Tag, team)),
            roles=ReferenceMap(
                (row.unique_id, Reference(row.id, row.title)) for row in _load_of_team(IncidentRole, team)
            ),
            task_templates=_build_references(_load_of_team(TaskTemplate, team)),
            schedules=_build_references(schedules),
        ),
        rules,
        load_windows([service.id], get_lookback_start(at)).get(service.id, ()),
        _load_grouping(service),
    )


_GROUPING_POLICIES = Prepared(
    lambda: (
        AlertGroupingPolicy.select()
        .where(AlertGroupingPolicy.service == bind("service"), AlertGroupingPolicy.is_active)
        .order_by(AlertGroupingPolicy.id)
    )
)


def _load_grouping(service: Service) -> tuple[GroupingFacts, ...]:
    """Load the active grouping policies of a service."""
    return tuple(
        GroupingFacts(
            row.unique_id,
            row.match_mode == MatchMode.ALL,
            tuple(row.match_fields.get("static_fields", ())),
            tuple(row.match_fields.get("custom_fields", ())),
            timedelta(minutes=row.time_window),
        )
        for row in _GROUPING_POLICIES.load(AlertGroupingPolicy, service=service.id)
    )


def _load_of_team(table: type[Row], team: Team) -> list[Row]:
    return _OF_TEAM[table].load(table, team=team.id)


def _build_references(rows: Iterable[Table]) -> ReferenceMap:
    return ReferenceMap((row.unique_id, Reference(row.id, row.name)) for row in rows)


def _list_possible_ids(rules: Iterable[AlertRuleFacts]) -> set[str]:
    """Return all texts of actions that are as short as an ID.

    Only pipeline/rules/action_table.py knows which fields of an action are references.
    """
    actions = (action for rule in rules for action in rule.actions)
    values = (value for action in actions for name, value in action.items() if name != "unique_id")
    texts = (value.strip().lower() for value in values if isinstance(value, str))
    return {text for text in texts if 0 < len(text) <= MAX_ID_LENGTH}


_POLICIES = Prepared(
    lambda: (
        EscalationPolicy.select()
        .join(Team)
        .where(
            Team.account == bind("account"),
            (EscalationPolicy.team == bind("team"))
            | EscalationPolicy.global_ep
            | (EscalationPolicy.id == bind("own"))
            | in_bound(EscalationPolicy.unique_id, "unique_ids"),
        )
        .order_by(EscalationPolicy.id)
    )
)


def _load_policies(team: Team, service: Service, unique_ids: Collection[str]) -> list[EscalationPolicy]:
    """Load the policies of the team, the global ones of the account, the service's own policy, and those with
    these IDs."""
    return _POLICIES.load(
        EscalationPolicy,
        account=team.account_id,
        team=team.id,
        own=service.escalation_policy_id,
        unique_ids=unique_ids,
    )


_RULES = Prepared(
    lambda: (
        AlertRule.select()
        .where(in_bound(AlertRule.integration, "integrations"), AlertRule.is_enabled)
        .order_by(AlertRule.integration, AlertRule.position, AlertRule.id)
    )
)


def load_alert_rules(integrations: Iterable[Integration]) -> dict[int, tuple[AlertRuleFacts, ...]]:
    """Load the enabled rules of these integrations in order of evaluation (contract 4.2)."""
    matches: dict[int, list[AlertRuleFacts]] = {}
    for row in _RULES.load(AlertRule, integrations=[row.id for row in integrations]):
        matches.setdefault(row.integration_id, []).append(build_alert_rule(row))
    return {integration: tuple(rules) for integration, rules in matches.items()}


def build_alert_rule(row: AlertRule) -> AlertRuleFacts:
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
    """Lock a router until the transaction ends and return it; None: the router was deleted."""
    query = GlobalRouter.select().where(GlobalRouter.id == router_row)
    matches: GlobalRouter | None = store().for_update(query).get_or_none()
    return matches


def load_router(router: GlobalRouter) -> RouterFacts:
    """Load the rules of a router in order, and the integrations of its account that they name."""
    rows = RouterRule.select().where(RouterRule.router == router)
    rules = [
        RouterRuleFacts(row.unique_id, row.name, row.rule_json, tuple(row.actions))
        for row in rows.order_by(RouterRule.position, RouterRule.id)
    ]
    unique_ids = {action["integration"] for rule in rules for action in rule.actions if action["integration"]}
    targets = list(
        Integration.select(Integration, Service)
        .join(Service)
        .join(Team)
        .where(Team.account == router.account_id, in_list(Integration.unique_id, unique_ids))
    )
    declared = load_declared([row.id for row in targets])
    return RouterFacts(
        router.id,
        router.name,
        tuple(rules),
        {row.unique_id: _build_target(row, declared.get(row.id, NOTHING_DECLARED)) for row in targets},
    )


def _build_target(row: Integration, declared: Declared) -> RouteTarget:
    return RouteTarget(
        row.id,
        row.service_id,
        row.name,
        row.application_reference.extension,
        row.is_enabled and row.integration_type == IntegrationType.ALERT,
        declared.default_level,
    )


def build_service(service: Service, account: int) -> ServiceFacts:
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
        # A later version may know more ways of grouping.
        collation=_COLLATIONS.get(service.collation, Collation.OFF),
        collation_minutes=service.collation_time,
        has_outbound=service.has_outbound,
    )


def build_integration(row: Integration, declared: Declared) -> IntegrationFacts:
    within = (
        timedelta(seconds=row.heartbeat_interval + row.heartbeat_grace) if row.heartbeat_interval else None
    )
    urgency = Urgency(row.default_urgency)
    return IntegrationFacts(
        row.id,
        row.unique_id,
        row.name,
        row.create_incidents_for,
        urgency,
        within,
        declared.is_signed,
        declared.default_level,
    )
