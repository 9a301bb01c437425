"""Services, their integrations, and the maintenance windows in which their alerts notify nobody."""

import peewee

from models.domain.applications import Application, get_application
from models.domain.enums import AlertType
from models.store.fields import JsonField, NumberedObject, NumberedTable, Table, UtcField
from models.tables.accounts import Account, User
from models.tables.tasks import TaskTemplate
from models.tables.teams import EscalationPolicy, Priority, Sla, Team


class Service(NumberedObject):
    """A service. The pipeline orders and locks alerts by service (design, section 5)."""

    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    name = peewee.CharField(max_length=255)
    summary = peewee.TextField(default="")
    description = peewee.TextField(default="")
    created_by = peewee.ForeignKeyField(User)
    status = peewee.SmallIntegerField(default=1)
    under_maintenance = peewee.BooleanField(default=False)
    escalation_policy = peewee.ForeignKeyField(EscalationPolicy, null=True)
    sla = peewee.ForeignKeyField(Sla, null=True, on_delete="SET NULL")
    team_priority = peewee.ForeignKeyField(Priority, null=True, on_delete="SET NULL")
    task_template = peewee.ForeignKeyField(TaskTemplate, null=True, on_delete="SET NULL")
    auto_resolve_timeout = peewee.IntegerField(default=0)
    acknowledgement_timeout_enabled = peewee.BooleanField(default=False)
    acknowledgement_timeout = peewee.IntegerField(default=600)
    collation = peewee.SmallIntegerField(default=0)
    collation_time = peewee.IntegerField(default=0)
    # Whether an integration of the service has an outbound target.
    has_outbound = peewee.BooleanField(default=False)


class AddedApplication(NumberedTable):
    """The ID of an application that the catalogue does not have, and the kind as which an account uses it.

    Teams that move bring the IDs of their old account. Integrations keep the kind when the row is deleted.
    """

    account = peewee.ForeignKeyField(Account, on_delete="CASCADE", index=False)
    unique_id = peewee.CharField(max_length=36)
    kind = peewee.CharField(max_length=32)
    creation_date = UtcField()

    class Meta:
        indexes = ((("account", "unique_id"), True),)


class Integration(NumberedObject):
    """`kind` is the kind of an application that is not in the catalogue; None: the catalogue has it."""

    service = peewee.ForeignKeyField(Service, on_delete="CASCADE")
    application = peewee.CharField(max_length=36)
    kind = peewee.CharField(max_length=32, null=True)
    name = peewee.CharField(max_length=255)
    summary = peewee.TextField(default="")
    description = peewee.TextField(default="")
    integration_key = peewee.CharField(max_length=36, unique=True)
    created_by = peewee.ForeignKeyField(User)
    is_enabled = peewee.BooleanField(default=True)
    create_incidents_for = peewee.SmallIntegerField(default=1)
    integration_type = peewee.SmallIntegerField(default=0)
    default_urgency = peewee.SmallIntegerField(default=1)
    # Heartbeat. `heartbeat_interval`: seconds between pings (0: no heartbeat). `heartbeat_grace`: how late a
    # ping may be, in seconds. `expected_at`: when the next ping is overdue; None: no ping is expected.
    # `last_ping_at`: the last ping, or the start of the expectation before the first ping. `is_missing`:
    # whether a ping was reported as missing since then. `is_extended`: whether the time was extended.
    heartbeat_interval = peewee.IntegerField(default=0)
    heartbeat_grace = peewee.IntegerField(default=0)
    expected_at = UtcField(null=True)
    last_ping_at = UtcField(null=True)
    is_missing = peewee.BooleanField(default=False)
    is_extended = peewee.BooleanField(default=False)

    @property
    def application_reference(self) -> Application:
        return get_application(self.application, self.kind)

    @property
    def team(self) -> Team:
        team: Team = self.service.team
        return team


Integration.declare_index("integration_expected", "expected_at", where="expected_at IS NOT NULL")


class SourceSetup(Table):
    """What the source of an integration needs besides the body.

    `secret`: the key with which the tool signs its requests; None: signatures are not checked. `mapping`:
    where the fields of an alert are in the body, by field (pipeline/sources/mapping.py); None: not declared.
    `default_alert_type`: the level of alerts whose source sent none that Tocsin knows; None: not declared.
    `topics`: the topics of Amazon SNS from which it takes messages; None: their signatures are not checked.
    `accepts_get`: alerts are also taken by GET, with their fields in the query.
    `has_alert_access`: whether a sender may read and change the alerts of the integration with its key.
    """

    integration = peewee.ForeignKeyField(Integration, unique=True, on_delete="CASCADE")
    secret = peewee.CharField(max_length=256, null=True)
    mapping = JsonField(null=True)
    default_alert_type = peewee.SmallIntegerField(null=True)
    topics = JsonField(null=True)
    accepts_get = peewee.BooleanField(default=False)
    has_alert_access = peewee.BooleanField(default=False)
    updated_at = UtcField()

    @property
    def default_level(self) -> AlertType | None:
        return None if self.default_alert_type is None else AlertType(self.default_alert_type)


class DeletedIntegration(Table):
    """What the alerts of a deleted integration show of it. `service` is the UUID of its service.

    The row exists as long as an alert refers to it.
    """

    unique_id = peewee.CharField(max_length=36)
    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    service = peewee.CharField(max_length=36)
    name = peewee.CharField(max_length=255)
    summary = peewee.TextField()
    creation_date = UtcField()
    integration_key = peewee.CharField(max_length=36)
    is_enabled = peewee.BooleanField()
    integration_type = peewee.SmallIntegerField()


class Maintenance(NumberedObject):
    """A window from `start_time` to `end_time`.

    It repeats every `repeat_interval` days (0: never) until `repeat_until` (None: without end), in the local
    time of `time_zone`.
    """

    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    name = peewee.CharField(max_length=255, default="")
    start_time = UtcField()
    end_time = UtcField()
    repeat_interval = peewee.IntegerField(default=0)
    repeat_until = UtcField(null=True)
    time_zone = peewee.CharField(max_length=64, default="UTC")


class MaintenanceService(Table):
    """A service of a maintenance window."""

    unique_id = peewee.CharField(max_length=36, unique=True)
    maintenance = peewee.ForeignKeyField(Maintenance, on_delete="CASCADE", index=False)
    service = peewee.ForeignKeyField(Service, on_delete="CASCADE")

    class Meta:
        indexes = ((("maintenance", "service"), True),)
