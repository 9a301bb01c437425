"""`tocsin changes` lists who changed the configuration, and `tocsin undo` undoes a change."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from models.changes import listed
from models.changes.listed import Filters
from models.changes.obstacles import find_obstacle
from models.changes.sentences import describe_way, list_reverts, write_sentence
from models.domain.enums import Way
from models.store.store import store
from models.tables.accounts import User
from models.tables.changes import Change
from runtime.redis_socket import get_url
from runtime.settings import Settings
from tocsin.commands.names import find_account, find_owner, find_user
from tocsin.commands.options import account_option, as_json_option
from tocsin.commands.output import print_json, print_json_list, print_table, to_printable
from tocsin.commands.read_only import open_read_only
from tocsin.commands.times import DurationType, format_time
from tocsin.commands.writing import open_for_writing

if TYPE_CHECKING:
    from web.changes.undo import UndoResult

DEFAULT_LIMIT, MAX_LIMIT = 50, 10_000
# As long as the history is kept by default.
LONGEST = timedelta(days=400)


@click.command("changes")
@click.option("--object", "object_id", metavar="ID", help="Only changes of the object with this unique_id.")
@click.option("--kind", help="Only changes of this kind of object, for example service.")
@click.option("--person", "who", metavar="WHO", help="Only changes by this user.")
@click.option("--way", type=click.Choice([each.value for each in Way]), help="Only changes made in this way.")
@click.option("--batch", metavar="ID", help="Only changes of this batch.")
@click.option(
    "--since", type=DurationType(LONGEST), metavar="DURATION", help="Only those of the last 45m, 2h or 7d."
)
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_LIMIT),
    default=DEFAULT_LIMIT,
    show_default=True,
    help="List at most this many, the newest ones.",
)
@account_option
@as_json_option
def changes(
    object_id: str | None,
    kind: str | None,
    who: str | None,
    way: str | None,
    batch: str | None,
    since: timedelta | None,
    limit: int,
    account_id: str | None,
    as_json: bool,
) -> None:
    """List who changed which object of the configuration, newest first.

    Sign-ins and changes of rights are in the list, too. `tocsin undo` undoes a change by its ID.
    """
    with open_read_only():
        filters = Filters(
            object_id=object_id.strip().lower() if object_id and "-" in object_id else object_id,
            author=find_user(who, account_id).id if who else None,
            kind=kind,
            way=way,
            batch=batch,
            start=store().now() - since if since else None,
        )
        rows = list(listed.select_changes(find_account(account_id).id, filters).limit(limit))
    if as_json:
        print_json_list(listed.show_all(rows))
        return
    print_table(
        ("TIME (UTC)", "WHAT", "HOW", "ID"),
        [
            (format_time(row.at), _describe(row), describe_way(row.way, row.token), row.unique_id)
            for row in rows
        ],
        "no changes",
    )


def _describe(row: Change) -> str:
    return f"{write_sentence(row)}{' (undone)' if row.undone_by else ''}"


@click.command("undo")
@click.argument("change_id", metavar="ID")
@click.option("--yes", is_flag=True, help="Do not ask.")
@account_option
@as_json_option
def undo(change_id: str, yes: bool, account_id: str | None, as_json: bool) -> None:
    """Undo a change of the configuration, or all changes of a batch, by its ID in `tocsin changes`.

    It shows what it would write, and asks. Fields that somebody changed since are left and named.

    Exit code 1: the change does not exist or cannot be undone; nothing is changed.
    """
    with open_for_writing() as settings:
        owner = find_owner(account_id)
        found = _find_changes(owner, change_id)
        for row in found:
            if obstacle := find_obstacle(row):
                raise click.ClickException(to_printable(f"{write_sentence(row)}: {obstacle}"))
        if not yes:
            for text in _list_lines(found):
                click.echo(to_printable(text), err=as_json)
            click.confirm("Undo?", abort=True, err=as_json)
        result = _undo(settings, owner, change_id)
    if as_json:
        print_json(asdict(result))
        return
    click.echo(to_printable(f"undone: {', '.join(result.written)}; the undo has the ID {result.batch}"))
    for left in result.left:
        click.echo(to_printable(f"left as it is: {left.field.replace('_', ' ')} of {left.kind} {left.name}"))


def _find_changes(owner: User, change_id: str) -> list[Change]:
    """Return the change with this ID, or those of this batch, newest first."""
    changes_of_account = listed.select_changes(owner.account_id)
    found = list(changes_of_account.where(Change.unique_id == change_id))
    found = found or list(changes_of_account.where(Change.batch == change_id, Change.kind != ""))
    if not found:
        raise click.ClickException(to_printable(f"there is no change {change_id}: see tocsin changes"))
    return found


def _list_lines(found: list[Change]) -> Iterator[str]:
    for row in found:
        yield f"{format_time(row.at)} UTC  {write_sentence(row)}, {describe_way(row.way, row.token)}"
        for text in list_reverts(row):
            yield f"  {text}"


def _undo(settings: Settings, owner: User, change_id: str) -> "UndoResult":
    """Undo as the owner of the account. The operations load all of web, so only this command does."""
    from web.app import create_app
    from web.changes import by_command
    from web.http.errors import ApiError
    from workers import queue

    with queue.connected(settings.redis_url or get_url(settings.home)):
        try:
            return by_command.undo(create_app(settings), owner, change_id)
        except ApiError as error:
            reasons = [f"{name}: {' '.join(texts)}" for name, texts in error.fields.items()]
            raise click.ClickException(to_printable("; ".join(reasons) or error.detail)) from None
