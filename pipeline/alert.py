"""The values of an alert in the pipeline: frozen, and without database rows."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from models.domain.effects import Author
from models.domain.enums import AlertType, AuthorKind, Urgency
from models.domain.facts import LaneFacts
from models.domain.reasons import Reason
from models.domain.values import Value, new_field, replace


class ParsedAlert(Value, frozen=True):
    """One alert as its source sent it, after cleaning.

    - `entity_id`: None if the source gave none.
    - `source_at`: the source's own time of this change of state, if the source gave one.
    - `requested_options`: what a sender can request with the current event operation (contract 3.9): sla,
      escalation_policy, priority, tags, stakeholders, stakeholder_comms.
    - `read_as_generic`: the kind of the tool, if Tocsin has no normalizer for it and read the body in the
      generic form.
    - `entity_from`: the fields from which Tocsin made the entity_id, because the source gave none.
    - `incident_note`: a text that the alert adds to its incident as a note.
    - `is_comment`: the alert does not say that its entity fires; it only belongs to the open incident.
    - `is_resent`: the source sends the alert again while it fires. `ends_at`: when it ends if it is not sent
      again; None: some minutes after its acceptance.
    - `is_expiry`: the alert says that a resent alert was not sent again.
    - `remarks`: what the reason of the first stage says besides, for example that the level is unknown.
    - `refusal`: why the request is not accepted as one of its tool; such an alert opens and resolves nothing.
    - `is_verified`: the signature of the request is that of its tool.
    - `has_default_level`: the source sent no level that Tocsin knows; the integration may declare one.
    - `is_ping`: the alert is a ping of a heartbeat, and the next ping is expected after it.
    - `is_own`: Tocsin itself wrote the alert.
    """

    message: str
    summary: str = ""
    alert_type: AlertType = AlertType.INFO
    entity_id: str | None = None
    payload: Mapping[str, Any] = new_field(default_factory=dict)
    urls: tuple[Mapping[str, str], ...] = ()
    images: tuple[Mapping[str, str], ...] = ()
    notes: tuple[Mapping[str, str], ...] = ()
    suppressed: bool = False
    source_at: datetime | None = None
    requested_options: Mapping[str, Any] = new_field(default_factory=dict)
    read_as_generic: str = ""
    entity_from: str = ""
    incident_note: str = ""
    is_comment: bool = False
    is_resent: bool = False
    ends_at: datetime | None = None
    is_expiry: bool = False
    remarks: tuple[Reason, ...] = ()
    refusal: Reason | None = None
    is_verified: bool = False
    has_default_level: bool = False
    is_ping: bool = False
    is_own: bool = False


class IncidentOptions(Value, frozen=True):
    """What the sender and the rules set for the incident of the alert.

    References are row numbers, people are usernames. None means that the value of the service applies.
    `roles` are pairs of a role of the team and the person who gets it. Notes, tags, roles and responders also
    apply to an incident that is already open. The rest applies to a new incident only (contract 4.2). Tasks
    are added to the tasks of the service.
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


# The integration of an alert that no router's rule has sent to an integration yet.
NO_INTEGRATION = 0


class Alert(Value, frozen=True):
    """A parsed alert with its identity: where, when and in which order Tocsin accepted the alert.

    `event_id` never changes. `accepted_at` is the `now` of every decision about the alert, so that the batch
    size and the length of a queue change nothing. After the release of an alert that maintenance deferred,
    that `now` is `released_at`. `group_size` is the number of alerts in its body.
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
    group_size: int = 1

    @property
    def effective_at(self) -> datetime:
        """Return the `now` of the decisions about this alert: the later of `accepted_at` and
        `released_at`.
        """
        return self.accepted_at if self.released_at is None else max(self.accepted_at, self.released_at)

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
        """Return this alert with other contents, as the actions of a rule set them: a copy, if it differs."""
        is_same = all(getattr(self.parsed, name) == value for name, value in changes.items())
        if is_same and (entity_id or self.entity_id) == self.entity_id:
            return self
        parsed = self.parsed if is_same else replace(self.parsed, **changes)
        return replace(self, entity_id=entity_id or self.entity_id, parsed=parsed)

    def with_options(self, **changes: Any) -> "Alert":
        """Return this alert with other incident options: a copy, if it differs."""
        options = self.options
        # An alert with options that have the default values still differs from one without options.
        if options is not NO_OPTIONS and all(
            getattr(options, name) == value for name, value in changes.items()
        ):
            return self
        return replace(self, options=replace(options, **changes))


def build_alert_author(alert: Alert) -> Author:
    return Author(AuthorKind.ALERT, f"an alert ({alert.alert_type.name.lower()})", alert=alert.event_id)


def get_urgency(alert: Alert, facts: LaneFacts) -> Urgency:
    """Return the urgency of an incident that this alert opens: set by a rule, or else by the integration."""
    if alert.options.urgency is not None:
        return alert.options.urgency
    return facts.integrations[alert.integration].default_urgency
