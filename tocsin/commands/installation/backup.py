"""`tocsin backup`, `tocsin restore` and `tocsin resume`."""

import importlib.metadata
import re
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click

from models.processes import pause
from models.reports.due_work import DueWork, list_due_work
from models.store.backup.backup import back_up
from models.store.backup.backup import restore as restore_rows
from models.store.migrate import require_schema
from models.store.opening import open_store
from models.store.sqlite import SQLITE_FILE
from models.store.store import connection, store
from runtime.late_logs import configure_later
from runtime.settings import Settings, load
from tocsin.commands.options import as_json_option
from tocsin.commands.output import print_result, to_json, to_printable
from tocsin.commands.progress import show_bytes

# The names of backups that --keep writes and deletes: they sort by time.
PREFIX = "tocsin-"
NAME = re.compile(rf"{PREFIX}\d{{4}}-\d\d-\d\dT\d{{6}}Z")
# Messages and timers that are printed; --json prints more.
MAX_PRINTED = 50

file_argument = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--keep",
    type=click.IntRange(1),
    help="FILE is a folder: name the backup by its time, and then delete all but the newest of them.",
)
@as_json_option
def backup(file: Path, keep: int | None, as_json: bool) -> None:
    """Write a backup of the database into FILE, which must not exist. Tocsin may run.

    The backup has every alert that was accepted before the start of this command.
    """
    folder = file
    if keep is not None:
        file = folder / f"{PREFIX}{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}"
    settings = load()
    if settings.database_url:
        open_store(settings.database_url, settings.home)
    with show_bytes("backup", _measure(settings)) as on_bytes:
        version = importlib.metadata.version("tocsin")
        back_up(file, settings.database_url, settings.home, version, on_bytes)
    deleted = [] if keep is None else delete_old(folder, keep)
    size = file.stat().st_size
    result = {"file": str(file), "bytes": size, "deleted": [str(path) for path in deleted]}
    more = f", and {len(deleted)} old ones deleted" if deleted else ""
    print_result(result, as_json, f"{file}: {size:,} bytes{more}")


def _measure(settings: Settings) -> int | None:
    """Return the size of the backup; None on PostgreSQL, where only its end says it."""
    path = settings.home / SQLITE_FILE
    return path.stat().st_size if not settings.database_url and path.is_file() else None


def delete_old(folder: Path, keep: int) -> list[Path]:
    """Delete all but the newest backups that --keep named in a folder. Return those that were deleted."""
    old = sorted(path for path in folder.glob(f"{PREFIX}*") if NAME.fullmatch(path.name))[:-keep]
    for path in old:
        path.unlink()
    return old


@click.command()
@file_argument
@click.option("--resume", "is_resumed", is_flag=True, help="Process and send at once: end the pause.")
@as_json_option
def restore(file: Path, is_resumed: bool, as_json: bool) -> None:
    """Restore FILE into a new data folder, or into the empty database of TOCSIN_DATABASE_URL.

    The restored copy is paused: it accepts alerts, but processes and sends nothing until `tocsin resume`.
    Without --resume, this command shows what it would send.
    """
    settings = load()
    configure_later("error", "restore")
    if settings.database_url:
        open_store(settings.database_url, settings.home)
    elif (settings.home / "up.lock").exists():
        from tocsin.server.supervisor import claim_lock

        claim_lock(settings.home)
    size = file.stat().st_size if file.is_file() else 0
    with (
        show_bytes("restore", size) as on_bytes,
        restore_rows(file, settings.database_url, settings.home, on_bytes) as header,
        store().write_transaction(),
    ):
        pause.resume()
        if not is_resumed:
            pause.pause(store().now(), header.created_at)
    with connection():
        work = list_due_work(store().now())
    if as_json:
        click.echo(to_json({"backup_at": header.created_at, "paused": not is_resumed, **asdict(work)}))
        return
    click.echo(f"restored the backup of {header.created_at} (Tocsin {header.version})")
    if not is_resumed:
        click.echo("\n".join(_describe(work)))


@click.command()
@click.option("--dry-run", "is_dry", is_flag=True, help="Only show what would be sent.")
@as_json_option
def resume(is_dry: bool, as_json: bool) -> None:
    """End the pause of a restored copy. Workers then process alerts, fire timers and send messages."""
    settings = load()
    configure_later("error", "resume")
    open_store(settings.database_url, settings.home)
    with connection():
        require_schema()
        if not pause.is_paused():
            raise click.ClickException("this installation is not paused")
        work = list_due_work(store().now())
        if not is_dry:
            with store().write_transaction():
                pause.resume()
    if as_json:
        click.echo(to_json({"paused": is_dry, **asdict(work)}))
    else:
        click.echo("\n".join(_describe(work)) if is_dry else "resumed: workers continue within some seconds")


def _describe(work: DueWork) -> Iterator[str]:
    """Yield what workers would do after the end of the pause."""
    yield "paused: alerts are accepted, and nothing is processed or sent until `tocsin resume`."
    yield "That would begin with:"
    yield f"{work.message_count:,} unsent messages{' to:' if work.people else ''}"
    for person in work.people[:MAX_PRINTED]:
        channels = ", ".join(f"{count:,} by {channel}" for channel, count in person.channels.items())
        yield to_printable(f"  {person.recipient}: {channels}")
    if len(work.people) > MAX_PRINTED:
        yield f"  {len(work.people) - MAX_PRINTED:,} more people"
    if work.messages:
        yield "The first of these messages:"
    for message in work.messages[:MAX_PRINTED]:
        about = ", ".join(message.incidents) or "no incident"
        yield to_printable(
            f"  {message.due_at:%Y-%m-%d %H:%M:%S} UTC  {message.channel} to {message.recipient}: {about}"
        )
    if work.message_count > MAX_PRINTED:
        yield f"  {work.message_count - MAX_PRINTED:,} more"
    yield f"{work.timer_count:,} timers of {work.open_incidents:,} open incidents, which may notify people"
    for timer in work.timers[:MAX_PRINTED]:
        yield to_printable(f"  {timer.due_at:%Y-%m-%d %H:%M:%S} UTC  {timer.kind}: {timer.incident}")
    if work.timer_count > MAX_PRINTED:
        yield f"  {work.timer_count - MAX_PRINTED:,} more"
    yield f"{work.alerts:,} accepted alerts that were not processed yet"
