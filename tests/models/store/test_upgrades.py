"""Every migration upgrades a filled database, and lets the previous version write until it is replaced."""

import shutil

import peewee
import pytest
from playhouse.migrations import Runner

from models.store import migrate
from models.store.base import connection, db, store
from models.tables.accounts import RateLimit, User
from models.tables.users import ContactMethod
from tests.support.upgrades import ROWS, check_upgrade, fill, list_tables

NAMES = sorted(path.stem for path in migrate.MIGRATIONS_DIR.glob("[0-9]*.py"))


@pytest.fixture
def folder(tmp_path):
    """The migrations, to which a test may add one."""
    copied = tmp_path / "migrations"
    shutil.copytree(migrate.MIGRATIONS_DIR, copied, ignore=shutil.ignore_patterns("__pycache__"))
    return copied


def add_migration(folder, sql):
    (folder / "9999_next.py").write_text(f"def up(migrator, db):\n    db.execute_sql({sql!r})\n")
    return "9999_next"


def test_the_newest_migration_keeps_the_rows_and_the_previous_version_can_write(empty_store, home, folder):
    home.mkdir(exist_ok=True)
    name = NAMES[-1]
    if name == "0001_initial":
        name = add_migration(folder, "ALTER TABLE service ADD COLUMN next INTEGER")

    check_upgrade(folder, name)


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE service RENAME COLUMN summary TO description_text",
        "CREATE UNIQUE INDEX one_service ON service ((id * 0))",
        "DROP TABLE sample",
    ],
    ids=["a column is renamed", "a new demand on rows", "a table is dropped"],
)
def test_a_migration_under_which_the_previous_version_cannot_write_is_found(empty_store, home, folder, sql):
    home.mkdir(exist_ok=True)

    with pytest.raises((AssertionError, peewee.DatabaseError)):
        check_upgrade(folder, add_migration(folder, sql))


def test_addresses_that_exist_at_the_upgrade_are_verified(empty_store, home):
    home.mkdir(exist_ok=True)
    with connection():
        Runner(db.obj, str(migrate.MIGRATIONS_DIR)).up(target="0004_alternate_address")
        with store().write_transaction():
            fill(list_tables(), first=1)

        migrate.migrate(home)

        assert User.select().where(User.verified_email == User.email).count() == ROWS
        contacts = ContactMethod.select().where(ContactMethod.verified_value == ContactMethod.value)
        assert contacts.count() == ROWS


def test_a_contact_with_the_verified_own_address_is_verified_after_the_upgrade(empty_store, home):
    """The first one; the address of the second person is not verified, and the third contact is no e-mail."""
    home.mkdir(exist_ok=True)
    before = NAMES[NAMES.index("0012_requested_addresses") - 1]
    with connection():
        Runner(db.obj, str(migrate.MIGRATIONS_DIR)).up(target=before)
        with store().write_transaction():
            fill(list_tables(), first=1)
        db.execute_sql("UPDATE \"user\" SET email = 'a@example.org', verified_email = 'A@example.org'")
        db.execute_sql('UPDATE "user" SET verified_email = NULL WHERE id = 2')
        db.execute_sql(
            "UPDATE contact_method SET value = 'a@Example.org', verified_value = NULL, contact_type = 1"
        )
        db.execute_sql("UPDATE contact_method SET contact_type = 2 WHERE id = 3")

        migrate.migrate(home)

        verified = {row.id: row.verified_value for row in ContactMethod.select()}
        assert verified == {1: "a@Example.org", 2: None, 3: None}
        assert RateLimit.select().where(RateLimit.used_at.is_null()).count() == 0


@pytest.mark.parametrize("name", NAMES[1:])
def test_the_previous_version_can_write_after_each_migration(empty_store, home, folder, name):
    home.mkdir(exist_ok=True)

    check_upgrade(folder, name)


def test_a_timer_that_had_fired_once_by_its_words_has_fired_by_its_column(empty_store, home):
    home.mkdir(exist_ok=True)
    with connection():
        Runner(db.obj, str(migrate.MIGRATIONS_DIR)).up(target="0001_initial")
        with store().write_transaction():
            fill(list_tables(), first=1)
        db.execute_sql("UPDATE timer SET outcome = 'done once: 1 notified' WHERE id = 1")
        db.execute_sql("UPDATE timer SET outcome = 'triggered again' WHERE id = 2")

        migrate.migrate(home)

        fired = dict(db.execute_sql("SELECT id, fired FROM timer WHERE id IN (1, 2)").fetchall())
    assert fired == {1: True, 2: False}
