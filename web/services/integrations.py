"""Integrations and their keys: contract section 3.6."""

from collections.abc import Mapping
from typing import Any, cast

import peewee
from marshmallow import fields

from models.domain.applications import APPLICATIONS, Application, accepts_pings, get_application
from models.domain.enums import IntegrationType, Urgency
from models.services import added_applications, deletion
from models.store.ids import make_uuid
from models.store.peewee_internals import get_values
from models.tables.accounts import User
from models.tables.services import Integration, Service, SourceSetup
from models.tables.teams import Team
from pipeline.sources import opsgenie
from web.http import access, serialization
from web.http.auth import now, viewer
from web.http.errors import reject
from web.http.fields import LONG_TEXT, Boolean, Choice, Moment, Reference, Schema, Text, Username, explain
from web.http.permissions import get_permissions
from web.http.resource import Resource, config_transaction, lock_row, lock_services
from web.http.writing import Mode, Part, Writing, begin_change, read_writing
from web.services import heartbeats
from web.services.applications import ApplicationSchema

NO_APPLICATION = (
    "Must be an application of the list at /api/account/applications/."
    " An owner or admin can add another ID with its kind:"
    " `tocsin application add ID --as KIND`, or POST /api/tocsin/applications/."
)


class IntegrationSchema(Schema):
    name = Text()
    creation_date = Moment(dump_only=True)
    summary = Text(limit=LONG_TEXT)
    description = Text(limit=LONG_TEXT)
    unique_id = Text(dump_only=True)
    service = Reference(dump_only=True)
    application = Text(
        required=True, limit=36, metadata=explain("The unique_id of the application that sends the alerts.")
    )
    application_reference = fields.Nested(
        ApplicationSchema, dump_only=True, metadata=explain("The application.")
    )
    integration_key = Text(
        dump_only=True, metadata=explain("The key in the addresses of alerts. It is a secret.")
    )
    created_by = Username(dump_only=True)
    is_enabled = Boolean(metadata=explain("false: requests with the key get 404; default: true."))
    create_incidents_for = Choice(
        names={0: "none", 1: "critical", 2: "critical and error", 3: "critical, error and warning"},
        metadata=explain(
            "Alerts of these levels open incidents; default: 1, and 3 for the event APIs of other services."
            " The level info opens none."
        ),
    )
    integration_type = Choice(
        IntegrationType,
        metadata=explain(
            "The direction; default: 0. An outbound integration sends incidents to its target URL."
        ),
    )
    default_urgency = Choice(
        Urgency, metadata=explain("The urgency of new incidents, if no rule changes it; default: 1.")
    )
    webhook_url = fields.Function(
        lambda integration: webhook_url(integration),
        metadata=explain(
            "The address to which the application sends alerts; empty for an outbound integration."
        ),
    )


def webhook_url(integration: Integration) -> str:
    """Return the URL to which the monitoring tool sends alerts; its extension selects the normalizer.

    "" for an integration that sends instead: nothing may be sent to it.
    """
    application = integration.application_reference
    if IntegrationType.OUTBOUND in (integration.integration_type, application.application_type):
        return ""
    return serialization.build_url(f"/api/integration/{application.extension}/{integration.integration_key}/")


class Integrations(Resource[Integration, Service]):
    """The integrations of a service. Each has a key and the application that sends its alerts."""

    model = Integration
    noun = "integration"
    schema = IntegrationSchema()
    parent_field = Integration.service
    id_arg = "integration_id"
    permissions = get_permissions("integration")
    put_may_omit = ("application",)

    def get_parent(self, **ids: str) -> Service:
        return access.access_service(viewer(), **ids)

    def select_rows(self, parent: Service) -> "peewee.ModelSelect[Integration]":
        return Integration.select(Integration, User).join(User).where(Integration.service == parent)

    def check_values(
        self, values: dict[str, Any], parent: Service, row: Integration | None
    ) -> dict[str, object]:
        if "application" in values:
            values["application"] = values["application"].lower()
            values["kind"] = _get_kind(values["application"], row)
        return values

    def insert(self, parent: Service, values: dict[str, object]) -> Integration:
        application = _find_application(values)
        made = {
            "name": "",
            "integration_key": make_uuid(),
            "created_by": viewer().user,
            "create_incidents_for": application.create_incidents_for,
        }
        row = super().insert(parent, {**made, **values, **_get_ping_changes(None, values)})
        if application.extension == opsgenie.EXTENSION:
            SourceSetup.insert(integration=row.id, has_alert_access=True, updated_at=now()).execute()
        return row

    def change(self, row: Integration, values: dict[str, object]) -> None:
        super().change(row, {**values, **_get_ping_changes(row, values)})
        if (
            "application" in values
            and _find_application(values).extension != row.application_reference.extension
        ):
            _forget_secret(row)

    def _lock_row(self, row: Integration, values: Mapping[str, object]) -> Integration:
        """Lock the service before the row, like the worker of its lane, which also writes these columns."""
        if accepts_pings(row.application, row.kind):
            lock_services(Service.id == row.service_id)
        return super()._lock_row(row, values)

    def prepare_removal(self, row: Integration) -> None:
        lock_services(Service.id == row.service_id)

    def remove(self, row: Integration) -> None:
        deletion.keep_for_alerts(row.service, row)
        super().remove(row)


def _find_application(values: Mapping[str, object]) -> Application:
    return get_application(str(values["application"]), cast("str | None", values.get("kind")))


def _get_kind(application: str, row: Integration | None) -> str | None:
    """Return the kind to store with an application; None: the catalogue has it. Raise BadRequest.

    A client that sends back the ID of its integration may do so after the ID was removed.
    """
    if application in APPLICATIONS:
        return None
    kind = added_applications.find_kind(viewer().account, application)
    if kind is None and row is not None and row.application == application:
        return row.kind
    if kind is None:
        reject("application", NO_APPLICATION)
    return kind


def _get_ping_changes(row: Integration | None, values: dict[str, object]) -> dict[str, object]:
    """Return the heartbeat columns that these values change in an integration (None: a new one).

    An integration that begins to accept pings expects the first ping from now on.
    """
    was_heartbeat = row is not None and accepts_pings(row.application, row.kind)
    if not _is_heartbeat_after(row, values):
        cleared: dict[str, object] = {
            "heartbeat_interval": 0,
            "heartbeat_grace": 0,
            "expected_at": None,
            "last_ping_at": None,
        }
        return cleared if was_heartbeat else {}
    before = lock_row(row) if row is not None else Integration()
    after = Integration(**{**get_values(before), **values})
    defaults = (
        {}
        if was_heartbeat
        else {"heartbeat_interval": heartbeats.DEFAULT_EVERY_S, "heartbeat_grace": heartbeats.DEFAULT_GRACE_S}
    )
    for name, value in defaults.items():
        setattr(after, name, value)
    if was_heartbeat and heartbeats.is_accepting(before) == heartbeats.is_accepting(after):
        return {}
    return {**defaults, **heartbeats.build_expectation(after, now())}


def _is_heartbeat_after(row: Integration | None, values: Mapping[str, object]) -> bool:
    if "application" in values:
        kind = values["kind"]
        return accepts_pings(str(values["application"]), str(kind) if kind else None)
    return row is not None and accepts_pings(row.application, row.kind)


def _forget_secret(row: Integration) -> None:
    """Delete the secret and the topics of an integration whose tool changes: they were of the old tool.

    With them, all requests of the new tool would be refused.
    """
    SourceSetup.update(secret=None, topics=None, has_alert_access=False).where(
        SourceSetup.integration == row.id
    ).execute()


class KeyOwnerSchema(Schema):
    integration_unique_id = Reference(
        required=True, blank=False, metadata=explain("The unique_id of the integration that gets a new key.")
    )


def regenerate_key() -> Integration:
    """Replace the key of an integration. Requests with the old key are refused from then on."""
    unique_id = serialization.read_body()["integration_unique_id"]
    names = (
        Integration.select(Integration.id, Service.unique_id, Team.unique_id)
        .join(Service)
        .join(Team)
        .where(Integration.unique_id == unique_id, Team.account == viewer().account)
        .first()
    )
    if names is None:
        reject("integration_unique_id", f"{unique_id} is not an integration of this account.")
    service = access.access_service(viewer(), names.service.team.unique_id, names.service.unique_id)
    return replace_key(service, names, read_writing(Mode.PATCH))


def replace_key(service: Service, row: Integration, writing: Writing) -> Integration:
    """Replace the key of an integration of this service, and return the integration."""
    row.service = service
    with config_transaction():
        begin_change(row, writing, KEY)
        Integration.update(integration_key=make_uuid()).where(Integration.id == row.id).execute()
    found: Integration = INTEGRATIONS.select_rows(service).where(Integration.id == row.id).get()
    return found


INTEGRATIONS = Integrations()
KEY_OWNER = KeyOwnerSchema()


def _describe_key(row: Integration) -> dict[str, object]:
    return {"integration_key": row.integration_key}


def _show_with_key(row: Integration) -> object:
    return INTEGRATIONS.show(row.service, row)


KEY = Part("integration", "", _describe_key, _show_with_key, ("integration_key",), ("integration_key",))
