"""Maintenance windows, in which alerts of services notify nobody: contract sections 3.11 and 4.6."""

from typing import Any

from marshmallow import fields, pre_load, validate

from models.store.ids import make_uuid
from models.tables.services import Maintenance, MaintenanceService, Service
from models.tables.teams import Team
from web.http.errors import reject, reject_places
from web.http.fields import (
    InputMoment,
    List,
    Moment,
    Nested,
    Number,
    OptionalMoment,
    Reference,
    Schema,
    Text,
    TimeZone,
    explain,
)
from web.http.permissions import get_permissions
from web.http.resource import Resource, attach

# Days: ten years, the same limit as for all times that are relative to today.
MAX_INTERVAL_D = 3650

MAX_SERVICES = 500


class MaintenanceServiceSchema(Schema):
    unique_id = Text(dump_only=True)
    service = Reference(
        required=True, blank=False, metadata=explain("The unique_id of a service of the team.")
    )

    @pre_load
    def _plain_id(self, data: object, **kwargs: object) -> object:
        return {"service": data} if isinstance(data, str) else data


class MaintenanceSchema(Schema):
    unique_id = Text(dump_only=True)
    start_time = InputMoment(
        required=True, metadata=explain("The start of the window, or of its first repetition.")
    )
    end_time = InputMoment(
        required=True, metadata=explain("The end of the window, or of its first repetition.")
    )
    repeat_interval = Number(
        min_value=0,
        max_value=MAX_INTERVAL_D,
        metadata=explain("Days from one start to the next; 0 (default): the window is not repeated."),
    )
    services = List(
        Nested(MaintenanceServiceSchema),
        max_items=MAX_SERVICES,
        required=True,
        validate=validate.Length(min=1),
        metadata=explain("The services whose alerts open no incidents in the window."),
    )
    creation_date = Moment(dump_only=True)
    name = Text()
    time_zone = TimeZone(
        metadata=explain(
            "The IANA name of the time zone in which repetitions keep their times; default: `UTC`."
        )
    )
    repeat_until = OptionalMoment(
        metadata=explain("The last repetition begins before this time; null: no end.")
    )
    maintenance_template = fields.Constant(None, dump_only=True, metadata=explain("Always null."))


class Maintenances(Resource[Maintenance, Team]):
    """The maintenance windows of a team."""

    model = Maintenance
    noun = "maintenance"
    title = "maintenance window"
    schema = MaintenanceSchema()
    parent_field = Maintenance.team
    id_arg = "maintenance_id"
    permissions = get_permissions("maintenance")

    def fill(self, rows: list[Maintenance]) -> list[Maintenance]:
        services = MaintenanceService.select(MaintenanceService, Service).join(Service)
        attach(rows, "services", services, MaintenanceService.maintenance)
        return rows

    def check_values(
        self, values: dict[str, Any], parent: Team, row: Maintenance | None
    ) -> dict[str, object]:
        if "services" in values:
            values["services"] = _find_services(parent, [each["service"] for each in values["services"]])
        _check_times(values, row or Maintenance())
        return values

    def insert(self, parent: Team, values: dict[str, Any]) -> Maintenance:
        services = values.pop("services")
        maintenance: Maintenance = super().insert(parent, values)
        _replace_services(maintenance, services)
        return maintenance

    def change(self, row: Maintenance, values: dict[str, Any]) -> None:
        services = values.pop("services", None)
        super().change(row, values)
        if services is not None:
            _replace_services(row, services)


def _find_services(team: Team, ids: list[str]) -> list[Service]:
    """Return the services of the team with these IDs, in this order. Raise BadRequest for unknown ones."""
    if len(set(ids)) != len(ids):
        reject("services", "A service is in the list twice.")
    found = Service.select().where(Service.team == team, Service.unique_id.in_(ids))
    by_id = {service.unique_id: service for service in found}
    reject_places(
        (f"services.{place}", f"{unique_id} is not a service of this team.")
        for place, unique_id in enumerate(ids)
        if unique_id not in by_id
    )
    return [by_id[unique_id] for unique_id in ids]


def _check_times(values: dict[str, Any], row: Maintenance) -> None:
    """Check the rules between fields for the values after the change."""
    start, end, until = (
        values.get(name, getattr(row, name)) for name in ("start_time", "end_time", "repeat_until")
    )
    if end <= start:
        reject("end_time", "Must be after the start.")
    if until is not None and until <= start:
        reject("repeat_until", "Must be after the start.")


def _replace_services(maintenance: Maintenance, services: list[Service]) -> None:
    """Replace the services of a window, in this order. A service that stays keeps its ID in this window."""
    existing = MaintenanceService.select().where(MaintenanceService.maintenance == maintenance)
    ids = {each.service_id: each.unique_id for each in existing}
    MaintenanceService.delete().where(MaintenanceService.maintenance == maintenance).execute()
    MaintenanceService.insert_many(
        [
            {
                "unique_id": ids.get(service.id) or make_uuid(),
                "maintenance": maintenance,
                "service": service,
            }
            for service in services
        ]
    ).execute()


MAINTENANCES = Maintenances()
