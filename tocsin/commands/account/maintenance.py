"""`tocsin maintenance`: begin and end a maintenance window of a service."""

from datetime import timedelta

import click

from models.changes.record import CHANGED, CREATED, ChangedObject
from models.domain.moments import format_moment
from models.store.ids import make_uuid
from models.store.store import store
from models.tables.accounts import bump_version
from models.tables.services import Maintenance, MaintenanceService
from tocsin.commands.names import SERVICE, find
from tocsin.commands.options import account_option, as_json_option
from tocsin.commands.output import print_result
from tocsin.commands.read_only import BadArguments
from tocsin.commands.times import DurationType
from tocsin.commands.writing import record_change, write_transaction

LONGEST = timedelta(days=30)
MAX_NAME = 255


@click.group()
def maintenance() -> None:
    """Let the alerts of a service notify nobody for a time. The pages and the interface can plan windows."""


@maintenance.command("start")
@click.argument("service_name", metavar="SERVICE")
@click.argument("duration", type=DurationType(LONGEST))
@click.option("--name", default="Maintenance", show_default=True, help="Name of the window.")
@account_option
@as_json_option
def start(service_name: str, duration: timedelta, name: str, account_id: str | None, as_json: bool) -> None:
    """Begin a maintenance window of SERVICE now, for a time such as 45m, 2h or 1d."""
    with write_transaction():
        service = find(SERVICE, service_name, account_id)
        now = store().now()
        window = Maintenance.create(
            unique_id=make_uuid(),
            creation_date=now,
            team=service.team,
            name=name[:MAX_NAME],
            start_time=now,
            end_time=now + duration,
        )
        of_service = MaintenanceService.create(unique_id=make_uuid(), maintenance=window, service=service)
        after = {
            "name": window.name,
            "start_time": format_moment(now),
            "end_time": format_moment(window.end_time),
            "services": [{"unique_id": of_service.unique_id, "service": service.unique_id}],
        }
        record_change(service.team.account_id, _identify(window, 1), CREATED, {}, after)
        bump_version(service.team.account_id)
    print_result(
        {
            "unique_id": window.unique_id,
            "service": service.name,
            "start_time": now,
            "end_time": window.end_time,
        },
        as_json,
        f"{service.name} is under maintenance until {window.end_time:%Y-%m-%d %H:%M:%S} UTC",
    )


@maintenance.command("end")
@click.argument("service_name", metavar="SERVICE")
@account_option
@as_json_option
def end(service_name: str, account_id: str | None, as_json: bool) -> None:
    """End the windows of SERVICE that are open now. Alerts that still fire notify people then.

    Windows that are repeated, and those of several services, stay: change them on the pages or over HTTP.
    """
    with write_transaction():
        service = find(SERVICE, service_name, account_id)
        now = store().now()
        of_service = MaintenanceService.select(MaintenanceService.maintenance)
        open_now = Maintenance.select().where(
            Maintenance.id.in_(of_service.where(MaintenanceService.service == service)),
            Maintenance.start_time < now,
            Maintenance.end_time > now,
            Maintenance.repeat_interval == 0,
        )
        found = [
            row for row in store().for_update(open_now.order_by(Maintenance.id)) if _has_one_service(row)
        ]
        if not found:
            raise BadArguments(f"{service.name} alone has no open maintenance window")
        for row in found:
            changed = {"end_time": now, **Maintenance.raise_number()}
            Maintenance.update(changed).where(Maintenance.id == row.id).execute()
            before, after = ({"end_time": format_moment(at)} for at in (row.end_time, now))
            record_change(service.team.account_id, _identify(row, row.number + 1), CHANGED, before, after)
        bump_version(service.team.account_id)
    ended = [row.unique_id for row in found]
    print_result(
        {"service": service.name, "ended": ended, "end_time": now},
        as_json,
        f"{service.name}: {len(ended)} maintenance window{'s' * (len(ended) > 1)} ended",
    )


def _identify(window: Maintenance, number: int) -> ChangedObject:
    return ChangedObject("maintenance", window.unique_id, window.name, number, team=window.team_id)


def _has_one_service(window: Maintenance) -> bool:
    return MaintenanceService.select().where(MaintenanceService.maintenance == window).count() == 1
