"""Commands for accounts, users and their tokens, for operators with access to this machine."""

import json
from datetime import timedelta

import click

from models.domain.enums import AccountRole
from models.people import offboarding, provisioning
from models.sign_in import audit, people
from models.store.store import store
from models.tables.accounts import Token, User
from runtime.settings import load
from tocsin.commands.names import find_account, find_user
from tocsin.commands.options import account_option, as_json_option
from tocsin.commands.output import to_printable
from tocsin.commands.writing import COMMAND, write_transaction
from tocsin.server.sign_in_url import build_sign_in_url


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


# An account always has exactly one owner, so no user is added as an owner.
ROLES = [role.name.lower() for role in AccountRole if role is not AccountRole.OWNER]


@click.group()
def user() -> None:
    """Add users to an account, and help those who cannot sign in."""


@user.command("sign-in-link")
@click.argument("email")
@account_option
@as_json_option
def create_sign_in_link(email: str, account_id: str | None, as_json: bool) -> None:
    """Create a link that signs a user in to the pages, once and within an hour."""
    with write_transaction():
        url = build_sign_in_url(load(), find_user(email, account_id), COMMAND)
    print_result({"link": url}, as_json)


@user.command("reset-sign-in")
@click.argument("email")
@account_option
@as_json_option
def reset_sign_in(email: str, account_id: str | None, as_json: bool) -> None:
    """End all sessions of a user, and remove the password, the passkeys and the links to providers.

    API tokens stay: see `tocsin token revoke`.
    """
    with write_transaction():
        found = find_user(email, account_id)
        people.reset(found, store().now(), COMMAND)
    print_result({"username": found.username, "sign_in": "reset"}, as_json)


@user.command("add")
@click.argument("email")
@account_option
@click.option("--role", type=click.Choice(ROLES), default="user")
@as_json_option
def add_user(email: str, account_id: str | None, role: str, as_json: bool) -> None:
    """Add a user to an account."""
    with write_transaction():
        found = find_account(account_id)
        if provisioning.find_member(found, email) is not None:
            raise click.ClickException(to_printable(f"{email} is already a user of {found.name}"))
        now = store().now()
        user_row = provisioning.create_user(
            found, check_address(email), AccountRole[role.upper()], now, is_verified=True
        )
    print_result(
        {"account_id": found.account_identifier, "username": user_row.username, "role": role}, as_json
    )


@click.group()
def token() -> None:
    """Create, list and revoke API tokens."""


@token.command("create")
@click.argument("email")
@account_option
@click.option("--name", default="command line", help="Purpose of the token.")
@click.option("--days", type=click.IntRange(1), help="Days until the token expires; default: never.")
@as_json_option
def create_token(email: str, account_id: str | None, name: str, days: int | None, as_json: bool) -> None:
    """Create a token that acts as a user. It is shown only once."""
    with write_transaction():
        now = store().now()
        expires_at = now + timedelta(days=days) if days else None
        found = find_user(email, account_id)
        token_text = provisioning.issue_token(found, name, now, expires_at)
        audit.record(found, "token_created", now, actor=COMMAND, detail=name)
    print_result({"token": token_text}, as_json)


@token.command("list")
@as_json_option
def list_tokens(as_json: bool) -> None:
    """List the valid tokens."""
    with write_transaction():
        query = Token.select(Token, User).join(User).where(Token.revoked_at.is_null()).order_by(Token.id)
        rows = [
            {
                "id": row.id,
                "name": row.name,
                "user": row.user.email,
                "created_at": row.created_at.isoformat(),
                "expires_at": row.expires_at.isoformat() if row.expires_at else None,
                "last_used_at": row.last_used_at.isoformat() if row.last_used_at else None,
            }
            for row in query
            if row.user.removed_at is None
        ]
    if as_json:
        click.echo(json.dumps(rows))
        return
    for row in rows:
        used = row["last_used_at"] or "never"
        click.echo(to_printable(f"{row['id']:>4}  {row['user']}  {row['name']}  (last used: {used})"))


@token.command("revoke")
@click.argument("number", type=int)
def revoke_token(number: int) -> None:
    """Revoke a token by its ID in the list."""
    with write_transaction():
        now = store().now()
        found = Token.select(Token, User).join(User).where(Token.id == number, Token.revoked_at.is_null())
        row = store().for_update(found).first()
        if row is None:
            raise click.ClickException(f"there is no valid token {number}")
        Token.update(revoked_at=now).where(Token.id == number).execute()
        audit.record(row.user, "token_revoked", now, actor=COMMAND, detail=row.name)
    click.echo(f"revoked {number}")


def check_address(email: str) -> str:
    name, at, domain = email.partition("@")
    if not (name and at and domain) or any(char.isspace() for char in email):
        raise click.UsageError(f"{email} is not an e-mail address")
    return email


def print_result(result: dict[str, str], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(result))
        return
    for name, value in result.items():
        click.echo(to_printable(f"{name:12} {value}"))
