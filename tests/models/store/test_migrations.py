"""The migrations create exactly the schema that the models declare."""

import peewee
import pytest
from playhouse.schema_diff import diff_models

from models.store.migrate import SchemaUnknown, list_pending, migrate, require_schema
from models.store.peewee_internals import list_fields
from models.store.store import connection, db
from tests.support.stores import TABLES


@pytest.fixture
def migrated_store(empty_store, tmp_path):
    migrate(tmp_path)


def test_the_schema_after_all_migrations_equals_the_models(migrated_store):
    with connection():
        assert str(diff_models(db.obj, TABLES)) == ""


def test_a_second_migration_run_does_nothing(migrated_store, tmp_path):
    assert list_pending() == []
    assert migrate(tmp_path) == []


def test_a_column_has_the_name_of_its_field():
    for table in TABLES:
        for field in list_fields(table):
            suffix = "_id" if isinstance(field, peewee.ForeignKeyField) else ""
            assert field.column_name == f"{field.name}{suffix}", table


@pytest.mark.parametrize(
    "change",
    [
        "alter table team add column color varchar(9)",
        "alter table secret rename column value to content",
        "drop table change",
    ],
)
def test_a_database_of_before_the_first_release_is_refused_in_one_sentence(migrated_store, tmp_path, change):
    """Its 0001_initial has the same name, but another schema."""
    with connection():
        db.execute_sql(change)

    for use in (require_schema, list_pending, lambda: migrate(tmp_path)):
        with pytest.raises(SchemaUnknown, match=r"^the database was made before.*or use an empty database$"):
            use()


def test_a_database_with_the_migrations_of_before_the_first_release_is_refused(migrated_store):
    with connection():
        for number in range(2, 35):
            db.execute_sql(
                f"insert into schema_migration (name, applied) values ('{number:04d}_old', '2026-01-01')"
            )

    expected = r"^this program does not know 0002_old, 0003_old, 0004_old and 30 more, .* empty database$"
    with pytest.raises(SchemaUnknown, match=expected):
        require_schema()
