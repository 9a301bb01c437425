"""Enums: the numbers that the contract defines, and the states of our own rows."""

from enum import IntEnum, StrEnum


class IncidentStatus(IntEnum):
    """Contract section 3.7."""

    TRIGGERED = 1
    ACKNOWLEDGED = 2
    RESOLVED = 3


OPEN_STATUSES = frozenset({IncidentStatus.TRIGGERED, IncidentStatus.ACKNOWLEDGED})


class Urgency(IntEnum):
    LOW = 0
    HIGH = 1


class AlertType(IntEnum):
    """Contract section 3.9: names in requests, these digits (as strings) in responses."""

    INFO = 0
    WARNING = 1
    ERROR = 2
    CRITICAL = 3
    ACKNOWLEDGED = 4
    RESOLVED = 5


class AccountRole(IntEnum):
    OWNER = 1
    ADMIN = 2
    USER = 3


class TeamRole(IntEnum):
    MANAGER = 1
    USER = 2


class ContactType(IntEnum):
    """The contact types of the contract; models/domain/channels.py has those that Tocsin can send to."""

    EMAIL = 1
    SMS = 2
    PHONE = 3
    SLACK = 4
    MS_TEAMS = 5
    GOOGLE_CHAT = 6


class OtherContactType(IntEnum):
    """The contact types that the contract does not define."""

    TELEGRAM = 101
    NTFY = 102
    WEB_PUSH = 103
    MATTERMOST = 104
    DISCORD = 105
    WEBHOOK = 106


class Verification(StrEnum):
    """How a contact of a channel is verified.

    - CODE: Tocsin sends a code to the address, and the person enters it.
    - LINK: the person sends a code to Tocsin at the provider, which says whose address it is.
    - BROWSER: a browser creates the contact, and has its address from the browser's push service.
    """

    CODE = "code"
    LINK = "link"
    BROWSER = "browser"


class TargetType(IntEnum):
    """The kind of a target in a step of an escalation policy (contract section 3.5)."""

    SCHEDULE = 1
    USER = 2


class AssigneeStrategy(IntEnum):
    """How a policy selects the assignee of an incident (contract section 3.5)."""

    FIRST = 1
    ROUND_ROBIN = 2


class ServiceStatus(IntEnum):
    DISABLED = 0
    ACTIVE = 1
    WARNING = 2
    CRITICAL = 3
    UNDER_MAINTENANCE = 4


class IntegrationType(IntEnum):
    ALERT = 0
    OUTBOUND = 1


class Collation(IntEnum):
    OFF = 0
    TIME_BASED = 1
    CONTENT_BASED = 3


class MatchMode(IntEnum):
    """Which fields of a grouping policy must be equal (contract section 3.12)."""

    ANY = 1
    ALL = 2


class RouterAction(IntEnum):
    """Actions of router rules (contract section 3.10)."""

    ROUTE = 0
    SUPPRESS = 1


class RuleAction(IntEnum):
    """Actions of alert rules for which a lane loads more facts. pipeline/rules/action_table.py lists all."""

    ASSIGN_ROLE = 11
    ADD_RESPONDER = 17


class TaskStatus(IntEnum):
    """Contract section 3.12."""

    TO_DO = 0
    IN_PROGRESS = 1
    DONE = 2


class ResponseStatus(IntEnum):
    """The answer of a responder (contract section 3.8)."""

    ACCEPTED = 1
    DECLINED = 2
    PENDING = 3


class RestrictionType(IntEnum):
    """How a schedule layer is restricted in time (contract section 3.4)."""

    NONE = 0
    DAILY = 1
    WEEKLY = 2


class DoubleShifts(StrEnum):
    """How checks report a person who is on call by two schedules at once: see `Schedule.double_shifts`."""

    MINOR = "minor"
    INTENDED = "intended"
    PROBLEM = "problem"


class RuleType(IntEnum):
    """Whether all or any of an alert rule's `conditions` must match."""

    ALL = 0
    ANY = 1


class AlertConditionType(IntEnum):
    """The part of an alert that a condition of an alert rule reads."""

    ALERT_TYPE = 1
    PAYLOAD = 2


class SlaTargetKind(IntEnum):
    """The SLA target of an SLA escalation: its `type` in the contract (contract section 3.11)."""

    ACKNOWLEDGE = 1
    RESOLVE = 2


class WorkState(IntEnum):
    """The state of a Receipt or an Event. A dead letter keeps its error."""

    PENDING = 0
    DONE = 1
    DEAD_LETTER = 2


class TimerKind(StrEnum):
    """The kinds of timers. pipeline/incidents/timer_table.py has the table with their functions."""

    ESCALATE = "escalate"
    ACKNOWLEDGEMENT_TIMEOUT = "acknowledgement_timeout"
    AUTO_RESOLVE = "auto_resolve"
    SNOOZE = "snooze"
    SLA_ESCALATION = "sla_escalation"
    SLA_BREACH = "sla_breach"


class NotificationKind(StrEnum):
    """Why somebody is notified of an incident."""

    ESCALATION = "escalation"
    ASSIGNMENT = "assignment"
    RESPONDER = "responder"
    NOBODY_PAGED = "nobody_paged"
    SLA_ACKNOWLEDGE = "sla_acknowledge"
    SLA_RESOLVE = "sla_resolve"
    RECOVERY = "recovery"
    TEST = "test"


# Kinds for which the notification rules of the incident's urgency select the contacts.
RULE_BASED = frozenset(
    {
        NotificationKind.ESCALATION,
        NotificationKind.ASSIGNMENT,
        NotificationKind.RESPONDER,
        NotificationKind.NOBODY_PAGED,
    }
)
# Kinds that an SLA causes. The person is not necessarily the assignee of the incident.
SLA_KINDS = frozenset({NotificationKind.SLA_ACKNOWLEDGE, NotificationKind.SLA_RESOLVE})


# Kinds about an open incident. Only a new resolution, or its delivery after a reopening, cancels a recovery.
OPEN_KINDS = frozenset(NotificationKind) - {NotificationKind.RECOVERY}
# Kinds that are also of use while the incident is acknowledged.
KINDS_WHILE_OPEN = frozenset(
    {NotificationKind.ASSIGNMENT, NotificationKind.RESPONDER, NotificationKind.SLA_RESOLVE}
)


class NotificationStatus(IntEnum):
    PENDING = 0
    SENT = 1
    CANCELLED = 2
    FAILED = 3


class MessageStatus(IntEnum):
    PENDING = 0
    SENT = 1
    CANCELLED = 2
    FAILED = 3


class MessageKind(StrEnum):
    """The kind of a message that carries no notifications and is not a test message."""

    INVITATION = "invitation"
    CODE = "code"
    # The notifications of a day for an address that is not verified. It has notifications.
    DAILY = "daily"
    STAKEHOLDER = "stakeholder"
    # A browser was added as a contact.
    BROWSER = "browser"
    # What exceeds the limit of a contact. It has notifications.
    BUNDLE = "bundle"
    # A link with which the person signs in.
    SIGN_IN = "sign_in"
    # Mails to a contact came back. `requested_by` is the name of the contact.
    BOUNCED = "bounced"
    # A colleague asks to swap shifts.
    SWAP = "swap"
    # What became of it: for the person who asked; a confirmed swap for both people.
    SWAP_ACCEPTED = "swap_accepted"
    SWAP_AGREED = "swap_agreed"
    SWAP_CONFIRMED = "swap_confirmed"
    SWAP_DECLINED = "swap_declined"
    SWAP_PASSED = "swap_passed"


class OutboundEvent(StrEnum):
    """A change of an incident that outbound integrations send (contract section 4.8)."""

    TRIGGERED = "triggered"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"


class OutboundStatus(IntEnum):
    """The state of a delivery to an outbound integration.

    REPLACED: a newer change of the incident is sent instead. FILTERED: the outgoing rules do not match.
    """

    PENDING = 0
    SENT = 1
    FAILED = 2
    REPLACED = 3
    FILTERED = 4


class AttemptOutcome(StrEnum):
    SENT = "sent"
    RETRY = "retry"
    REFUSED = "refused"


class ProviderState(StrEnum):
    """What a provider reports about a message that it accepted (models/write/delivery_reports.py).

    SENT: handed on to the network or the device, without a receipt.
    """

    SENT = "sent"
    DELIVERED = "delivered"
    FAILED = "failed"


class AuthorKind(StrEnum):
    """The kind of author that changed an incident."""

    ALERT = "alert"
    TIMER = "timer"
    USER = "user"
    LINK = "link"
    # An operator with access to a host.
    COMMAND = "command"


class Way(StrEnum):
    """The way in which a change of the configuration was made."""

    PAGE = "page"
    INTERFACE = "interface"
    COMMAND = "command"
    # Later: documents of the configuration, and imports from another tool.
    FILES = "files"
    IMPORT = "import"
    # A link in a message.
    LINK = "link"
    # Tocsin itself: what its settings or a provider of sign-ins demand.
    SYSTEM = "system"


class SwapState(IntEnum):
    """The state of a request to swap shifts. Somebody who may change the schedule confirms an agreed one."""

    ASKED = 1
    AGREED = 2
    DONE = 3
    DECLINED = 4
    # The first of the shifts began before the swap was made.
    PASSED = 5
