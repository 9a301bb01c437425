"""The vocabulary between deciding and acting: what a decision may say, as plain frozen values.

The pure code in pipeline/ and schedules/ returns these; models/write/apply.py writes them in bulk. States
(IncidentState, EntityState ...) are whole rows: the last one said about a row wins.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from models.domain.enums import (
    ActorKind,
    AlertType,
    IncidentStatus,
    NotificationKind,
    TimerKind,
    Urgency,
    WorkState,
)


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts. `user` is a User row's number; `name` is how the log names them."""

    kind: ActorKind
    name: str
    user: int | None = None
    alert: str | None = None

    @property
    def is_person(self) -> bool:
        return self.kind in (ActorKind.USER, ActorKind.LINK)


@dataclass(frozen=True, slots=True)
class IncidentState:
    """An incident as a row. References are row numbers; moments are aware UTC.

    `row`, and the `number` by which people know it, are None until it has been written; `unique_id` is known
    from the start. `reached` is whether its chain has named anybody yet, `chain_over` whether it came to its
    end. The promises of its SLA run since `promised_from`, and that of an answer is kept at `answered_at`;
    its time-outs count from `timeouts_from`, when it was last reopened, woken or alone again (None: since it
    was created, or acknowledged). `parent` is the incident that it is merged into; it sleeps while
    `snoozed_till` is set.
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


def restarted_escalation(escalation_run: int, now: datetime) -> dict[str, Any]:
    """What changes of an incident whose chain, of this number, begins anew."""
    run = {"escalation_run": escalation_run + 1, "run_started_at": now}
    return {**run, "escalating": True, "next_step": 0, "paged_someone": False, "exhausted": False}


@dataclass(frozen=True, slots=True)
class EntityState:
    """The thing that is alerting; `incident` is the unique_id of the open incident that holds it,
    `last_incident` that of the last one that did. `kept_back` is the unique_id of the last alert of it that
    maintenance kept from opening an incident, while it still burns."""

    integration: int
    entity_id: str
    firing: bool = False
    incident: str | None = None
    resolved_source_at: datetime | None = None
    resolved_at: datetime | None = None
    last_incident: str | None = None
    deferred_alert: str | None = None

    @property
    def key(self) -> tuple[int, str]:
        return (self.integration, self.entity_id)

    def with_incident(self, incident: str) -> "EntityState":
        """Firing, and held by this open incident."""
        return replace(self, firing=True, incident=incident, last_incident=incident, deferred_alert=None)

    def without_incident(self, *, by_person: bool) -> "EntityState":
        """Held by no incident any more, and not counted as firing. What is kept back of it is to be told all
        the same, unless it `is_seen`."""
        deferred_alert = None if by_person else self.deferred_alert
        return replace(self, firing=False, incident=None, deferred_alert=deferred_alert)


@dataclass(frozen=True, slots=True)
class EventState:
    """One alert at the end of its road, or at a seam of it (`stage` is then the next one)."""

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
    reasons: tuple[tuple[str, str], ...] = ()
    rules: tuple[Mapping[str, Any], ...] = ()
    error: str | None = None


# How the outcome of a timer begins that has done what is done once for its key (enums.ONCE).
FIRED_ONCE = "done once: "


@dataclass(frozen=True, slots=True)
class TimerState:
    """`key` is what is waited for; the same key is the same wait."""

    incident: str
    kind: TimerKind
    key: str
    due_at: datetime


@dataclass(frozen=True, slots=True)
class NotificationState:
    """A reason to tell a person by a contact (None: the address of the account).

    `bundle` names the reason kind, step and delay: what one transaction owes to one contact within
    one bundle travels in one message.
    """

    key: str
    incident: str
    user: int
    contact: int | None
    channel: int
    rule: int | None
    kind: NotificationKind
    reason: str
    not_before: datetime
    group_key: str

    def message_group(self, now: datetime) -> tuple[object, ...]:
        """What is the same for all that go in one message, of what one transaction owes.

        Those that are due travel together. Those that are not yet do so within a minute of each other: alerts
        that waited long may be taken together though they came far apart, and the first is not to be late.
        """
        minute = self.not_before.replace(second=0, microsecond=0) if self.not_before > now else None
        return (self.user, self.contact, self.channel, self.group_key, minute)


# --- effects -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SaveIncident:
    incident: IncidentState


@dataclass(frozen=True, slots=True)
class SaveEntity:
    entity: EntityState


@dataclass(frozen=True, slots=True)
class ReleaseEntities:
    """All entities that this incident holds are free again, and count as not firing. What maintenance keeps
    back of them is to be told all the same, unless it `is_seen`: a person let go of them."""

    incident: str
    by_person: bool


@dataclass(frozen=True, slots=True)
class ReclaimEntities:
    """A reopened incident takes back its entities, except those that another open incident holds."""

    incident: str


@dataclass(frozen=True, slots=True)
class RecordLog:
    incident: str
    at: datetime
    what: str
    reason: str
    actor: Actor


@dataclass(frozen=True, slots=True)
class ReconcileTimers:
    """From now on exactly these timers wait for the incident; the others end, and say why.

    Said anew after each change of an incident, so that what waits always follows from what is. Of those that
    do something once, what was done already does not wait again.
    """

    incident: str
    expected: tuple[TimerState, ...]
    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class CreateNotification:
    notification: NotificationState


@dataclass(frozen=True, slots=True)
class CancelNotifications:
    """What is still owed of an incident for reasons of these kinds (all, unless some are named) and was not
    sent is owed no more, and says why."""

    incident: str
    at: datetime
    outcome: str
    kinds: frozenset[NotificationKind] = frozenset(NotificationKind)


@dataclass(frozen=True, slots=True)
class AddNote:
    """A note on an incident; `unique_id` names it for ever."""

    incident: str
    unique_id: str
    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class AddTag:
    """A team's tag (its row number) on an incident; one that is there already stays as it is."""

    incident: str
    unique_id: str
    tag: int
    at: datetime


@dataclass(frozen=True, slots=True)
class AddResponder:
    """Somebody (a User row's number), or whom a policy names, asked to help with an incident.

    One who was asked already stays as they are.
    """

    incident: str
    unique_id: str
    at: datetime
    user: int | None = None
    escalation_policy: int | None = None
    subject: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class AssignRole:
    """A person (a User row's number) has one of the team's roles (its row number) in an incident, in the
    place of whoever had it."""

    incident: str
    unique_id: str
    role: int
    user: int
    at: datetime


@dataclass(frozen=True, slots=True)
class AddTask:
    """Something to do about an incident; `unique_id` names it for ever, `role` who is to do it."""

    incident: str
    unique_id: str
    title: str
    description: str
    at: datetime
    due_at: datetime | None = None
    role: int | None = None


@dataclass(frozen=True, slots=True)
class ApplyTaskTemplate:
    """The tasks of a team's template (its row number) on an incident, once, whatever they are by then.

    What is due is due so long after `at`, be the template due immediately or not.
    """

    incident: str
    template: int
    at: datetime
    actor: Actor


@dataclass(frozen=True, slots=True)
class AdvanceRoundRobin:
    """A policy (its row number) has assigned an incident by turns: it was the turn of the target in place
    `known`, from 0, and is that of `next` from now on."""

    policy: int
    current: int
    next: int


@dataclass(frozen=True, slots=True)
class ExpectPing:
    """A ping came to an integration (its row number): the next one must have come at this moment, unless a
    later one is said already."""

    integration: int
    at: datetime


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
)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a stage says of one alert: why, what changes in the world, and whether the road goes on.

    `alert` is the alert as the next stage is to see it, None when unchanged; `incident` the one it
    belongs to from here on, None when that does not change; `opened` whether it was opened for it; `rules`
    what each rule said that was looked at (pipeline/rules/rulesets.py), for the recorder.
    """

    reason: str
    effects: tuple[Effect, ...] = ()
    continues: bool = True
    alert: Any = None
    incident: str | None = None
    opened: bool = False
    rules: tuple[Mapping[str, Any], ...] = ()


def proceed(
    reason: str,
    *effects: Effect,
    alert: Any = None,
    incident: str | None = None,
    opened: bool = False,
    rules: tuple[Mapping[str, Any], ...] = (),
) -> Decision:
    return Decision(reason, effects, True, alert, incident, opened, rules)


def stop(reason: str, *effects: Effect, alert: Any = None, incident: str | None = None) -> Decision:
    return Decision(reason, effects, False, alert, incident)


@dataclass(slots=True)
class ChangeSet:
    """Everything that one transaction is to write: effects in their order, events beside them."""

    effects: list[Effect] = field(default_factory=list)
    events: list[EventState] = field(default_factory=list)
