"""Find accounts and users by the names that people write in commands."""

import click

from models.tables.accounts import Account, User
from tocsin.commands.output import to_printable
from tocsin.commands.read_only import BadArguments, NoResult


def find_accounts(identifier: str | None) -> list[Account]:
    """Return the account with this identifier, or all accounts."""
    rows = Account.select().order_by(Account.id)
    found = list(rows.where(Account.account_identifier == identifier) if identifier else rows)
    if not found:
        raise BadArguments(f"no account {identifier}") if identifier else NoResult("there is no account")
    return found


def find_account(identifier: str | None) -> Account:
    """Return the account with this identifier, or the only one."""
    found = list(
        Account.select().where(Account.account_identifier == identifier) if identifier else Account.select()
    )
    if not found:
        raise click.ClickException(f"no account {identifier}" if identifier else "no account yet")
    if len(found) > 1:
        known = ", ".join(f"{row.account_identifier} ({row.name})" for row in found)
        raise click.UsageError(to_printable(f"choose an account with --account: {known}"))
    return found[0]


def find_user(who: str, account_id: str | None) -> User:
    """Return the user with this e-mail address or username, of one account or of all."""
    query = User.select(User, Account).join(Account).where(User.removed_at.is_null())
    query = query.where((User.email == who) | (User.username == who))
    if account_id:
        query = query.where(Account.account_identifier == account_id)
    found = list(query)
    if not found:
        raise click.ClickException(f"no user {who}")
    if len(found) > 1:
        raise click.UsageError(f"{who} is a user of more than one account: choose the account with --account")
    only: User = found[0]
    return only
