"""What decisions are given to know: frozen values, filled from rows by models/loading.py."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from models.enums import Collation, ServiceStatus, Urgency


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
    auto_resolve_s: int = 0
    acknowledgement_timeout_s: int = 0
    collation: Collation = Collation.OFF
    collation_minutes: int = 0


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """What a service's lane knows about itself, the same for every alert of a batch."""

    service: ServiceFacts
    integrations: Mapping[int, IntegrationFacts]
    directory: Directory
