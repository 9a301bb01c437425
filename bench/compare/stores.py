"""`python -m bench.compare.stores`: restore 100,000 alerts of SQLite into PostgreSQL, and back."""

import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import click

from bench.data.sample_data import write_sample_data
from bench.servers.postgres import ServerUnavailable, create_own_database
from models.people import provisioning
from models.store.backup import backup
from models.store.migrate import migrate
from models.store.opening import open_store
from models.store.store import connection, db, store
from models.tables.events import Event

ALERTS = 100_000


@click.command()
@click.option("--alerts", default=ALERTS, show_default=True, help="Alerts to move, at least.")
@click.option("--server", default="postgresql:///postgres", show_default=True, help="Server for a database.")
def main(alerts: int, server: str) -> None:
    """Fill a SQLite file, move it to PostgreSQL and back, and compare all rows."""
    try:
        with (
            tempfile.TemporaryDirectory(prefix="tocsin-moving-") as folder,
            create_own_database(server) as made,
        ):
            _restore_twice(Path(folder), made.url, alerts)
    except ServerUnavailable as error:
        raise click.ClickException(str(error)) from None


def _restore_twice(folder: Path, url: str, alerts: int) -> None:
    first, second = folder / "first", folder / "second"
    open_store("", first)
    migrate(first)
    with connection(), store().write_transaction():
        account, _ = provisioning.create_account("Example", "owner@example.org", store().now())
    write_sample_data(alerts, account.account_identifier)
    before = _digest_rows()
    _run("backup of SQLite", lambda: backup.back_up(folder / "lite", "", first, "bench"))
    open_store(url, folder)
    _run("restore into PostgreSQL", lambda: _restore(folder / "lite", url, folder / "server"))
    _run("backup of PostgreSQL", lambda: backup.back_up(folder / "served", url, folder, "bench"))
    _run("restore into SQLite", lambda: _restore(folder / "served", "", second))
    after = _digest_rows()
    with connection():
        count = Event.select().count()
    db.close_all()
    different = sorted(table for table in before | after if before.get(table) != after.get(table))
    rows = sum(number for number, _ in before.values())
    click.echo(f"{count:,} alerts, {rows:,} rows of {len(before)} tables; different tables: {len(different)}")
    if different or count < alerts:
        raise click.ClickException(f"different: {', '.join(different)}")


def _restore(path: Path, url: str, home: Path) -> None:
    with backup.restore(path, url, home):
        pass


def _run(what: str, work: Callable[[], None]) -> None:
    start = perf_counter()
    work()
    click.echo(f"{what}: {perf_counter() - start:.1f} s")


def _digest_rows() -> dict[str, tuple[int, str]]:
    """Return the number and a digest of the rows of each table but the one of the migrations."""
    found = {}
    with connection():
        for table in sorted(db.get_tables()):
            if table in ("schema_migration", "sqlite_sequence"):
                continue
            digest, count = hashlib.sha256(), 0
            for row in db.execute_sql(f'select * from "{table}" order by id'):
                digest.update(repr(row).encode())
                count += 1
            found[table] = (count, digest.hexdigest())
    return found


if __name__ == "__main__":
    main()
