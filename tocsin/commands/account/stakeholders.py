"""`tocsin stakeholders`: the addresses outside the account that alerts may mail."""

import click

from models.changes import removed_rows
from models.changes.record import CREATED, DELETED, ChangedObject
from models.store.ids import make_uuid
from models.store.store import store
from models.tables.stakeholders import StakeholderAddress
from tocsin.commands.names import check_address, find_account
from tocsin.commands.options import account_option, as_json_option
from tocsin.commands.output import print_json_list, print_result, print_table, to_printable
from tocsin.commands.read_only import open_read_only
from tocsin.commands.writing import record_change, write_transaction


@click.group()
def stakeholders() -> None:
    """List and change the addresses outside the account that alerts may mail."""


@stakeholders.command("list")
@account_option
@as_json_option
def list_stakeholders(account_id: str | None, as_json: bool) -> None:
    """List the allowed addresses."""
    with open_read_only():
        query = StakeholderAddress.select().where(StakeholderAddress.account == find_account(account_id))
        rows = [{"email": row.email, "name": row.name} for row in query.order_by(StakeholderAddress.id)]
    if as_json:
        print_json_list(rows)
        return
    print_table(("E-MAIL", "NAME"), [(row["email"], row["name"]) for row in rows], "no addresses")


@stakeholders.command("add")
@click.argument("email")
@click.argument("name")
@account_option
@as_json_option
def add_stakeholder(email: str, name: str, account_id: str | None, as_json: bool) -> None:
    """Allow alerts to mail an address. NAME is shown in timelines, where the address is not."""
    with write_transaction():
        account = find_account(account_id)
        address = check_address(email).lower()
        if StakeholderAddress.get_or_none(account=account, email=address) is not None:
            raise click.ClickException(to_printable(f"{email} is in the list already"))
        added = StakeholderAddress.create(
            unique_id=make_uuid(),
            creation_date=store().now(),
            account=account,
            email=address,
            name=name[:255],
        )
        record_change(account.id, _identify(added), CREATED, {}, {"email": address, "name": name[:255]})
    print_result({"email": address, "name": name[:255]}, as_json)


@stakeholders.command("remove")
@click.argument("email")
@account_option
@as_json_option
def remove_stakeholder(email: str, account_id: str | None, as_json: bool) -> None:
    """Remove an address from the list. Mails to it that are not sent yet are cancelled."""
    with write_transaction():
        account, address = find_account(account_id), email.strip().lower()
        row = StakeholderAddress.get_or_none(account=account, email=address)
        if row is None:
            raise click.ClickException(to_printable(f"{email} is not in the list"))
        before = {"email": address, "name": row.name}
        record_change(account.id, _identify(row), DELETED, before, {}, removed_rows.seal(row))
        row.delete_instance()
    print_result({"removed": address}, as_json)


def _identify(row: StakeholderAddress) -> ChangedObject:
    return ChangedObject("stakeholder", row.unique_id, row.name, row.number)
