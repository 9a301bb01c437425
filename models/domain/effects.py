"""The effects that a decision can ask for, as plain frozen values.

The pure code in pipeline/ and schedules/ returns effects; models/write/apply.py writes them in bulk. States
(IncidentState, EntityState ...) are complete rows: the last state of a row is written.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from models.domain.enums import (
    OPEN_KINDS,
    AlertType,
    AuthorKind,
    IncidentStatus,
    NotificationKind,
    OutboundEvent,
    Urgency,
    WorkState,
)
from models.domain.reasons import Reason
from models.domain.values import Value, replace


class Author(Value, frozen=True):
    """The author of a change. `user` is a User row number; `name` is shown in reasons and logs.

    `alert` is the unique_id of the alert that caused the change.
    """

    kind: AuthorKind
    name: str
    user: int | None = None
    alert: str | None = None

    @property
    def is_person(self) -> bool:
        return self.kind in (AuthorKind.USER, AuthorKind.LINK, AuthorKind.COMMAND)


class IncidentState(Value, frozen=True):
    """An incident as a row. References are row numbers; times are aware UTC.

    - `row` and `number` (the number that people see) are None until the incident is written. `unique_id` is
      set from the start.
    - `paged_someone`: whether the escalation run has notified anybody. `exhausted`: whether it has no step
      left.
    - `sla_started_at`: when the SLA targets started. `sla_acknowledged_at`: when the acknowledge target was
      met.
    - `timeouts_started_at`: when the incident was last reopened, woken from a snooze or unmerged. The
      timeouts count from then. None: they count from the creation or the acknowledgement.
    - `parent`: the incident that this one is merged into.
    - `snoozed_till`: set while the incident is snoozed.
    """

    unique_id: str
    account: int
    team: int
    service: int | None
    incident_key: str
    title: str
    summary: str
    status: IncidentStatus
    urgency: Urgency
    creation_date: datetime
    run_started_at: datetime
    assigned_to: int | None = None
    escalation_policy: int | None = None
    sla: int | None = None
    team_priority: int | None = None
    acknowledged_date: datetime | None = None
    resolved_date: datetime | None = None
    context_window_start: datetime | None = None
    context_window_end: datetime | None = None
    collecting: bool = False
    escalating: bool = True
    escalation_run: int = 1
    next_step: int = 0
    paged_someone: bool = False
    exhausted: bool = False
    sla_started_at: datetime | None = None
    sla_acknowledged_at: datetime | None = None
    timeouts_started_at: datetime | None = None
    parent: int | None = None
    snoozed_at: datetime | None = None
    snoozed_till: datetime | None = None
    number: int | None = None
    row: int | None = None

    @property
    def is_open(self) -> bool:
        return self.status is not IncidentStatus.RESOLVED

    def with_changes(self, **changes: Any) -> "IncidentState":
        return replace(self, **changes)


def restarted_escalation(escalation_run: int, now: datetime) -> dict[str, object]:
    """Return the changed columns of an incident whose escalation run with this number is restarted."""
    run = {"escalation_run": escalation_run + 1, "run_started_at": now}
    return {**run, "escalating": True, "next_step": 0, "paged_someone": False, "exhausted": False}


class EntityState(Value, frozen=True):
    """An entity as a row.

    - `incident`: the unique_id of the open incident that holds the entity.
    - `last_incident`: the unique_id of the last incident that held it.
    - `deferred_alert`: the unique_id of the last alert that was deferred, by maintenance or by a disabled
      service; None after the entity is resolved.
    - `expires_at`, `repeats_at`: see the table (models/tables/events.py).
    """

    integration: int
    entity_id: str
    firing: bool = False
    incident: str | None = None
    resolved_source_at: datetime | None = None
    resolved_at: datetime | None = None
    last_incident: str | None = None
    deferred_alert: str | None = None
    expires_at: datetime | None = None
    repeats_at: datetime | None = None

    @property
    def key(self) -> tuple[int, str]:
        return (self.integration, self.entity_id)

    def with_incident(self, incident: str) -> "EntityState":
        """Return the entity as firing and held by this open incident."""
        return replace(self, firing=True, incident=incident, last_incident=incident, deferred_alert=None)

    def without_incident(self, *, by_person: bool) -> "EntityState":
        """Return the entity as not firing and held by no incident.

        `by_person`: a person or an alert resolved this entity, so its deferred alert is removed too.
        Otherwise the deferred alert stays deferred.
        """
        deferred_alert = None if by_person else self.deferred_alert
        return replace(self, firing=False, incident=None, deferred_alert=deferred_alert)


class EventState(Value, frozen=True):
    """One alert at the end of the pipeline or at a queue split (`stage` is then the next stage)."""

    unique_id: str
    receipt: int
    position: int
    integration: int | None
    service: int | None
    message: str
    summary: str
    alert_type: AlertType
    entity_id: str
    suppressed: bool
    alert: Mapping[str, Any]
    source_at: datetime | None
    creation_date: datetime
    incident: str | None = None
    incident_created: bool = False
    stage: str = ""
    state: WorkState = WorkState.DONE
    # Says nothing new, so no row is written.
    is_repeated: bool = False
    reasons: tuple[tuple[str, Reason], ...] = ()
    rules: tuple[Mapping[str, object], ...] = ()
    error: Reason | None = None


class TimerState(Value, frozen=True):
    """A timer as a row. `key` identifies the timer within its incident.

    `once`: the timer is not created again after it has fired. `get_expected_timers` sets it, by the table of
    timers. It is always False for loaded timers.
    """

    incident: str
    kind: str
    key: str
    due_at: datetime
    once: bool = False


class NotificationState(Value, frozen=True):
    """One reason to notify a person through a contact (None: the user's own e-mail address).

    `group_key` contains the kind of the reason, the step and the delay. Notifications that one transaction
    creates for one contact with the same group key share one outgoing message. `receipt` is the row number of
    the body that caused it, if that body has several alerts: its pieces can share a message too.
    """

    key: str
    incident: str
    user: int
    contact: int | None
    channel: int
    rule: int | None
    kind: NotificationKind
    reason: Reason
    not_before: datetime
    group_key: str
    receipt: int | None = None

    def message_group(self, now: datetime) -> tuple[object, ...]:
        """Return a key: notifications of one transaction with the same key share one message.

        Due notifications share a message. Later ones share it only if they are due in the same minute. A
        batch can contain alerts that arrived at different times, and no message may wait for the last alert.
        """
        minute = self.not_before.replace(second=0, microsecond=0) if self.not_before > now else None
        return (self.user, self.contact, self.channel, self.group_key, minute)


# --- effects -----------------------------------------------------------------------------------


class SaveIncident(Value, frozen=True):
    incident: IncidentState


class SaveEntity(Value, frozen=True):
    entity: EntityState


class ReleaseEntities(Value, frozen=True):
    """Release all entities of this incident; they then count as not firing.

    Deferred alerts of these entities stay deferred, unless a person released the entities (`by_person`).
    """

    incident: str
    by_person: bool


class ReclaimEntities(Value, frozen=True):
    """Give a reopened incident its entities back, except those that another open incident holds."""

    incident: str


class RecordLog(Value, frozen=True):
    incident: str
    at: datetime
    what: str
    reason: Reason
    author: Author


class ReconcileTimers(Value, frozen=True):
    """Make the stored timers of an incident equal to the expected timers; end the others with a reason.

    Each change of an incident returns this effect, so that the timers always follow from its state. A
    one-time timer that has fired is not created again.
    """

    incident: str
    expected: tuple[TimerState, ...]
    at: datetime
    reason: Reason


class CreateNotification(Value, frozen=True):
    notification: NotificationState


class CancelNotifications(Value, frozen=True):
    """Cancel the pending notifications of an incident, with an outcome. Default: of all kinds."""

    incident: str
    at: datetime
    outcome: Reason
    kinds: frozenset[NotificationKind] = OPEN_KINDS


class AddNote(Value, frozen=True):
    """Add a note of a user (row number) to an incident; None: of an alert rule."""

    incident: str
    unique_id: str
    text: str
    at: datetime
    user: int | None = None


class AddTag(Value, frozen=True):
    """Add a team's tag (row number) to an incident, unless it has the tag already."""

    incident: str
    unique_id: str
    tag: int
    at: datetime


class AddResponder(Value, frozen=True):
    """Ask a user or the people of a policy (row numbers) to help with an incident.

    A responder that the incident already has stays unchanged.
    """

    incident: str
    unique_id: str
    at: datetime
    user: int | None = None
    escalation_policy: int | None = None
    subject: str | None = None
    message: str | None = None


class AssignRole(Value, frozen=True):
    """Give a user one of the team's roles in an incident (row numbers), in place of the previous user."""

    incident: str
    unique_id: str
    role: int
    user: int
    at: datetime


class AddTask(Value, frozen=True):
    """Add a task to an incident. `role` (row number) names the role that does the task."""

    incident: str
    unique_id: str
    title: str
    description: str
    at: datetime
    due_at: datetime | None = None
    role: int | None = None


class ApplyTaskTemplate(Value, frozen=True):
    """Add the tasks of a team's template (row number) to an incident, once.

    The tasks are read when the effect is written. Their due times count from `at`.
    """

    incident: str
    template: int
    at: datetime
    author: Author


class AdvanceRoundRobin(Value, frozen=True):
    """Advance the round robin of a policy (row number) after it assigned an incident.

    `current` is the position of the target (from 0) that the decision read, `next` the new position.
    """

    policy: int
    current: int
    next: int


class SaveGroups(Value, frozen=True):
    """Store the values of the alert that opened an incident, as digests (models.domain.facts.GroupKey)."""

    incident: str
    digests: tuple[str, ...]
    at: datetime


class NotifyRecovery(Value, frozen=True):
    """Notify everybody who was notified of an incident that it is resolved, once for each escalation run."""

    incident: str
    escalation_run: int
    at: datetime


class ExpectPing(Value, frozen=True):
    """Expect the next ping of an integration (row number) before this time, unless a later time is stored."""

    integration: int
    at: datetime


class SendOutbound(Value, frozen=True):
    """Send a change of an incident to the outbound integrations of its service (row number)."""

    incident: str
    service: int
    event: OutboundEvent
    at: datetime


class MailStakeholders(Value, frozen=True):
    """Mail the stakeholders of an incident, each once for the same text.

    `users` are usernames, `teams` unique_ids, `emails` addresses in lower case; each may be unknown. Without
    `subject` and `body`, the mail describes the incident. `created_by` is the username of the author.
    """

    incident: str
    at: datetime
    users: tuple[str, ...]
    teams: tuple[str, ...]
    emails: tuple[str, ...]
    subject: str
    body: str
    time_zone: str
    created_by: str
    author: Author


Effect = (
    SaveIncident
    | SaveEntity
    | ReleaseEntities
    | ReclaimEntities
    | RecordLog
    | ReconcileTimers
    | CreateNotification
    | CancelNotifications
    | AddNote
    | AddTag
    | AddResponder
    | AssignRole
    | AddTask
    | ApplyTaskTemplate
    | AdvanceRoundRobin
    | ExpectPing
    | SaveGroups
    | MailStakeholders
    | NotifyRecovery
    | SendOutbound
)


class Decision(Value, frozen=True):
    """What a stage decides about one alert.

    - `continues`: whether the alert continues to the next stage.
    - `alert`: the changed alert for the next stage; None: unchanged.
    - `incident`: the incident of the alert from here on; None: unchanged.
    - `opened`: whether the incident was opened for this alert.
    - `rules`: the result of each evaluated rule (pipeline/rules/rulesets.py), for the alert trace.
    - `is_repeated`: the alert says nothing new, and is not stored.
    - `routed`: the alerts that continue instead of this one, each with the row number of its service.
    """

    reason: Reason
    effects: tuple[Effect, ...] = ()
    continues: bool = True
    alert: Any = None
    incident: str | None = None
    opened: bool = False
    rules: tuple[Mapping[str, object], ...] = ()
    routed: tuple[tuple[Any, int], ...] = ()
    is_repeated: bool = False


def proceed(
    reason: Reason,
    *effects: Effect,
    alert: Any = None,
    incident: str | None = None,
    opened: bool = False,
    rules: tuple[Mapping[str, object], ...] = (),
) -> Decision:
    return Decision(reason, effects, True, alert, incident, opened, rules)


def stop(reason: Reason, *effects: Effect, alert: Any = None, incident: str | None = None) -> Decision:
    return Decision(reason, effects, False, alert, incident)


@dataclass(slots=True)
class ChangeSet:
    """Everything that one transaction writes: effects in their order, and events."""

    effects: list[Effect] = field(default_factory=list)
    events: list[EventState] = field(default_factory=list)
