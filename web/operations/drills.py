"""Drills: open an incident on purpose, and report who acknowledged (under /api/tocsin/)."""

from datetime import datetime, timedelta

import peewee
from marshmallow import fields

from models.domain.effects import Author
from models.domain.enums import ServiceStatus, Urgency
from models.reports.drill_report import DrillReport, build_drill_report
from models.store.ids import make_uuid
from models.store.store import store
from models.tables.accounts import Account
from models.tables.incidents import Drill, Incident
from models.tables.services import Service
from models.tables.teams import EscalationPolicy, Team
from web.http import access, rate_limit, serialization
from web.http.auth import now, viewer
from web.http.errors import NotFound, reject
from web.http.fields import List, Moment, Number, Reference, Schema, Text, explain
from web.http.rate_limit import Limits
from web.incidents.incidents import open_incident
from web.incidents.sub_resource import build_viewer_author
from web.incidents.timeline import NotificationSchema

MAX_DURATION = timedelta(hours=1)
# A drill notifies real people.
MAX_OPEN = 3
LIMITS: Limits = ((10, 3_600.0),)


class NewDrillSchema(Schema):
    policy = Reference(
        required=True, blank=False, metadata=explain("The unique_id of the escalation policy to try.")
    )
    service = Reference(
        metadata=explain(
            "The unique_id of the service in which the incident is opened; default: a service of the policy"
            " or, without one, of its team."
        )
    )


class DrilledPersonSchema(Schema):
    """A person whom a drill notified."""

    username = Text(dump_only=True)
    person = Text(dump_only=True, metadata=explain("The name of the person."))
    acknowledged_at = Moment(
        dump_only=True,
        allow_none=True,
        metadata=explain("When this person acknowledged; null: somebody else did, or nobody."),
    )
    seconds_to_acknowledge = fields.Float(
        dump_only=True,
        allow_none=True,
        metadata=explain("Seconds from the start of the drill to the acknowledgement; null: none."),
    )
    notifications = List(
        fields.Nested(NotificationSchema),
        dump_only=True,
        metadata=explain("The notifications of this person, the first one first."),
    )


class DrillSchema(Schema):
    """A drill, with what happened so far."""

    unique_id = Text(dump_only=True)
    policy = Text(dump_only=True, metadata=explain("The name of the escalation policy."))
    incident_number = Number(dump_only=True, metadata=explain("The number of the incident of the drill."))
    creation_date = Moment(dump_only=True, metadata=explain("When the drill was started."))
    ends_at = Moment(dump_only=True, metadata=explain("When the drill ends at the latest."))
    done_at = Moment(
        dump_only=True, allow_none=True, metadata=explain("When the drill ended; null: it goes on.")
    )
    outcome = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain("Why the drill ended, as a sentence; null: it goes on."),
    )
    people = List(
        fields.Nested(DrilledPersonSchema),
        dump_only=True,
        metadata=explain("Everybody whom the drill notified, in the order of the notifications."),
    )


NEW_DRILL = NewDrillSchema()
DRILL = DrillSchema()


def create() -> DrillReport:
    """Create a drill. Its incident notifies people like a real one, and statistics leave it out."""
    rate_limit.enforce(LIMITS, viewer().account, "drills", now())
    values = serialization.read_body()
    policy = _find_policy(viewer().account, values["policy"])
    access.require_permission(viewer(), policy.team_id)
    service = _find_service(policy, values.get("service"))
    if service is None:
        reject("service", "The team of the policy has no such service. A drill needs one.")
    access.require_permission(viewer(), service.team_id)
    with store().write_transaction():
        started = start(policy, service, build_viewer_author(), now())
    if started is None:
        reject("policy", f"The account has {MAX_OPEN} drills that have not ended.")
    return build_drill_report(started)


def retrieve(drill_id: str) -> DrillReport:
    """Get a drill. The answer reports each person, channel and time to acknowledge."""
    # PostgreSQL refuses a text with NUL.
    if "\0" in drill_id:
        raise NotFound
    drill: Drill | None = (
        Drill.select(Drill, Incident)
        .join(Incident)
        .where(Drill.unique_id == drill_id, Drill.account == viewer().account)
        .first()
    )
    if drill is None:
        raise NotFound
    access.require_permission(viewer(), drill.incident.team_id)
    return build_drill_report(drill)


def start(policy: EscalationPolicy, service: Service, author: Author, at: datetime) -> Drill | None:
    """Start a drill and return it. Needs a write transaction.

    None: the account has enough drills, or the service was deleted.
    """
    account = policy.team.account_id
    if Drill.select().where(Drill.account == account, Drill.done_at.is_null()).count() >= MAX_OPEN:
        return None
    requested = {
        "title": f"DRILL: please acknowledge (policy {policy.name})",
        "summary": (
            f"This is a drill, started by {author.name}. Nothing is broken. Acknowledge it as you would"
            " acknowledge a real incident. Then Tocsin resolves it."
        ),
        "urgency": Urgency.HIGH,
        "escalation_policy": policy.id,
    }
    unique_id = open_incident(service.id, requested, author, at)
    if unique_id is None:
        return None
    drill: Drill = Drill.create(
        unique_id=make_uuid(),
        creation_date=at,
        account=account,
        incident=Incident.get(Incident.unique_id == unique_id),
        policy=policy.name,
        ends_at=at + MAX_DURATION,
    )
    return drill


def _find_policy(account: Account, unique_id: str) -> EscalationPolicy:
    policies = select_policies(account).where(EscalationPolicy.unique_id == unique_id)
    found: EscalationPolicy | None = policies.first()
    if found is None:
        reject("policy", f"{unique_id} is not an escalation policy of this account.")
    return found


def select_policies(account: Account) -> "peewee.ModelSelect[EscalationPolicy]":
    """Select the escalation policies of an account, with their teams."""
    policies = EscalationPolicy.select(EscalationPolicy, Team).join(Team)
    return policies.where(Team.account == account).order_by(EscalationPolicy.id)


def find_services(policy: EscalationPolicy) -> "peewee.ModelSelect[Service]":
    """Select the services in which a drill of a policy can be: those that use the policy first."""
    services = Service.select().where(
        Service.team == policy.team_id, Service.status != ServiceStatus.DISABLED
    )
    uses_policy = peewee.Case(None, [(Service.escalation_policy == policy.id, 0)], 1)
    return services.order_by(uses_policy, Service.id)


def _find_service(policy: EscalationPolicy, unique_id: str | None) -> Service | None:
    services = find_services(policy)
    if unique_id:
        services = services.where(Service.unique_id == unique_id)
    found: Service | None = services.first()
    return found
