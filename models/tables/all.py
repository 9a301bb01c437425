"""All tables in the order of their creation, for migrations and tests."""

from models.tables.accounts import Account, ConfigVersion, CustomRole, Liveness, Secret, Token, User
from models.tables.events import Entity, Event, Receipt
from models.tables.incidents import (
    Incident,
    IncidentAssignment,
    IncidentLog,
    IncidentNote,
    IncidentResponder,
    IncidentTag,
    IncidentTask,
)
from models.tables.maintenance import Maintenance, MaintenanceService
from models.tables.notifications import Attempt, Message, Notification
from models.tables.postmortems import Postmortem, PostmortemIncident
from models.tables.rate_limits import RateLimit
from models.tables.routers import GlobalRouter, RouterRule
from models.tables.rules import AlertGroupingPolicy, AlertRule, OutgoingRule
from models.tables.samples import Sample
from models.tables.schedules import Schedule, ScheduleOverride
from models.tables.services import Integration, Service
from models.tables.tasks import PostIncidentTask, TaskTemplate, TemplateTask
from models.tables.teams import EscalationPolicy, IncidentRole, Priority, Sla, Tag, Team, TeamMember
from models.tables.timers import Timer
from models.tables.users import ContactMethod, ForwardingRule, NotificationRule

TABLES = (
    Account, ConfigVersion, CustomRole, User, Token, Secret, Liveness,
    ContactMethod, NotificationRule, ForwardingRule,
    Team, TeamMember, IncidentRole, Priority, Sla, Tag, EscalationPolicy,
    TaskTemplate, TemplateTask, PostIncidentTask, Schedule, ScheduleOverride,
    Service, Integration, AlertRule, OutgoingRule, AlertGroupingPolicy, GlobalRouter, RouterRule,
    Maintenance, MaintenanceService,
    Incident, IncidentLog, IncidentTag, IncidentNote, IncidentResponder, IncidentAssignment, IncidentTask,
    Postmortem, PostmortemIncident,
    Receipt, Event, Entity,
    Timer, Message, Notification, Attempt,
    Sample, RateLimit,
)  # fmt: skip
