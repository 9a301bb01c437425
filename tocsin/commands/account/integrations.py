"""`tocsin integration`: add an integration to a service, and show the address of its alerts."""

import click

from models.changes.record import CREATED, ChangedObject
from models.people import provisioning
from models.store.store import store
from tocsin.commands.kinds import EVENT_APIS, HEARTBEAT_KIND, TOOLS, KindType
from tocsin.commands.names import SERVICE, find, find_owner
from tocsin.commands.options import account_option, as_json_option
from tocsin.commands.output import print_result
from tocsin.commands.read_only import BadArguments
from tocsin.commands.writing import record_change, write_transaction

MAX_NAME = 255


@click.group()
def integration() -> None:
    """Add an integration to a service. `tocsin list integrations --keys` shows the keys."""


@integration.command("add")
@click.argument("service_name", metavar="SERVICE")
@click.argument("name")
@click.option("--as", "kind", metavar="TOOL", type=KindType(), required=True, help="Monitoring tool.")
@account_option
@as_json_option
def add(service_name: str, name: str, kind: str, account_id: str | None, as_json: bool) -> None:
    """Add an integration for a tool to SERVICE, and show its key and the address of its alerts."""
    if kind == HEARTBEAT_KIND:
        raise BadArguments("add a heartbeat over HTTP or on the pages: it needs the time between two pings")
    application = TOOLS[kind]
    with write_transaction() as settings:
        service = find(SERVICE, service_name, account_id)
        owner = find_owner(service.team.account.account_identifier)
        made = provisioning.create_integration(
            service, name[:MAX_NAME], application.unique_id, owner, store().now()
        )
        changed = ChangedObject("integration", made.unique_id, made.name, 1, team=service.team_id)
        after = {"name": made.name, "application": made.application}
        record_change(service.team.account_id, changed, CREATED, {}, after)
    path = EVENT_APIS.get(kind, f"/api/integration/{kind}/{{key}}/")
    result = {
        "unique_id": made.unique_id,
        "service": service.name,
        "kind": kind,
        "integration_key": made.integration_key,
        "webhook_url": f"{settings.public_url}{path.format(key=made.integration_key)}",
    }
    print_result(result, as_json)
