"""`tocsin token`: create, list and revoke API tokens."""

from datetime import timedelta

import click

from models.people import provisioning
from models.sign_in import audit
from models.store.store import store
from models.tables.accounts import Token, User
from tocsin.commands.names import find_user
from tocsin.commands.options import account_option, as_json_option
from tocsin.commands.output import print_json_list, print_result, print_table, shorten
from tocsin.commands.read_only import open_read_only
from tocsin.commands.times import format_time
from tocsin.commands.writing import COMMAND, write_transaction


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
    with open_read_only():
        query = Token.select(Token, User).join(User).where(Token.revoked_at.is_null()).order_by(Token.id)
        rows = [
            {
                "id": row.id,
                "name": row.name,
                "user": row.user.email,
                "created_at": row.created_at,
                "expires_at": row.expires_at,
                "last_used_at": row.last_used_at,
            }
            for row in query
            if row.user.removed_at is None
        ]
    if as_json:
        print_json_list(rows)
        return
    print_table(
        ("ID", "USER", "NAME", "LAST USED", "EXPIRES"),
        [
            (
                str(row["id"]),
                row["user"],
                shorten(row["name"]),
                format_time(row["last_used_at"]) or "never",
                format_time(row["expires_at"]) or "never",
            )
            for row in rows
        ],
        "no tokens",
    )


@token.command("revoke")
@click.argument("number", type=int)
@as_json_option
def revoke_token(number: int, as_json: bool) -> None:
    """Revoke a token by its ID in the list."""
    with write_transaction():
        now = store().now()
        found = Token.select(Token, User).join(User).where(Token.id == number, Token.revoked_at.is_null())
        row = store().for_update(found).first()
        if row is None:
            raise click.ClickException(f"there is no valid token {number}")
        Token.update(revoked_at=now).where(Token.id == number).execute()
        audit.record(row.user, "token_revoked", now, actor=COMMAND, detail=row.name)
    print_result({"id": number, "action": "revoked"}, as_json, f"revoked {number}")
