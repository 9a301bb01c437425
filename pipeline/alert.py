"""An alert on its road: frozen values, no rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from models.domain.effects import Actor
from models.domain.enums import ActorKind, AlertType, Urgency


@dataclass(frozen=True, slots=True)
class ParsedAlert:
    """One alert as its source said it, cleaned. `entity_id` is None when the source gave none.

    `source_at` is the source's own time of this change of state, when it has one. `wishes` are what
    the current event operation may ask for (contract 3.9): sla, escalation_policy, priority, tags,
    stakeholders, stakeholder_comms. `is_ping` is a sign of life, after which the next one is expected;
    `is_own` what Tocsin says by itself.
    """

    message: str
    summary: str = ""
    alert_type: AlertType = AlertType.INFO
    entity_id: str | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    urls: tuple[Mapping[str, str], ...] = ()
    images: tuple[Mapping[str, str], ...] = ()
    notes: tuple[Mapping[str, str], ...] = ()
    suppressed: bool = False
    source_at: datetime | None = None
    requested_options: Mapping[str, Any] = field(default_factory=dict)
    is_ping: bool = False
    is_own: bool = False


@dataclass(frozen=True, slots=True)
class IncidentOptions:
    """What the sender and the rules want of the incident that the alert belongs to.

    References are row numbers, people are usernames; None leaves it to the service. `roles` are roles of
    the team's, each with who is to have it. Notes, tags, roles and responders are for an incident that is
    open already too; the rest is for a new one (contract 4.2), tasks beside those of the service.
    """

    escalation_policy: int | None = None
    assigned_to: str | None = None
    urgency: Urgency | None = None
    sla: int | None = None
    team_priority: int | None = None
    delay_s: int = 0
    notes: tuple[str, ...] = ()
    tags: tuple[int, ...] = ()
    roles: tuple[tuple[int, str], ...] = ()
    responders: tuple[str, ...] = ()
    responder_policies: tuple[int, ...] = ()
    tasks: tuple[str, ...] = ()
    task_templates: tuple[int, ...] = ()


NO_OPTIONS = IncidentOptions()


@dataclass(frozen=True, slots=True)
class Alert:
    """A parsed alert with its identity: where it came in, when, and in which order.

    `event_id` names it for ever. `accepted_at` is the `now` of every decision about it, so that the
    size of a batch and the length of a queue change nothing; for one that maintenance kept back, it is
    `released_at` from then on.
    """

    event_id: str
    trace_id: str
    receipt: int
    position: int
    integration: int
    accepted_at: datetime
    entity_id: str
    parsed: ParsedAlert
    options: IncidentOptions = NO_OPTIONS
    released_at: datetime | None = None

    @property
    def effective_at(self) -> datetime:
        """The `now` of what is decided about it from here on."""
        return max(self.accepted_at, self.released_at or self.accepted_at)

    @property
    def message(self) -> str:
        return self.parsed.message

    @property
    def summary(self) -> str:
        return self.parsed.summary

    @property
    def alert_type(self) -> AlertType:
        return self.parsed.alert_type

    @property
    def suppressed(self) -> bool:
        return self.parsed.suppressed

    def with_changes(self, *, entity_id: str | None = None, **changes: Any) -> "Alert":
        """This alert with other contents, as a rule's actions make it."""
        parsed = replace(self.parsed, **changes) if changes else self.parsed
        return replace(self, entity_id=entity_id or self.entity_id, parsed=parsed)

    def with_options(self, **changes: Any) -> "Alert":
        """This alert with another plan."""
        return replace(self, options=replace(self.options, **changes))


def get_actor(alert: Alert) -> Actor:
    return Actor(ActorKind.ALERT, f"alert {alert.alert_type.name.lower()}", alert=alert.event_id)
