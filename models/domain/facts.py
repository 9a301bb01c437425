"""Facts: the frozen values that decisions read. models/load fills them from rows."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from models.domain.effects import Author, Effect, IncidentState, NotificationState, RecordLog
from models.domain.enums import (
    AlertType,
    Collation,
    DoubleShifts,
    IncidentStatus,
    NotificationKind,
    RestrictionType,
    RuleType,
    ServiceStatus,
    SlaTargetKind,
    TargetType,
    Urgency,
)
from models.domain.reasons import Reason
from models.domain.values import replace


@dataclass(frozen=True, slots=True)
class IntegrationFacts:
    row: int
    unique_id: str
    name: str
    create_incidents_for: int
    default_urgency: Urgency
    # The longest allowed time between two pings; None: no ping is expected.
    ping_timeout: timedelta | None = None
    # Whether the tool signs its requests: then no other request with the key counts.
    is_signed: bool = False
    # The level of alerts whose source sent none that Tocsin knows; None: that of the source.
    default_level: AlertType | None = None


@dataclass(frozen=True, slots=True)
class NotificationRuleFacts:
    """A usable notification rule: the channel of its contact exists."""

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
    """A forwarding rule: from `start` until just before `end`, notify `to` instead.

    Forwarding rules of `to` are ignored.
    """

    start: datetime
    end: datetime
    to: PersonFacts


@dataclass(frozen=True, slots=True)
class NotificationFacts:
    """A notification, pending or sent. `contact` None: the user's own e-mail address.

    `reason_key` is the part of its key that says why it exists. `not_before` is when it is due.
    """

    kind: NotificationKind
    reason_key: str
    person: PersonFacts
    contact: int | None
    reason: Reason
    not_before: datetime
    is_sent: bool


@dataclass(frozen=True, slots=True)
class RestrictionFacts:
    """A restriction of a layer: it starts at a time of day and lasts `duration`.

    `day` is 1 (Monday) to 7 (Sunday); daily restrictions ignore it.
    """

    day: int
    time_of_day: timedelta
    duration: timedelta


@dataclass(frozen=True, slots=True)
class LayerFacts:
    """An active layer of a schedule: people (by username) take turns of one length.

    The layer applies from `start` until just before `end`, at the times that its restrictions allow.
    """

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
    """An override: one person (by username) is on call from `start` until just before `end`.

    Meanwhile the people of the layers are not on call.
    """

    unique_id: str
    name: str
    username: str
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class ScheduleFacts:
    """A schedule (contract section 4.5).

    With `by_local_time` the shifts begin at the same local time in summer and in winter. `overrides` are
    those that had not ended when the schedule was read. `double_shifts` matters only for checks.
    """

    row: int
    unique_id: str
    name: str
    time_zone: str = "UTC"
    by_local_time: bool = False
    layers: tuple[LayerFacts, ...] = ()
    overrides: tuple[OverrideFacts, ...] = ()
    double_shifts: DoubleShifts = DoubleShifts.MINOR


@dataclass(frozen=True, slots=True)
class ScheduleOverview:
    """A schedule with the name of its team and the usernames of the team members.

    `is_used`: whether an escalation policy names the schedule.
    """

    schedule: ScheduleFacts
    team: str
    members: Collection[str]
    is_used: bool


@dataclass(frozen=True, slots=True)
class StepTarget:
    """A target of a step: a person by username, or a schedule by its unique_id."""

    kind: TargetType
    name: str


@dataclass(frozen=True, slots=True)
class StepFacts:
    """A step of a policy: it notifies its targets `delay_minutes` after the escalation run began."""

    delay_minutes: int
    targets: tuple[StepTarget, ...]


@dataclass(frozen=True, slots=True)
class PolicyFacts:
    """An escalation policy.

    `round_robin`: each incident is assigned to the next target of the first step. `assignee_only`: the first
    step then notifies only the assignee (contract 4.4, row 5).
    """

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
    """An SLA escalation: the people (by username) who are notified `after_s` seconds after a breach.

    A negative `after_s` is before the breach.
    """

    unique_id: str
    target_kind: SlaTargetKind
    after_s: int
    usernames: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SlaFacts:
    """An active SLA: the targets to acknowledge and to resolve, in seconds. None: no such target."""

    row: int
    unique_id: str
    name: str
    acknowledge_s: int | None = None
    resolve_s: int | None = None
    escalations: tuple[SlaEscalationFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class OnCallConfig:
    """Policies and SLAs by row number, with the people and schedules that they name.

    - `managers` and `owner` (usernames): the last resort, if an escalation run notifies nobody.
    - `next_targets`: the position of the next target, by row number of a round robin policy.
    - `processed_at`: when the alert or timer is processed, if that can be later than its own time (see
      schedules/escalation/person_notifications.py).
    """

    policies: Mapping[int, PolicyFacts] = field(default_factory=dict)
    people: Mapping[str, PersonFacts] = field(default_factory=dict)
    schedules: Mapping[str, ScheduleFacts] = field(default_factory=dict)
    managers: tuple[str, ...] = ()
    owner: str | None = None
    next_targets: Mapping[int, int] = field(default_factory=dict)
    processed_at: datetime | None = None
    slas: Mapping[int, SlaFacts] = field(default_factory=dict)

    @property
    def round_robins(self) -> list[int]:
        """Return the row numbers of the round-robin policies."""
        return [policy.row for policy in self.policies.values() if policy.round_robin]


@dataclass(frozen=True, slots=True)
class PastIncident:
    """The last incident of an entity that no open incident holds: its row, and when the incident ended."""

    row: int
    ended_at: datetime


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
    # Whether outbound integrations may send the incidents.
    has_outbound: bool = False


@dataclass(frozen=True, slots=True)
class OpenIncidentFacts:
    """An incident with all that decides whom it notifies next if nobody reacts.

    - `service`: None if the incident has none.
    - `pending`: its notifications that are due later than now. `names`: those of their people, by row number.
    - `timer_order`: its timers in the order in which they fire at the same time. `fired`: its one-time timers
      that have fired. Both are by incident and key.
    """

    incident: IncidentState
    service: ServiceFacts | None
    config: OnCallConfig
    pending: tuple[NotificationState, ...] = ()
    names: tuple[tuple[int, str], ...] = ()
    timer_order: tuple[tuple[str, str], ...] = ()
    fired: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class GroupingFacts:
    """An alert grouping policy that is active (contract section 3.12).

    Alerts with the same value of any field, or of all fields with `match_all`, belong together for `window`
    from the creation of an incident. `paths` are paths into the payload.
    """

    unique_id: str
    match_all: bool
    static_fields: tuple[str, ...]
    paths: tuple[str, ...]
    window: timedelta


@dataclass(frozen=True, slots=True)
class GroupKey:
    """The values of an alert by a grouping policy, as a digest. Equal digests mean equal values."""

    digest: str
    window: timedelta


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """A maintenance window: from `start` until just before `end`.

    It repeats every `repeat_interval` days (0: never), in the local time of `time_zone`. The last repetition
    begins before `repeat_until` (None: it repeats without end).
    """

    unique_id: str
    name: str
    start: datetime
    end: datetime
    repeat_interval: int = 0
    repeat_until: datetime | None = None
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class IncidentContext:
    """An incident with everything that a decision about it reads. The service of the incident is locked.

    `author` makes the decision, at the time `now`. `children` are the incidents that are merged into the
    incident; their services are locked too.
    """

    incident: IncidentState
    service: ServiceFacts | None
    config: OnCallConfig
    author: Author
    now: datetime
    children: tuple[IncidentState, ...] = ()

    @property
    def policy(self) -> PolicyFacts | None:
        """The escalation policy of the incident. None: it has none, or the policy was deleted."""
        return self.config.policies.get(self.incident.escalation_policy or 0)

    def with_incident(self, incident: IncidentState) -> "IncidentContext":
        return replace(self, incident=incident)

    def build_log(self, what: str, why: Reason) -> RecordLog:
        return RecordLog(self.incident.unique_id, self.now, what, why, self.author)


@dataclass(frozen=True, slots=True)
class TimerDecision:
    """What a due timer does; `outcome` describes it for people.

    - `save`: the incident to save, even if it is unchanged. Its timers are then reconciled, and a timer that
      is not due yet is moved. Without `save` and `status`, the timer is done and no other timer changes.
    - `status`: the status that the incident changes to, with its `reason`.
    - `fired`: a timer that fires once has had its effect and is not created again.
    """

    outcome: Reason
    effects: tuple[Effect, ...] = ()
    save: IncidentState | None = None
    status: IncidentStatus | None = None
    reason: Reason | None = None
    fired: bool = False


@dataclass(frozen=True, slots=True)
class AlertRuleFacts:
    """An alert rule as it is stored. models/tables/rules.py describes `conditions` and `actions`."""

    unique_id: str
    description: str = ""
    rule_json: str = ""
    rule_type: RuleType = RuleType.ALL
    conditions: tuple[Mapping[str, Any], ...] = ()
    actions: tuple[Mapping[str, Any], ...] = ()
    stop: bool = False


@dataclass(frozen=True, slots=True)
class Reference:
    """An object that alerts and rules can refer to."""

    row: int
    name: str


class ReferenceMap(dict[str, Reference]):
    """Objects of one kind by unique_id. Do not change it, since its indexes by name and by row are cached.

    A rule must not search a long list for each alert.
    """

    @cached_property
    def by_row(self) -> Mapping[int, Reference]:
        return {reference.row: reference for reference in self.values()}

    @cached_property
    def _by_name(self) -> Mapping[str, Reference]:
        """The objects by name, in lower case. Of objects with the same name, the first one is found."""
        return {reference.name.casefold(): reference for reference in reversed(self.values())}

    def find(self, text: str) -> Reference | None:
        """Return the object that a text refers to, by unique_id or by exact name in any case."""
        return self.get(text.lower()) or self._by_name.get(text.casefold())

    def get_name(self, row: int | None) -> str | None:
        found = None if row is None else self.by_row.get(row)
        return found.name if found else None


@dataclass(frozen=True, slots=True)
class References:
    """The objects that the alerts and rules of a team can refer to."""

    policies: ReferenceMap = field(default_factory=ReferenceMap)
    slas: ReferenceMap = field(default_factory=ReferenceMap)
    priorities: ReferenceMap = field(default_factory=ReferenceMap)
    tags: ReferenceMap = field(default_factory=ReferenceMap)
    roles: ReferenceMap = field(default_factory=ReferenceMap)
    task_templates: ReferenceMap = field(default_factory=ReferenceMap)
    schedules: ReferenceMap = field(default_factory=ReferenceMap)


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """The facts of a service's lane, the same for every alert of a batch.

    `rules` are the enabled alert rules by row number of the integration, in order of evaluation. Integrations
    without rules are absent. `windows` are the maintenance windows of the service, `grouping` its active
    alert grouping policies.
    """

    service: ServiceFacts
    integrations: Mapping[int, IntegrationFacts]
    config: OnCallConfig
    references: References = field(default_factory=References)
    rules: Mapping[int, tuple[AlertRuleFacts, ...]] = field(default_factory=dict)
    windows: tuple[WindowFacts, ...] = ()
    grouping: tuple[GroupingFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class RouteTarget:
    """An integration to which a router can send alerts.

    `accepts_alerts` is False if the integration is disabled or outbound. `default_level` is as in
    IntegrationFacts.
    """

    integration: int
    service: int
    name: str
    source: str
    accepts_alerts: bool
    default_level: AlertType | None = None


@dataclass(frozen=True, slots=True)
class RouterRuleFacts:
    """A router rule as it is stored. models/tables/routers.py describes `actions`."""

    unique_id: str
    name: str
    rule_json: str
    actions: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class RouterFacts:
    """The facts of a router's lane: its rules in order, and their targets by unique_id of the integration."""

    row: int
    name: str
    rules: tuple[RouterRuleFacts, ...] = ()
    targets: Mapping[str, RouteTarget] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What the source of an integration needs besides the body: see SourceSetup in models/tables.

    A worker adds what it fetched for a body: `certificate`, and `remark` for the trace of its alerts.
    """

    secret: str | None = None
    mapping: Mapping[str, str] | None = None
    topics: tuple[str, ...] = ()
    certificate: bytes | None = None
    remark: Reason | None = None


NO_SETUP = SourceFacts()
