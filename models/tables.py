"""All tables, in the order in which they may be created: what migrations and tests walk."""

from models.accounts import Account, Configuration, Heartbeat, Secret, Token, User
from models.events import Entity, Event, Receipt
from models.incidents import Incident, IncidentLog, IncidentNote, IncidentTag
from models.metrics import Sample
from models.notices import Attempt, Message, Notice
from models.routers import GlobalRouter, RouterRule
from models.rules import AlertRule
from models.services import Integration, Service
from models.teams import EscalationPolicy, IncidentRole, Priority, Sla, Tag, Team, TeamMember
from models.timers import Timer
from models.users import ContactMethod, NotificationRule

TABLES = (
    Account, Configuration, User, Token, Secret, Heartbeat,
    ContactMethod, NotificationRule,
    Team, TeamMember, IncidentRole, Priority, Sla, Tag, EscalationPolicy,
    Service, Integration, AlertRule, GlobalRouter, RouterRule,
    Incident, IncidentLog, IncidentTag, IncidentNote,
    Receipt, Event, Entity,
    Timer, Message, Notice, Attempt,
    Sample,
)  # fmt: skip
