"""Only the two stores know which of them is open: whatever differs is a method or a property of Store."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("runtime", "models", "schedules", "pipeline", "workers", "web", "tocsin", "bench", "tests", ".ci")

NAMES = {"sqlite", "postgresql"}
CLASSES = {"SqliteStore", "PostgresStore", "SqliteDatabase", "PostgresqlDatabase"}
# Where the stores are defined and opened, by their names in settings and backups.
HOME = ("models/store/sqlite.py", "models/store/postgresql.py", "models/store/opening.py")
# Files that name the open store without a question, and why.
NAMING = {
    "bench/servers/plans.py": "a table of how to read what the planner of a store says",
    "tests/deploy/test_compose.py": "the server of the database is a host of this name",
    "tests/models/store/test_backup.py": "the header of a backup has the name",
}


def find_questions(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and text of what asks which store is open."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare():
                found = any(is_name(each) for each in (node.left, *node.comparators))
            case ast.MatchValue(value):
                found = is_name(value)
            case ast.Name(name) | ast.Attribute(attr=name) if name in CLASSES:
                found = True
            case ast.Attribute(ast.Call(func), "name"):
                found = ast.unparse(func).lower().endswith("store")
            case ast.Attribute(ast.Name(name) | ast.Attribute(attr=name), "name"):
                found = name.lower().endswith("store")
            case _:
                found = False
        if found:
            yield node.lineno, ast.unparse(node)


def is_name(node: ast.expr) -> bool:
    """Return whether an expression is the name of a store, or a list of such names."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(is_name, node.elts))
    return isinstance(node, ast.Constant) and node.value in NAMES


def test_nothing_asks_which_store_is_open():
    found = [
        f"{name}:{line}: {text}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if (name := str(path.relative_to(ROOT))) not in (*HOME, *NAMING)
        for line, text in find_questions(ast.parse(path.read_text()))
    ]

    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        'if store().name == "postgresql": ...',
        'rows = list(values) if "sqlite" != dialect else values',
        'if kind in ("postgresql", "mysql"): ...',
        "TABLE[get_store().name]",
        "TABLE[self.store.name]",
        "TABLE[empty_store.name]",
        "isinstance(db, peewee.PostgresqlDatabase)",
        "type(opened) is SqliteStore",
        'match kind:\n    case "sqlite": ...',
    ],
)
def test_a_question_is_found(source):
    assert list(find_questions(ast.parse(source)))


@pytest.mark.parametrize(
    "source", ["store().has_single_writer", 'open_store("postgresql://host/name", home)', "service.name"]
)
def test_a_named_property_is_no_question(source):
    assert not list(find_questions(ast.parse(source)))
