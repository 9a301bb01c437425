"""The words of the contract that travel as numbers, and the states of our own rows."""

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
    EMAIL = 1
    SMS = 2
    PHONE = 3
    SLACK = 4
    MS_TEAMS = 5
    GOOGLE_CHAT = 6


# Contact types that a channel can send to today; rules for others count as unusable (law 9).
DELIVERABLE = frozenset({ContactType.EMAIL})


class TargetType(IntEnum):
    """What a step of an escalation policy names (contract section 3.5)."""

    SCHEDULE = 1
    USER = 2


class AssigneeStrategy(IntEnum):
    """To whom a policy's incidents are assigned (contract section 3.5)."""

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


class RouterAction(IntEnum):
    """Contract section 3.10, router rules."""

    ROUTE = 0
    SUPPRESS = 1


class RuleAction(IntEnum):
    """What an alert rule may do: contract section 3.10."""

    CHANGE_ALERT_TYPE = 1
    ADD_NOTE = 2
    SUPPRESS = 3
    ROUTE_TO_ESCALATION_POLICY = 4
    ASSIGN_SCHEDULE = 5
    ASSIGN_USER = 6
    CHANGE_URGENCY = 7
    CHANGE_MESSAGE = 8
    CHANGE_SUMMARY = 9
    CHANGE_ENTITY_ID = 10
    ASSIGN_ROLE = 11
    ADD_TAGS = 12
    CREATE_TASK = 13
    ASSIGN_SLA = 14
    ASSIGN_PRIORITY = 15
    APPLY_TASK_TEMPLATE = 16
    ADD_RESPONDER = 17
    HASH_ENTITY_ID = 18
    DELAY_NOTIFICATIONS = 19


class TaskStatus(IntEnum):
    """Contract section 3.12."""

    TO_DO = 0
    IN_PROGRESS = 1
    DONE = 2


class ResponseStatus(IntEnum):
    """What somebody who was asked to help said: contract section 3.8."""

    ACCEPTED = 1
    DECLINED = 2
    PENDING = 3


class RestrictionType(IntEnum):
    """When a layer of a schedule counts: contract section 3.4."""

    NONE = 0
    DAILY = 1
    WEEKLY = 2


class RuleType(IntEnum):
    """How many of an alert rule's `conditions` must hold."""

    ALL = 0
    ANY = 1


class AlertConditionType(IntEnum):
    """What a condition of an alert rule's `conditions` looks at."""

    ALERT_TYPE = 1
    PAYLOAD = 2


class SlaTargetKind(IntEnum):
    """What an SLA promises the time of, as `type` of an escalation names it: contract section 3.11."""

    ACKNOWLEDGE = 1
    RESOLVE = 2


class WorkState(IntEnum):
    """Where a Receipt or an Event stands: still to be worked on, done, or set aside with its error."""

    PENDING = 0
    DONE = 1
    DEAD_LETTER = 2


class TimerKind(StrEnum):
    """What a timer wakes; the functions that decide stand in schedules/timers/expected.py."""

    ESCALATE = "escalate"
    ACKNOWLEDGEMENT_TIMEOUT = "acknowledgement_timeout"
    AUTO_RESOLVE = "auto_resolve"
    SNOOZE = "snooze"
    SLA_ESCALATION = "sla_escalation"
    SLA_BREACH = "sla_breach"


# What these do is done once for the same key: a timer that has done it is not armed again.
ONE_TIME = frozenset({TimerKind.SLA_ESCALATION, TimerKind.SLA_BREACH})


class NotificationKind(StrEnum):
    """Why somebody is owed word of an incident."""

    ESCALATION = "escalation"
    ASSIGNMENT = "assignment"
    RESPONDER = "responder"
    NOBODY_PAGED = "nobody_paged"
    SLA_ACKNOWLEDGE = "sla_acknowledge"
    SLA_RESOLVE = "sla_resolve"
    TEST = "test"


# What somebody is told by the notification rules of an incident's urgency.
RULE_BASED = frozenset(
    {
        NotificationKind.ESCALATION,
        NotificationKind.ASSIGNMENT,
        NotificationKind.RESPONDER,
        NotificationKind.NOBODY_PAGED,
    }
)
# What somebody is told because an SLA promises it, and not because an incident is theirs.
SLA_KINDS = frozenset({NotificationKind.SLA_ACKNOWLEDGE, NotificationKind.SLA_RESOLVE})


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
    """What a message is that carries no notices and tries no contact."""

    INVITATION = "invitation"


class AttemptOutcome(StrEnum):
    SENT = "sent"
    RETRY = "retry"
    REFUSED = "refused"


class ActorKind(StrEnum):
    """Who moved an incident."""

    ALERT = "alert"
    TIMER = "timer"
    USER = "user"
    LINK = "link"
