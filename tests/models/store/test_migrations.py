"""The migrations create exactly the schema that the models declare."""

import peewee
import pytest
from playhouse.schema_diff import diff_models

from models.store.migrate import list_pending, migrate
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
