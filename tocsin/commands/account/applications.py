"""`tocsin application`: the IDs of applications that an account brings."""

import click

from models.changes import removed_rows
from models.changes.record import CREATED, DELETED, ChangedObject
from models.domain.applications import KINDS
from models.domain.identity import is_uuid
from models.services import added_applications
from models.store.store import store
from models.tables.services import AddedApplication
from tocsin.commands.names import find_account
from tocsin.commands.options import account_option, as_json_option
from tocsin.commands.output import print_json_list, print_result, print_table
from tocsin.commands.read_only import open_read_only
from tocsin.commands.writing import record_change, write_transaction


@click.group()
def application() -> None:
    """Add, list and remove the IDs of applications that an account brings.

    An integration names its application by an ID. An ID that the catalogue does not have is refused until it
    is added as an application of a kind.
    """


@application.command("add")
@click.argument("unique_id", metavar="ID")
@click.option(
    "--as", "kind", required=True, type=click.Choice(sorted(KINDS)), help="Kind of the application."
)
@account_option
@as_json_option
def add(unique_id: str, kind: str, account_id: str | None, as_json: bool) -> None:
    """Add an ID as an application of a kind."""
    known = _check_id(unique_id)
    with write_transaction():
        found = find_account(account_id)
        try:
            added_applications.add(found, known, kind, store().now())
        except added_applications.NotAdded as error:
            raise click.ClickException(str(error)) from None
        record_change(found.id, _identify(known), CREATED, {}, {"unique_id": known, "kind": kind})
    result = {"account_id": found.account_identifier, "unique_id": known, "kind": kind}
    print_result(result, as_json, f"added {known} as {kind}")


@application.command("list")
@account_option
@as_json_option
def list_added(account_id: str | None, as_json: bool) -> None:
    """List the added IDs."""
    with open_read_only():
        rows = added_applications.list_added(find_account(account_id)).order_by(AddedApplication.id)
        found = [{"unique_id": row.unique_id, "kind": row.kind} for row in rows]
    if as_json:
        print_json_list(found)
        return
    print_table(("ID", "KIND"), [(row["unique_id"], row["kind"]) for row in found], "no added applications")


@application.command("remove")
@click.argument("unique_id", metavar="ID")
@account_option
@as_json_option
def remove(unique_id: str, account_id: str | None, as_json: bool) -> None:
    """Remove an ID. Integrations that have it keep working."""
    known = _check_id(unique_id)
    with write_transaction():
        found = find_account(account_id)
        of_id = (AddedApplication.account == found) & (AddedApplication.unique_id == known)
        row = AddedApplication.get_or_none(of_id)
        if row is None:
            raise click.ClickException(f"{known} was not added")
        before = {"unique_id": known, "kind": row.kind}
        record_change(found.id, _identify(known), DELETED, before, {}, removed_rows.seal(row))
        row.delete_instance()
    print_result({"unique_id": known, "action": "removed"}, as_json, f"removed {known}")


def _identify(unique_id: str) -> ChangedObject:
    return ChangedObject("added application", unique_id, "", 1)


def _check_id(unique_id: str) -> str:
    known = unique_id.strip().lower()
    if not is_uuid(known):
        raise click.UsageError("the ID is not a UUID")
    return known
