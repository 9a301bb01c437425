"""Services, which are monitored systems. Contract section 3.6."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

import peewee
from marshmallow import validate

from models.domain.enums import Collation, ServiceStatus
from models.load.maintenance import load_windows
from models.services import deletion
from models.store.fields import Table
from models.tables.accounts import User
from models.tables.rules import AlertGroupingPolicy
from models.tables.services import Service
from models.tables.tasks import TaskTemplate
from models.tables.teams import EscalationPolicy, IncidentRole, Priority, Sla, Tag, Team
from schedules.maintenance import find_in_force, was_in_force
from web.http import access
from web.http.access import Row
from web.http.auth import Viewer, now, operation, viewer
from web.http.errors import collect_refusals, reject
from web.http.fields import (
    LONG_TEXT,
    NAME_LIMIT,
    SECONDS_LIMIT,
    Boolean,
    Choice,
    Moment,
    Number,
    Reference,
    Schema,
    Text,
    Username,
    explain,
)
from web.http.permissions import get_permissions
from web.http.resource import Resource, lock_services
from web.http.writing import Mode, Writing


class ServiceSchema(Schema):
    name = Text(validate=validate.Length(max=NAME_LIMIT))
    creation_date = Moment(dump_only=True)
    summary = Text(limit=LONG_TEXT)
    description = Text(limit=LONG_TEXT)
    unique_id = Text(dump_only=True)
    auto_resolve_timeout = Number(
        min_value=0,
        max_value=SECONDS_LIMIT,
        metadata=explain("Seconds after which an open incident is resolved; 0 (default): never."),
    )
    created_by = Username(dump_only=True)
    team_priority = Reference(
        required=True, metadata=explain("The unique_id of the priority of new incidents; null: none.")
    )
    task_template = Reference(
        metadata=explain("The unique_id of the task template whose tasks each new incident gets; null: none.")
    )
    acknowledgement_timeout_enabled = Boolean(
        metadata=explain("Whether `acknowledgement_timeout` is in force; default: false.")
    )
    acknowledgement_timeout = Number(
        min_value=0,
        max_value=SECONDS_LIMIT,
        metadata=explain(
            "Seconds after which an acknowledged incident is triggered again; default: 600. More than"
            " 600 while enabled."
        ),
    )
    status = Choice(
        ServiceStatus,
        metadata=explain(
            "The status; default: 1. While it is 0, alerts open no incidents. Tocsin itself sets only 4."
        ),
    )
    escalation_policy = Reference(
        required=True,
        blank=False,
        metadata=explain("The unique_id of the escalation policy of new incidents."),
    )
    team = Reference(dump_only=True)
    sla = Reference(required=True, metadata=explain("The unique_id of the SLA of new incidents; null: none."))
    under_maintenance = Boolean(
        metadata=explain("true: alerts open no incidents, as in a maintenance window; default: false.")
    )
    collation = Choice(
        Collation,
        metadata=explain(
            "Which alerts of the service join one incident, beside those with the same entity_id; default: 0."
        ),
    )
    collation_time = Number(
        min_value=0,
        metadata=explain(
            "Minutes in which alerts join one incident while `collation` is 1: more than 1, less than"
            " 1,440; default: 0."
        ),
    )


# Objects of its own team that a service may refer to.
REFERENCES = (("sla", Sla), ("team_priority", Priority), ("task_template", TaskTemplate))


class Services(Resource[Service, Team]):
    """The services of a team. Three references are required, but two of them may be blank.

    Older published clients do not send these two (contract 1.6, row 9).
    """

    model = Service
    noun = "service"
    schema = ServiceSchema()
    parent_field = Service.team
    id_arg = "service_id"
    permissions = get_permissions("service")
    timer_column = "service"
    client_may_omit = ("team_priority", "sla")

    def select_rows(self, parent: Team) -> "peewee.ModelSelect[Service]":
        return join_references(Service.select(*SERVICE_COLUMNS)).where(Service.team == parent)

    def fill(self, rows: list[Service]) -> list[Service]:
        return apply_maintenance(rows)

    def check_values(self, values: dict[str, Any], parent: Team, row: Service | None) -> dict[str, object]:
        with collect_refusals() as check:
            with check():
                _check_name(values.get("name"), row)
            for name, model in REFERENCES:
                if values.get(name):
                    with check():
                        values[name] = get_team_row(model, parent, values[name], name)
            if "escalation_policy" in values:
                policy = values["escalation_policy"]
                with check():
                    values["escalation_policy"] = get_usable_policy(parent, policy, "escalation_policy")
            with check():
                _check_timeouts(values, row or Service())
        return values

    def check(
        self, values: dict[str, object], parent: Team, row: Service | None, writing: Writing
    ) -> dict[str, object]:
        values = self.check_values(values, parent, row)
        is_grouped = values.get("collation") == Collation.CONTENT_BASED
        if is_grouped and not writing.profile.allows_grouping_before_policies:
            _check_grouping(row)
        # A PATCH with all fields has those that were shown. One with some fields means them.
        is_whole = writing.mode is Mode.REPLACE or values.keys() >= set(self.schema.load_fields)
        return _drop_echo(values, row) if row is not None and is_whole else values

    def describe(self, row: Service) -> dict[str, object]:
        return {**super().describe(row), **getattr(row, "stored_values", {})}

    def insert(self, parent: Team, values: dict[str, object]) -> Service:
        return super().insert(parent, {"name": "", "created_by": viewer().user, **values})

    def prepare_removal(self, row: Service) -> None:
        lock_services(Service.id == row.id)

    def remove(self, row: Service) -> None:
        deletion.keep_for_alerts(row)
        super().remove(row)


def list_available() -> list[Service]:
    """List the services of all teams on which you may create incidents."""
    return list_for_incidents(viewer())


@operation("service_read")
def list_for_incidents(who: Viewer) -> list[Service]:
    """Return the services of all teams on which the viewer may create incidents."""
    services = join_references(Service.select(*SERVICE_COLUMNS, Team)).join_from(Service, Team)
    for permission in (who.permission, "incident_write"):
        services = services.where(Service.team.in_(access.select_permitted_teams(who, permission)))
    return apply_maintenance(list(services.order_by(Service.creation_date, Service.id)))


# A service with the IDs of the rows that it refers to, in one query.
SERVICE_COLUMNS = (
    Service, User.id, User.username, EscalationPolicy.id, EscalationPolicy.unique_id,
    Sla.id, Sla.unique_id, Priority.id, Priority.unique_id, TaskTemplate.id, TaskTemplate.unique_id,
)  # fmt: skip


def join_references(services: "peewee.ModelSelect[Service]") -> "peewee.ModelSelect[Service]":
    return (
        services.join_from(Service, User, on=Service.created_by)
        .join_from(Service, EscalationPolicy, peewee.JOIN.LEFT_OUTER)
        .join_from(Service, Sla, peewee.JOIN.LEFT_OUTER)
        .join_from(Service, Priority, peewee.JOIN.LEFT_OUTER)
        .join_from(Service, TaskTemplate, peewee.JOIN.LEFT_OUTER)
    )


def apply_maintenance(services: list[Service]) -> list[Service]:
    """Set the status of services for an answer: under maintenance inside a maintenance window, and while the
    service's own `under_maintenance` is set.

    Disabled services stay disabled. What is stored is kept in `stored_values`. One query for all services.
    """
    inside = _find_in_maintenance([service.id for service in services])
    for service in services:
        if service.under_maintenance or service.id in inside:
            shown = _get_maintenance_values(service)
            service.stored_values = {name: getattr(service, name) for name in shown}
            for name, value in shown.items():
                setattr(service, name, value)
    return services


def _get_maintenance_values(service: Service) -> dict[str, object]:
    is_disabled = service.status == ServiceStatus.DISABLED
    status = service.status if is_disabled else ServiceStatus.UNDER_MAINTENANCE
    return {"under_maintenance": True, "status": status}


def _find_in_maintenance(services: Collection[int]) -> set[int]:
    """Return the row numbers of the services that are inside a maintenance window."""
    windows = load_windows(services, now())
    return {row for row, row_windows in windows.items() if find_in_force(row_windows, now()) is not None}


# Maximum time between reading a service inside a window and writing it back.
MAX_ECHO_AGE = timedelta(days=1)


def _drop_echo(values: dict[str, object], row: Service) -> dict[str, object]:
    """Remove the maintenance fields from all values if the client only sends back those that were shown.

    A client that reads a service, changes another field and writes it back does not want permanent
    maintenance, nor a status 4 that stays when it ends the maintenance. This also holds for a write after a
    window, if both fields have the values of the window.
    """
    maintenance_values = _get_maintenance_values(row)
    is_whole = all(values.get(name) == value for name, value in maintenance_values.items())
    since = now() - MAX_ECHO_AGE if is_whole else now()
    windows = load_windows([row.id], since).get(row.id, ())
    if not (row.under_maintenance or was_in_force(windows, since, now())):
        return values
    return {
        name: value
        for name, value in values.items()
        if name not in maintenance_values or maintenance_values[name] != value
    }


def _check_name(name: str | None, row: Service | None) -> None:
    """Refuse a blank name: messages name the service. None: the request has no name.

    A create may omit it, so a service can have no name. Such a service may be written back as it was read.
    """
    had_name = row is None or bool(row.name.strip())
    if had_name and name is not None and not name.strip():
        reject("name", "A service needs a name.")


def _check_timeouts(values: dict[str, Any], row: Service) -> None:
    """Check the rules between fields for the values after the change."""
    after = {name: values.get(name, getattr(row, name)) for name in _CHECKED_FIELDS}
    if after["acknowledgement_timeout_enabled"] and after["acknowledgement_timeout"] <= 600:
        reject("acknowledgement_timeout", "Must be above 600 seconds while the timeout is enabled.")
    if after["collation"] == Collation.TIME_BASED and not 1 < after["collation_time"] < 1440:
        reject("collation_time", "Must be more than 1 and less than 1440 minutes while collation is on.")


def _check_grouping(row: Service | None) -> None:
    """Refuse content-based grouping without a policy.

    A service that has it may be written back as it was read.
    """
    if row is not None and row.collation == Collation.CONTENT_BASED:
        return
    policies = AlertGroupingPolicy.select().where(AlertGroupingPolicy.service == row)
    if row is None or not policies.exists():
        reject("collation", "3 needs an alert grouping policy of the service: create the policy first.")


_CHECKED_FIELDS = (
    "acknowledgement_timeout_enabled",
    "acknowledgement_timeout",
    "collation",
    "collation_time",
)


NOUNS: Mapping[type[Table], str] = {
    Sla: "an SLA",
    Priority: "a priority",
    Tag: "a tag",
    TaskTemplate: "a task template",
    IncidentRole: "an incident role",
}


def get_team_row(model: type[Row], team: Team | int, unique_id: str, field: str) -> Row:
    """Return the row that a body names. Raise BadRequest for the field if the team has no such row."""
    row: Row | None = model.select().where(model.team == team, model.unique_id == unique_id).first()
    if row is None:
        reject(field, f"{unique_id} is not the id of {NOUNS[model]} of this team.")
    return row


def get_usable_policy(team: Team, unique_id: str, field: str) -> EscalationPolicy:
    """Return a policy that the team may use. Raise BadRequest for the field if there is none.

    A team may use its own policies, global policies, and policies that other teams share.
    """
    found = find_usable_policies(team, [unique_id])
    if not found:
        reject(field, f"{unique_id} is not an escalation policy that this team may use.")
    return found[0]


def find_usable_policies(team: Team, unique_ids: Collection[str]) -> list[EscalationPolicy]:
    """Return the policies that the team may use."""
    found = (
        EscalationPolicy.select(EscalationPolicy, Team)
        .join(Team)
        .where(Team.account == team.account_id, EscalationPolicy.unique_id.in_(unique_ids))
    )
    return [policy for policy in found if _may_use(team, policy)]


def _may_use(team: Team, policy: EscalationPolicy) -> bool:
    shared = "escalation_policy_attach" in policy.team.account_permissions
    return policy.team_id == team.id or policy.global_ep or shared


SERVICES = Services()
