"""What decisions are given to know: frozen values, filled from rows by models/loading.py."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from models.effects import IncidentState
from models.enums import Collation, RuleType, ServiceStatus, Urgency


@dataclass(frozen=True, slots=True)
class IntegrationFacts:
    row: int
    unique_id: str
    name: str
    create_incidents_for: int
    default_urgency: Urgency


@dataclass(frozen=True, slots=True)
class RuleFacts:
    """A notification rule that can be used: its contact's channel exists."""

    row: int
    contact: int
    channel: int
    urgency: Urgency
    start_delay_minutes: int


@dataclass(frozen=True, slots=True)
class PersonFacts:
    row: int
    username: str
    name: str
    rules: tuple[RuleFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class StepFacts:
    """A step of a policy: `delay_minutes` after the chain began, these people (by username)."""

    delay_minutes: int
    usernames: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PolicyFacts:
    row: int
    unique_id: str
    name: str
    steps: tuple[StepFacts, ...]
    repeat: int
    move_to_next: bool


@dataclass(frozen=True, slots=True)
class Directory:
    """Policies and the people they name; whom to tell when a chain reaches nobody."""

    policies: Mapping[int, PolicyFacts] = field(default_factory=dict)
    people: Mapping[str, PersonFacts] = field(default_factory=dict)
    managers: tuple[str, ...] = ()
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    row: int
    unique_id: str
    name: str
    account: int
    team: int
    status: ServiceStatus = ServiceStatus.ACTIVE
    under_maintenance: bool = False
    escalation_policy: int | None = None
    sla: int | None = None
    team_priority: int | None = None
    task_template: int | None = None
    auto_resolve_s: int = 0
    acknowledgement_timeout_s: int = 0
    collation: Collation = Collation.OFF
    collation_minutes: int = 0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """An incident under its service's lock, and what its moves depend on; `children` are all that are merged
    into it, under the locks of theirs."""

    incident: IncidentState
    service: ServiceFacts | None
    directory: Directory
    children: tuple[IncidentState, ...] = ()


@dataclass(frozen=True, slots=True)
class AlertRuleFacts:
    """An alert rule as it is stored; `conditions` and `actions` as models/rules.py has them."""

    unique_id: str
    description: str = ""
    rule_json: str = ""
    rule_type: RuleType = RuleType.ALL
    conditions: tuple[Mapping[str, Any], ...] = ()
    actions: tuple[Mapping[str, Any], ...] = ()
    stop: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """Something that alerts and rules may refer to."""

    row: int
    name: str


@dataclass(frozen=True, slots=True)
class Nameable:
    """What a team's alerts and rules may refer to, by unique_id."""

    policies: Mapping[str, Named] = field(default_factory=dict)
    slas: Mapping[str, Named] = field(default_factory=dict)
    priorities: Mapping[str, Named] = field(default_factory=dict)
    tags: Mapping[str, Named] = field(default_factory=dict)
    roles: Mapping[str, Named] = field(default_factory=dict)
    task_templates: Mapping[str, Named] = field(default_factory=dict)
    schedules: Mapping[str, Named] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """What a service's lane knows about itself, the same for every alert of a batch.

    `rules` are the enabled alert rules of each integration that has any, in the order in which they act.
    """

    service: ServiceFacts
    integrations: Mapping[int, IntegrationFacts]
    directory: Directory
    nameable: Nameable = field(default_factory=Nameable)
    rules: Mapping[int, tuple[AlertRuleFacts, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """An integration that a router may send to; `is_open` unless it is disabled or outbound."""

    integration: int
    service: int
    name: str
    source: str
    is_open: bool


@dataclass(frozen=True, slots=True)
class RouterRuleFacts:
    """A router's rule as it is stored: `actions` as models/routers.py has them."""

    unique_id: str
    name: str
    rule_json: str
    actions: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class RouterFacts:
    """What a router's lane knows: its rules in order, and their targets by the integration's unique_id."""

    row: int
    name: str
    rules: tuple[RouterRuleFacts, ...] = ()
    targets: Mapping[str, TargetFacts] = field(default_factory=dict)
