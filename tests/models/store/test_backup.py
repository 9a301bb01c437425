"""A backup has all rows, and a restore writes all of them or nothing."""

import errno
import os
import stat
from contextlib import contextmanager

import psycopg
import pytest

from models.store import migrate
from models.store.backup import backup, file, other_store
from models.store.backup.file import BackupError, Header
from models.store.migrate import SchemaUnknown
from models.store.opening import open_store
from models.store.store import connection, db, store
from tests.support import upgrades
from tests.support.stores import SERVER, drop_store, get_url


@pytest.fixture
def filled(empty_store, home):
    """Return all rows of a database with rows in every table."""
    migrate.migrate(home)
    with connection(), store().write_transaction():
        upgrades.fill(upgrades.list_tables(), first=1)
    return read_all_rows()


@pytest.fixture
def new_home(tmp_path):
    """Return the data folder of a restored copy, with an empty database."""
    yield tmp_path / "restored"
    db.close_all()
    drop_store(tmp_path / "restored")


def read_all_rows():
    with connection():
        return {
            table: db.execute_sql(f'select * from "{table}" order by id').fetchall()
            for table in (*upgrades.list_tables(), "schema_migration")
        }


def back_up(home, path):
    backup.back_up(path, get_url(home), home, "1.2.3")
    db.close_all()
    return path


@contextmanager
def restored(path, home):
    """Restore a backup as the command does, and open the copy."""
    if url := get_url(home):
        open_store(url, home)
    with backup.restore(path, url, home) as header:
        pass
    yield header


@pytest.mark.usefixtures("filled")
def test_progress_ends_with_the_size_of_the_backup(home, new_home, tmp_path):
    path, written, read = tmp_path / "backup", [], []

    backup.back_up(path, get_url(home), home, "1.2.3", written.append)
    db.close_all()
    if url := get_url(new_home):
        open_store(url, new_home)
    with backup.restore(path, url, new_home, read.append):
        pass

    # The checksum at the end, and the first line.
    assert path.stat().st_size - 32 == sum(written)
    assert sum(read) == sum(written) - 16


def test_a_restored_copy_has_all_rows(filled, home, new_home, tmp_path):
    path = back_up(home, tmp_path / "backup")

    with restored(path, new_home) as header:
        copied = read_all_rows()

    assert filled["liveness"]
    # The times of migrations on PostgreSQL are those of the restore.
    assert [row[1] for row in copied.pop("schema_migration")] == [
        row[1] for row in filled.pop("schema_migration")
    ]
    assert copied == filled
    assert (header.store, header.version) == (store().name, "1.2.3")


def test_a_restored_copy_uses_no_number_of_a_row_again(filled, home, new_home, tmp_path):
    with connection(), store().write_transaction():
        db.execute_sql("delete from attempt")
    path = back_up(home, tmp_path / "backup")

    with restored(path, new_home), connection(), store().write_transaction():
        upgrades.fill({"attempt": db.get_columns("attempt")}, first=1)
        numbers = [row for (row,) in db.execute_sql("select id from attempt").fetchall()]

    # On SQLite, only tables with SequenceField never use a number twice.
    assert not SERVER or min(numbers) > upgrades.ROWS


@pytest.fixture
def next_version(tmp_path, monkeypatch):
    """Call it to become the next version of the program, which has one more migration."""
    folder = upgrades.copy_migrations(tmp_path / "next", "CREATE TABLE next (id INTEGER)")
    return lambda: monkeypatch.setattr(migrate, "MIGRATIONS_DIR", folder)


def test_a_backup_of_an_earlier_schema_is_migrated(filled, home, new_home, tmp_path, next_version):
    with connection():
        names = migrate.list_applied()
    path = back_up(home, tmp_path / "backup")
    next_version()

    with restored(path, new_home):
        copied = read_all_rows()
        with connection():
            assert migrate.list_applied() == [*names, upgrades.NEXT]

    assert copied.pop("next") == []
    for rows in (copied, filled):
        del rows["schema_migration"]
    assert copied == filled


def test_a_backup_is_readable_by_its_owner_only_and_replaces_no_file(filled, home, tmp_path):
    path = back_up(home, tmp_path / "backup")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(BackupError, match="backup exists"):
        back_up(home, path)
    assert {each.name for each in tmp_path.iterdir()} <= {"home", "backup"}


@pytest.fixture
def no_links(monkeypatch):
    """Let the file system refuse hard links, as FAT and some network file systems do."""

    def refuse(*_, **__):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)


def test_without_hard_links_a_backup_is_written_and_restored(filled, home, new_home, tmp_path, no_links):
    path = back_up(home, tmp_path / "backup")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with restored(path, new_home):
        assert read_all_rows()["liveness"] == filled["liveness"]
    assert {each.name for each in tmp_path.iterdir()} <= {"home", "backup", "restored"}


def test_without_hard_links_no_file_is_replaced(tmp_path, no_links):
    """Another program creates a file with the name of the backup while the backup is written."""
    path = tmp_path / "backup"

    with pytest.raises(BackupError, match="backup exists"), file.create(path):
        path.write_text("of another program")

    assert path.read_text() == "of another program"
    assert list(tmp_path.iterdir()) == [path]


def test_without_hard_links_a_failed_rename_leaves_nothing(tmp_path, no_links, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "replace", refuse)

    with pytest.raises(OSError, match="Input/output"), file.create(tmp_path / "backup"):
        pass

    assert list(tmp_path.iterdir()) == []


def test_an_empty_database_is_not_backed_up(empty_store, home, tmp_path):
    with pytest.raises(BackupError, match=r"is empty|no database"):
        back_up(home, tmp_path / "backup")

    assert not (tmp_path / "backup").exists()


def truncate(content):
    return content[: len(content) // 2]


def change_a_byte(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGES = {
    "cut": (truncate, "damaged or incomplete"),
    "last byte": (lambda content: content[:-1], "damaged or incomplete"),
    "first bytes": (lambda content: content[:20], "damaged or incomplete"),
    "one bit": (change_a_byte, "damaged or incomplete"),
    "longer": (lambda content: content + b"x", "damaged or incomplete"),
    "empty": (lambda _: b"", "is no backup"),
    "another file": (lambda _: b"SQLite format 3\0", "is no backup"),
}


def test_a_damaged_backup_is_refused_and_nothing_is_changed(filled, home, new_home, tmp_path):
    """One test for all kinds of damage: to create a database takes longer than all of them."""
    content = back_up(home, tmp_path / "backup").read_bytes()
    for name, (damage, text) in DAMAGES.items():
        path = tmp_path / name
        path.write_bytes(damage(content))

        with pytest.raises(BackupError, match=text) as raised, restored(path, new_home):
            pass

        assert "\n" not in str(raised.value)
        assert not new_home.exists()
    if SERVER:
        with connection():
            assert db.get_tables() == []


def test_a_data_folder_or_database_in_use_is_refused(filled, home, tmp_path):
    path = back_up(home, tmp_path / "backup")

    with pytest.raises(BackupError, match="in use"), restored(path, home):
        pass

    open_store(get_url(home), home)
    assert read_all_rows() == filled


@pytest.mark.skipif(bool(SERVER), reason="about files of SQLite")
@pytest.mark.parametrize("name", ["tocsin.db", "tocsin.db-wal", "credentials.json"])
def test_a_folder_with_remains_of_an_installation_is_refused(filled, home, new_home, tmp_path, name):
    path = back_up(home, tmp_path / "backup")
    new_home.mkdir(mode=0o700)
    (new_home / name).write_text("x")

    with pytest.raises(BackupError, match=name), restored(path, new_home):
        pass

    assert [each.name for each in new_home.iterdir()] == [name]


def test_a_backup_of_a_later_version_is_refused(filled, home, new_home, tmp_path):
    path = tmp_path / "backup"
    with file.create(path) as writer:
        writer.write_header(Header(store().name, "9.9", "2026-03-04", ("0001_initial", "9999_later")))
    db.close_all()

    with pytest.raises(SchemaUnknown, match=r"9999_later.*Tocsin 9\.9 or later"), restored(path, new_home):
        pass

    assert not new_home.exists()


def test_a_backup_of_the_other_store_with_an_older_schema_is_refused(filled, home, new_home, tmp_path):
    path = tmp_path / "backup"
    with file.create(path) as writer:
        writer.write_header(Header("sqlite" if SERVER else "postgresql", "1.2.3", "2026-03-04", ()))
    db.close_all()

    with pytest.raises(BackupError, match="is of another store and has not 0001"), restored(path, new_home):
        pass


@pytest.mark.skipif(not SERVER, reason="needs both stores")
def test_all_rows_are_restored_into_the_other_store_and_back(filled, home, new_home, tmp_path):
    with connection(), store().write_transaction():
        db.execute_sql("update account set name = %s", ("a\tb\\n\nc\\ \\N €",))
    before = read_all_rows()
    to_sqlite = back_up(home, tmp_path / "of_postgresql")
    lite = tmp_path / "lite"
    with backup.restore(to_sqlite, "", lite):
        pass
    back = tmp_path / "of_sqlite"
    backup.back_up(back, "", lite, "1.2.3")
    db.close_all()

    with restored(back, new_home):
        after = read_all_rows()
        with connection(), store().write_transaction():
            newest = db.execute_sql("select max(id) from receipt").fetchone()[0]
            assert db.execute_sql("select nextval('receipt_id_seq')").fetchone()[0] > newest

    for rows in (before, after):
        rows.pop("schema_migration")
    assert after == before
    assert all(before.values())


@pytest.mark.parametrize(
    ("cell", "type_", "value"),
    [
        (r"a\tb\\c\nd", "TEXT", "a\tb\\c\nd"),
        (r"\N", "TEXT", None),
        ("t", "INTEGER", 1),
        ("f", "INTEGER", 0),
        ("-12", "INTEGER", -12),
        ("2026-03-04 13:00:00.5+01", "TIMESTAMPTZ", "2026-03-04 12:00:00.500000"),
        ("2026-03-04 12:00:00+00", "TIMESTAMPTZ", "2026-03-04 12:00:00.000000"),
        (r"\\x00ff", "BLOB", b"\x00\xff"),
    ],
)
def test_a_value_of_postgresql_becomes_one_of_sqlite(cell, type_, value):
    # Blocks end anywhere.
    blocks = [bytes([byte]) for byte in f"{cell}\n".encode()]

    assert list(other_store.read_copied(blocks, [type_])) == [[value]]


@pytest.mark.skipif(not SERVER, reason="about a database with an empty schema")
def test_a_database_with_a_later_schema_is_refused(filled, home, new_home, tmp_path, next_version):
    path = back_up(home, tmp_path / "backup")
    next_version()
    open_store(get_url(new_home), new_home)
    migrate.migrate(new_home)
    db.close_all()

    with pytest.raises(BackupError, match="the backup is older"), restored(path, new_home):
        pass


@pytest.mark.skipif(not SERVER, reason="about other sessions of PostgreSQL")
def test_a_database_with_a_connected_process_is_refused(filled, home, new_home, tmp_path):
    path = back_up(home, tmp_path / "backup")
    with (
        psycopg.connect(get_url(new_home), application_name="tocsin"),
        pytest.raises(BackupError, match="stop them first"),
        restored(path, new_home),
    ):
        pass


def test_a_restore_that_fails_leaves_nothing(filled, home, new_home, tmp_path):
    path = back_up(home, tmp_path / "backup")
    if url := get_url(new_home):
        open_store(url, new_home)

    with pytest.raises(ZeroDivisionError), backup.restore(path, url, new_home):
        raise ZeroDivisionError

    if SERVER:
        with connection():
            assert db.get_tables() == []
    else:
        assert list(new_home.iterdir()) == []
