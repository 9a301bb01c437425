"""Upgrade a filled database by one migration while the previous version goes on writing.

The rows are made from the schema itself, so that this holds for every migration of the future.
"""

import shutil
from pathlib import Path
from typing import Any

import peewee
from playhouse.migrations import Runner

from models.store import migrate
from models.store.peewee_internals import get_table_name, list_references
from models.store.store import connection, db, store
from tests.support.stores import TABLES

NOT_OURS = {"schema_migration", "sqlite_sequence"}
ROWS = 3
# A migration of the next version, which no version has.
NEXT = "9999_next"

Row = dict[str, Any]


def copy_migrations(folder: Path, sql: str) -> Path:
    """Create a folder with the migrations and one more, NEXT, which executes this statement."""
    shutil.copytree(migrate.MIGRATIONS_DIR, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / f"{NEXT}.py").write_text(f"def up(migrator, db):\n    db.execute_sql({sql!r})\n")
    return folder


def check_upgrade(folder: Path, name: str) -> None:
    """Apply the migrations of a folder before `name`, fill every table, apply `name`, and write once more as
    the previous version does. AssertionError or a database error says what an operator would meet."""
    with connection():
        names = [each.name for each in Runner(db.obj, str(folder)).migrations()]
        Runner(db.obj, str(folder)).up(target=names[names.index(name) - 1])
        tables = list_tables()
        with store().write_transaction():
            fill(tables, first=1)
        before = count_rows(tables)

        Runner(db.obj, str(folder)).up(target=name)

        assert count_rows(tables) == before
        with store().write_transaction():
            fill(tables, first=ROWS + 1)
        assert count_rows(tables) == {table: 2 * count for table, count in before.items()}


def list_tables() -> dict[str, list[Any]]:
    """Return the columns of each table; a table stands behind the tables that it refers to."""
    tables = {name: db.get_columns(name) for name in sorted(db.get_tables()) if name not in NOT_OURS}
    needs = {name: {key.dest_table for key in db.get_foreign_keys(name)} - {name} for name in tables}
    # Not every reference is a foreign key of the database (decision 0094).
    for model in TABLES:
        name = get_table_name(model)
        targets = {get_table_name(field.rel_model) for field in list_references(model)}
        if name in needs:
            needs[name] |= (targets & tables.keys()) - {name}
    ordered: dict[str, list[Any]] = {}
    while len(ordered) < len(tables):
        ready = [name for name in tables if name not in ordered and needs[name] <= ordered.keys()]
        assert ready, "tables refer to each other in a circle"
        ordered.update({name: tables[name] for name in ready})
    return ordered


def fill(tables: dict[str, list[Any]], first: int) -> None:
    """Insert rows with the columns that the previous version knows."""
    for table, columns in tables.items():
        keys = {key.column for key in db.get_foreign_keys(table)}
        for number in range(first, first + ROWS):
            row = {
                column.name: number if column.name in keys else make_value(column, number)
                for column in columns
                if not column.primary_key
            }
            names = ", ".join(f'"{name}"' for name in row)
            marks = ", ".join([db.param] * len(row))
            db.execute_sql(f'insert into "{table}" ({names}) values ({marks})', list(row.values()))


def make_value(column: Any, number: int) -> Any:
    """Return a value of the column's type, another one for each row."""
    kind = column.data_type.lower()
    if "bool" in kind:
        return False
    if "int" in kind or "double" in kind or "real" in kind or "float" in kind:
        return number
    if "timestamp" in kind or "date" in kind:
        return f"2026-03-04 12:00:{number:02}.000000+00:00"
    if "bytea" in kind or "blob" in kind:
        return peewee.Value(b"{}", converter=False).value
    if "json" in kind:
        return "{}"
    return f"{number:05}"


def count_rows(tables: dict[str, list[Any]]) -> dict[str, int]:
    return {table: db.execute_sql(f'select count(*) from "{table}"').fetchone()[0] for table in tables}
