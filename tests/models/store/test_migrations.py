"""The migrations create exactly the schema that the models declare."""

import pytest
from playhouse.schema_diff import diff_models

from models.store.base import connection, db
from models.store.migrate import list_pending, migrate
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
