"""All tables, in the order in which they may be created: what migrations and tests walk."""

from models.accounts import Account, ConfigVersion, CustomRole, Liveness, Secret, Token, User
from models.events import Entity, Event, Receipt
from models.incidents import (
    Incident,
    IncidentAssignment,
    IncidentLog,
    IncidentNote,
    IncidentResponder,
    IncidentTag,
    IncidentTask,
)
from models.maintenance import Maintenance, MaintenanceService
from models.metrics import Sample
from models.notices import Attempt, Message, Notification
from models.postmortems import Postmortem, PostmortemIncident
from models.rate_limits import RateLimit
from models.routers import GlobalRouter, RouterRule
from models.rules import AlertGroupingPolicy, AlertRule, OutgoingRule
from models.schedules import Schedule, ScheduleOverride
from models.services import Integration, Service
from models.tasks import PostIncidentTask, TaskTemplate, TemplateTask
from models.teams import EscalationPolicy, IncidentRole, Priority, Sla, Tag, Team, TeamMember
from models.timers import Timer
from models.users import ContactMethod, ForwardingRule, NotificationRule

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
