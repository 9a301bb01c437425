"""All tables, in the order in which they may be created: what migrations and tests walk."""

from models.accounts import Account, Configuration, Heartbeat, Secret, Token, User
from models.events import Entity, Event, Receipt
from models.incidents import Incident, IncidentLog
from models.notices import Attempt, Message, Notice
from models.services import Integration, Service
from models.teams import EscalationPolicy, IncidentRole, Priority, Sla, Team, TeamMember
from models.timers import Timer
from models.users import ContactMethod, NotificationRule

TABLES = (
    Account, Configuration, User, Token, Secret, Heartbeat,
    ContactMethod, NotificationRule,
    Team, TeamMember, IncidentRole, Priority, Sla, EscalationPolicy,
    Service, Integration,
    Incident, IncidentLog,
    Receipt, Event, Entity,
    Timer, Message, Notice, Attempt,
)  # fmt: skip
