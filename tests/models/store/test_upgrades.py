"""Every migration upgrades a filled database, and lets the previous version write until it is replaced.

The last one is made up, so that this is proven also while there is only one.
"""

import peewee
import pytest

from models.store import migrate
from tests.support.upgrades import NEXT, check_upgrade, copy_migrations

NAMES = sorted(path.stem for path in migrate.MIGRATIONS_DIR.glob("[0-9]*.py"))


@pytest.mark.parametrize("name", [*NAMES[1:], NEXT])
def test_a_migration_keeps_the_rows_and_the_previous_version_can_write(empty_store, home, tmp_path, name):
    home.mkdir(exist_ok=True)
    folder = copy_migrations(tmp_path / "migrations", "ALTER TABLE service ADD COLUMN next INTEGER")

    check_upgrade(folder, name)


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE service RENAME COLUMN summary TO description_text",
        "CREATE UNIQUE INDEX one_service ON service ((id * 0))",
        "DROP TABLE lease",
    ],
    ids=["a column is renamed", "a new demand on rows", "a table is dropped"],
)
def test_a_migration_under_which_the_previous_version_cannot_write_is_found(empty_store, home, tmp_path, sql):
    home.mkdir(exist_ok=True)
    folder = copy_migrations(tmp_path / "migrations", sql)

    with pytest.raises((AssertionError, peewee.DatabaseError)):
        check_upgrade(folder, NEXT)
