"""`tocsin account`: add accounts and transfer their ownership."""

import click

from models.domain.enums import AccountRole
from models.people import offboarding, provisioning
from models.sign_in import audit
from models.store.store import store
from tocsin.commands.names import check_address, find_user
from tocsin.commands.options import account_option, as_json_option
from tocsin.commands.output import print_result, to_printable
from tocsin.commands.writing import COMMAND, write_transaction


@click.group()
def account() -> None:
    """Add accounts and transfer their ownership."""


@account.command("add")
@click.argument("name")
@click.argument("email")
@as_json_option
def add_account(name: str, email: str, as_json: bool) -> None:
    """Add an account with its owner and a token for the owner. The token is shown only once."""
    with write_transaction():
        now = store().now()
        account_row, owner = provisioning.create_account(name, check_address(email), now)
        token = provisioning.issue_token(owner, "command line", now)
    print_result(
        {"account_id": account_row.account_identifier, "username": owner.username, "token": token}, as_json
    )


@account.command("hand-over")
@click.argument("email")
@account_option
@as_json_option
def hand_over(email: str, account_id: str | None, as_json: bool) -> None:
    """Make a user the owner of the account. The previous owner becomes an admin. Teams keep their owners."""
    with write_transaction():
        new_owner = find_user(email, account_id)
        if new_owner.role == AccountRole.OWNER:
            raise click.ClickException(to_printable(f"{email} already owns {new_owner.account.name}"))
        old_owner = offboarding.transfer_ownership(new_owner.account, new_owner)
        if old_owner is None:
            raise click.ClickException(
                to_printable(f"{email} was removed from {new_owner.account.name} a moment ago")
            )
        audit.record(new_owner, "owner_changed", store().now(), actor=COMMAND)
    result = {
        "account_id": new_owner.account.account_identifier,
        "owner": new_owner.username,
        "admin": old_owner.username,
    }
    print_result(result, as_json)
