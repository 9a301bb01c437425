"""What decisions are given to know: frozen values, filled from rows by models/load/lane.py."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from models.domain.effects import IncidentState
from models.domain.enums import (
    Collation,
    NotificationKind,
    RestrictionType,
    RuleType,
    ServiceStatus,
    SlaTargetKind,
    TargetType,
    Urgency,
)


@dataclass(frozen=True, slots=True)
class IntegrationFacts:
    row: int
    unique_id: str
    name: str
    create_incidents_for: int
    default_urgency: Urgency
    # How long after a ping the next one must have come; None where no ping is expected.
    ping_timeout: timedelta | None = None


@dataclass(frozen=True, slots=True)
class NotificationRuleFacts:
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
    rules: tuple[NotificationRuleFacts, ...] = ()
    forwarding: tuple["ForwardingFacts", ...] = ()


@dataclass(frozen=True, slots=True)
class ForwardingFacts:
    """From `start` until just before `end` somebody else is told, whose own forwarding does not count."""

    start: datetime
    end: datetime
    to: PersonFacts


@dataclass(frozen=True, slots=True)
class NotificationFacts:
    """That somebody is to be told of an incident by a contact (None: the account's address), or was, and not
    before which moment; for what `occasion` of this kind, and why."""

    kind: NotificationKind
    reason_key: str
    person: PersonFacts
    contact: int | None
    reason: str
    not_before: datetime
    is_sent: bool


@dataclass(frozen=True, slots=True)
class RestrictionFacts:
    """From a time of day on, for `duration`; `day` is 1 (Monday) to 7 (Sunday), of no meaning where it is
    every day."""

    day: int
    time_of_day: timedelta
    duration: timedelta


@dataclass(frozen=True, slots=True)
class LayerFacts:
    """An active layer of a schedule: people (by username) taking turns of one length, from `start` until just
    before `end`, at the times that its restrictions let through."""

    unique_id: str
    name: str
    usernames: tuple[str, ...]
    shift_length: timedelta
    start: datetime
    end: datetime | None = None
    restriction_type: RestrictionType = RestrictionType.NONE
    restrictions: tuple[RestrictionFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class OverrideFacts:
    """One person (by username) from `start` until just before `end`, instead of whoever the layers name."""

    unique_id: str
    name: str
    username: str
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class ScheduleFacts:
    """Whose turn it is: contract section 4.5. `by_local_time` are turns that begin at the same hour by the
    clock on the wall, summer and winter; `overrides` those that had not ended when it was read."""

    row: int
    unique_id: str
    name: str
    time_zone: str = "UTC"
    by_local_time: bool = False
    layers: tuple[LayerFacts, ...] = ()
    overrides: tuple[OverrideFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class ScheduleOverview:
    """A schedule and what is around it: `team` by name with its `members` (usernames), and whether any
    policy names the schedule."""

    schedule: ScheduleFacts
    team: str
    members: Collection[str]
    is_used: bool


@dataclass(frozen=True, slots=True)
class StepTarget:
    """Whom a step names: a person by username, or whoever is on call by a schedule, by its unique_id."""

    kind: TargetType
    name: str


@dataclass(frozen=True, slots=True)
class StepFacts:
    """A step of a policy: `delay_minutes` after the chain began, these."""

    delay_minutes: int
    targets: tuple[StepTarget, ...]


@dataclass(frozen=True, slots=True)
class PolicyFacts:
    """`round_robin`: each incident is assigned to the next target of the first step, who `alone` is then told
    by that step (contract 4.4, row 5)."""

    row: int
    unique_id: str
    name: str
    steps: tuple[StepFacts, ...]
    repeat: int
    move_to_next: bool
    round_robin: bool = False
    assignee_only: bool = False


@dataclass(frozen=True, slots=True)
class SlaEscalationFacts:
    """Whom (by username) an SLA tells so many seconds after a promise of it breaks; negative: before."""

    unique_id: str
    target_kind: SlaTargetKind
    after_s: int
    usernames: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SlaFacts:
    """An active SLA: within how many seconds it promises an answer, and an end; None where it does not."""

    row: int
    unique_id: str
    name: str
    acknowledge_s: int | None = None
    resolve_s: int | None = None
    escalations: tuple[SlaEscalationFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class OnCallConfig:
    """Policies and SLAs, by row, the people and the schedules they name; whom to tell when a chain reaches
    nobody.

    `turns`, by row of a policy that assigns by turns, is which target's turn it is. `worked_at` is when what
    is decided about is worked on, where that may be later than its own moment (see
    schedules/escalation/notifications.py).
    """

    policies: Mapping[int, PolicyFacts] = field(default_factory=dict)
    people: Mapping[str, PersonFacts] = field(default_factory=dict)
    schedules: Mapping[str, ScheduleFacts] = field(default_factory=dict)
    managers: tuple[str, ...] = ()
    owner: str | None = None
    next_targets: Mapping[int, int] = field(default_factory=dict)
    processed_at: datetime | None = None
    slas: Mapping[int, SlaFacts] = field(default_factory=dict)


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
class WindowFacts:
    """A maintenance window: from `start` until just before `end`, again every `repeat_interval` days (0:
    never) by the clock on the wall of `time_zone`; the last begins before `repeat_until` (None: none is)."""

    unique_id: str
    name: str
    start: datetime
    end: datetime
    repeat_interval: int = 0
    repeat_until: datetime | None = None
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class IncidentContext:
    """An incident under its service's lock, and what its moves depend on; `children` are all that are merged
    into it, under the locks of theirs."""

    incident: IncidentState
    service: ServiceFacts | None
    config: OnCallConfig
    children: tuple[IncidentState, ...] = ()


@dataclass(frozen=True, slots=True)
class AlertRuleFacts:
    """An alert rule as it is stored; `conditions` and `actions` as models/tables/rules.py has them."""

    unique_id: str
    description: str = ""
    rule_json: str = ""
    rule_type: RuleType = RuleType.ALL
    conditions: tuple[Mapping[str, Any], ...] = ()
    actions: tuple[Mapping[str, Any], ...] = ()
    stop: bool = False


@dataclass(frozen=True, slots=True)
class Reference:
    """Something that alerts and rules may refer to."""

    row: int
    name: str


@dataclass(frozen=True, slots=True)
class References:
    """What a team's alerts and rules may refer to, by unique_id."""

    policies: Mapping[str, Reference] = field(default_factory=dict)
    slas: Mapping[str, Reference] = field(default_factory=dict)
    priorities: Mapping[str, Reference] = field(default_factory=dict)
    tags: Mapping[str, Reference] = field(default_factory=dict)
    roles: Mapping[str, Reference] = field(default_factory=dict)
    task_templates: Mapping[str, Reference] = field(default_factory=dict)
    schedules: Mapping[str, Reference] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """What a service's lane knows about itself, the same for every alert of a batch.

    `rules` are the enabled alert rules of each integration that has any, in the order in which they act.
    `windows` are the maintenance windows that the service is in.
    """

    service: ServiceFacts
    integrations: Mapping[int, IntegrationFacts]
    config: OnCallConfig
    references: References = field(default_factory=References)
    rules: Mapping[int, tuple[AlertRuleFacts, ...]] = field(default_factory=dict)
    windows: tuple[WindowFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class RouteTarget:
    """An integration that a router may send to; `is_open` unless it is disabled or outbound."""

    integration: int
    service: int
    name: str
    source: str
    accepts_alerts: bool


@dataclass(frozen=True, slots=True)
class RouterRuleFacts:
    """A router's rule as it is stored: `actions` as models/tables/routers.py has them."""

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
    targets: Mapping[str, RouteTarget] = field(default_factory=dict)
