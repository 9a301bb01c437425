"""Commands about accounts, users and their tokens, for whoever may use this machine."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import click

from models import founding, removal
from models.accounts import Account, Token, User
from models.base import connection, open_store, store
from models.enums import AccountRole
from models.migrate import make_schema
from tocsin.settings import load
from tocsin.table import plain

as_json_option = click.option("--json", "as_json", is_flag=True, help="For machines.")
account_option = click.option(
    "--account", "account_id", help="Identifier of the account, if there are several."
)


@click.group()
def account() -> None:
    """Add accounts, and hand them over."""


@account.command("add")
@click.argument("name")
@click.argument("email")
@as_json_option
def add_account(name: str, email: str, as_json: bool) -> None:
    """Add an account with its owner, and a token for the owner, which is shown once."""
    with _rows():
        now = store().now()
        made, owner = founding.new_account(name, _address(email), now)
        token = founding.new_token_for(owner, "command line", now)
    _tell({"account_id": made.account_identifier, "username": owner.username, "token": token}, as_json)


@account.command("hand-over")
@click.argument("email")
@account_option
@as_json_option
def hand_over(email: str, account_id: str | None, as_json: bool) -> None:
    """Make another member the owner of an account; who owned it becomes an admin. Teams keep their owners."""
    with _rows():
        heir = _user(email, account_id)
        if heir.role == AccountRole.OWNER:
            raise click.ClickException(plain(f"{email} owns {heir.account.name} already"))
        before = removal.hand_over(heir.account, heir)
        if before is None:
            raise click.ClickException(plain(f"{email} was removed from {heir.account.name} a moment ago"))
    made = {"account_id": heir.account.account_identifier, "owner": heir.username, "admin": before.username}
    _tell(made, as_json)


# An account has one owner, from its beginning.
ADDED = [role.name.lower() for role in AccountRole if role is not AccountRole.OWNER]


@click.group()
def user() -> None:
    """Add users to an account."""


@user.command("add")
@click.argument("email")
@account_option
@click.option("--role", type=click.Choice(ADDED), default="user")
@as_json_option
def add_user(email: str, account_id: str | None, role: str, as_json: bool) -> None:
    """Add a user to an account."""
    with _rows():
        found = _account(account_id)
        if founding.member_at(found, email) is not None:
            raise click.ClickException(plain(f"{email} is a user of {found.name} already"))
        now = store().now()
        made = founding.new_user(found, _address(email), AccountRole[role.upper()], now, is_verified=True)
    _tell({"account_id": found.account_identifier, "username": made.username, "role": role}, as_json)


@click.group()
def token() -> None:
    """Create, list and revoke API tokens."""


@token.command("create")
@click.argument("email")
@account_option
@click.option("--name", default="command line", help="What the token is for.")
@click.option("--days", type=click.IntRange(1), help="Days until it expires; default: never.")
@as_json_option
def create_token(email: str, account_id: str | None, name: str, days: int | None, as_json: bool) -> None:
    """Create a token that acts as a user. It is shown once."""
    with _rows():
        now = store().now()
        expires_at = now + timedelta(days=days) if days else None
        made = founding.new_token_for(_user(email, account_id), name, now, expires_at)
    _tell({"token": made}, as_json)


@token.command("list")
@as_json_option
def list_tokens(as_json: bool) -> None:
    """List the tokens that work."""
    with _rows():
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
        click.echo(plain(f"{row['id']:>4}  {row['user']}  {row['name']}  (last used: {used})"))


@token.command("revoke")
@click.argument("number", type=int)
def revoke_token(number: int) -> None:
    """Revoke a token by its number in the list."""
    with _rows():
        query = Token.update(revoked_at=store().now()).where(Token.id == number, Token.revoked_at.is_null())
        if not query.execute():
            raise click.ClickException(f"no token {number} that works")
    click.echo(f"revoked {number}")


@contextmanager
def _rows() -> Iterator[None]:
    """The database, in a write transaction."""
    settings = load()
    open_store(settings.database_url, settings.home)
    make_schema(settings.home)
    with connection(), store().writing():
        yield


def _account(identifier: str | None) -> Account:
    found = list(
        Account.select().where(Account.account_identifier == identifier) if identifier else Account.select()
    )
    if not found:
        raise click.ClickException(f"no account {identifier}" if identifier else "no account yet")
    if len(found) > 1:
        known = ", ".join(f"{one.account_identifier} ({one.name})" for one in found)
        raise click.UsageError(plain(f"say which account with --account: {known}"))
    return found[0]


def _user(email: str, account_id: str | None) -> User:
    query = User.select(User, Account).join(Account).where(User.email == email, User.removed_at.is_null())
    if account_id:
        query = query.where(Account.account_identifier == account_id)
    found = list(query)
    if not found:
        raise click.ClickException(f"no user {email}")
    if len(found) > 1:
        raise click.UsageError("a user of several accounts: say which with --account")
    return found[0]


def _address(email: str) -> str:
    name, at, domain = email.partition("@")
    if not (name and at and domain) or any(letter.isspace() for letter in email):
        raise click.UsageError(f"{email} is no e-mail address")
    return email


def _tell(made: dict[str, str], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(made))
        return
    for name, value in made.items():
        click.echo(plain(f"{name:12} {value}"))
