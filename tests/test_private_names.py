"""Names that a library does not declare are used in one file, and docs/upgrading-dependencies.md has them."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("runtime", "models", "schedules", "pipeline", "workers", "web", "tocsin", "bench", "tests", ".ci")
PAGE = ROOT / "docs/upgrading-dependencies.md"

# The file that may use private names of a library.
HOMES = {
    "peewee": "models/store/peewee_internals.py",
    "psycopg": "models/store/psycopg_internals.py",
    "granian": "tocsin/server/granian_worker.py",
    "prometheus_client": "runtime/metrics_folder.py",
}
# The packages of a library, if not one of its name.
PACKAGES = {"peewee": ("peewee", "playhouse")}
LIBRARY_OF = {package: library for library in HOMES for package in PACKAGES.get(library, (library,))}
# Names without a mark that the documents of the library do not have either.
UNDECLARED = {
    "peewee": {"__data__", "__exception_wrapper__"},
    "granian": {"CallbackScheduler", "RSGIWorker", "SocketHolder", "WorkerSignal", "_granian"},
    "prometheus_client": {
        "MmapedDict",
        "MultiProcessValue",
        "MutexValue",
        "ValueClass",
        "mmap_dict",
    },
}
# Of named tuples: the standard library declares them.
DECLARED = {"_asdict", "_fields", "_make", "_replace"}
# What store() returns, so that a test may look into it.
STORES = {f"models.store.{name}" for name in ("sqlite", "postgresql", "postgresql_pool", "write_lock")}
# Functions whose second argument is the name of an attribute.
BY_NAME = {"getattr", "hasattr", "setattr", "delattr"}
# Names of the standard library that a library has too.
OTHERS = {
    ("tests/web/ingest/test_large_bodies.py", "_value"): "of a semaphore",
    ("tests/workers/test_actors.py", "_value"): "of a semaphore",
}

WORD = re.compile(r"\b_[A-Za-z]\w*")
# Where a file gives a name to something of its own.
OWN = re.compile(
    r"(?:\b(?:def|class) |(?:^ *|, )(?:self\.|cls\.)?)(_[A-Za-z]\w*)(?=\(|\[|:| [-+|]?= |, )", re.MULTILINE
)
LIBRARY = re.compile(rf"(import|from) ({'|'.join(LIBRARY_OF)})\b")


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def list_files() -> list[Path]:
    return [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name != "_" and name not in DECLARED


@cache
def list_private_names(library: str) -> frozenset[str]:
    """Return the private names of a library: all that stand in its source, and the undeclared ones."""
    found = set(UNDECLARED.get(library, ()))
    for package in PACKAGES.get(library, (library,)):
        origin = Path(find_spec(package).origin)
        for path in origin.parent.rglob("*.py") if origin.name == "__init__.py" else [origin]:
            found |= {name for name in WORD.findall(path.read_text()) if is_private(name)}
    return frozenset(found)


def find_library(module: str | None) -> str | None:
    return LIBRARY_OF.get((module or "").partition(".")[0])


@cache
def list_own_names(path: Path) -> frozenset[str]:
    """Return the private names that a file gives to functions, classes, variables and its own attributes."""
    return frozenset(OWN.findall(path.read_text()))


def list_imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each module that a file imports, with the name by which it knows it or its member."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((each.name, each.asname or each.name.partition(".")[0]) for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                yield node.module, each.asname or each.name
                yield f"{node.module}.{each.name}", each.asname or each.name


def list_known_names(path: Path, tree: ast.Module) -> set[str]:
    """Return the private names of this file and of the files of ours that it imports."""
    found = set(list_own_names(path)) if path.exists() else set()
    modules = {module for module, _ in list_imported(tree)}
    for module in modules | (STORES if "models.store.store" in modules else set()):
        imported = ROOT / f"{module.replace('.', '/')}.py"
        if imported.is_file():
            found |= list_own_names(imported)
    return found


def find_private_names(path: Path, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the library and the name of each use of a private name of a library."""
    known = list_known_names(path, tree)
    bases = {name: find_library(module) for module, name in list_imported(tree) if find_library(module)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Attribute | ast.Call | ast.ClassDef):
            for library in HOMES:
                yield from ((library, name) for name in _list_names(node, library, bases, known))


def _list_names(node: ast.AST, library: str, bases: dict[str, str | None], known: set[str]) -> Iterator[str]:
    private = list_private_names(library)
    match node:
        case ast.ImportFrom(module, names) if find_library(module) == library:
            words = [*str(module).split("."), *(each.name for each in names)]
            yield from (word for word in words if word in private)
        case ast.Attribute(ast.Name("os"), "_exit"):
            pass
        case ast.Attribute(attr=name) if name in private and name not in known:
            # Words without a mark are names of other things elsewhere.
            if not name[0].isalpha() or library in bases.values():
                yield name
        case ast.Call(func, [_, ast.Constant(str(name)), *_]) if name in private and name not in known:
            if ast.unparse(func).rpartition(".")[2] in BY_NAME:
                yield name
        case ast.ClassDef(bases=parents):
            # A subclass can extend what it knows only by looking into the source.
            first_words = [re.match(r"\w+", ast.unparse(each)).group() for each in parents]
            if library in [bases.get(word) for word in first_words]:
                methods = [each.name for each in node.body if isinstance(each, ast.FunctionDef)]
                yield from (name for name in methods if name in private)


def may_use(path: Path) -> bool:
    """Return whether it is worth the time to parse a file: it imports a library, or has a name of one."""
    text = path.read_text()
    names = {*WORD.findall(text)} - list_own_names(path)
    return bool(LIBRARY.search(text)) or any(not names.isdisjoint(list_private_names(each)) for each in HOMES)


@cache
def list_used() -> set[tuple[str, str, str]]:
    """Return the library, the name and the file of each use of a private name in our code."""
    return {
        (library, name, file)
        for path in list_files()
        if (file := str(path.relative_to(ROOT))) != "tests/test_private_names.py" and may_use(path)
        for library, name in find_private_names(path, parse(path))
        if (file, name) not in OTHERS
    }


def test_private_names_of_a_library_are_used_in_one_file():
    found = [
        f"{file} uses {name} of {library}" for library, name, file in list_used() if file != HOMES[library]
    ]

    assert sorted(found) == []


def read_rows() -> dict[str, dict[str, str]]:
    """Return the test of each name by library, from the tables of the page."""
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    rows = {section.partition("\n")[0]: section.splitlines() for section in sections}
    return {
        library: {
            name: row.rpartition("| ")[2]
            for row in lines
            if row.startswith("| `")
            for name in re.findall(r"`([^`]+)`", row.split("|")[1])
        }
        for library, lines in rows.items()
        if library in HOMES
    }


@pytest.mark.parametrize("library", HOMES)
def test_the_page_lists_each_private_name_and_no_other(library):
    used = {name for each, name, _ in list_used() if each == library}

    assert set(read_rows()[library]) == used


def test_the_page_names_tests_that_exist():
    for rows in read_rows().values():
        for cell in rows.values():
            path, name = re.search(r"`(tests/[\w/]+\.py)`, `(test_\w+)`", cell).groups()
            assert f"def {name}(" in (ROOT / path).read_text()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("Event._meta.table_name", ("peewee", "_meta")),
        ("from granian import _granian", ("granian", "_granian")),
        ("from psycopg.errors import _WaitTimeout", ("psycopg", "_WaitTimeout")),
        ("getattr(query, '_returning', None)", ("peewee", "_returning")),
        ("row.__data__", ("peewee", "__data__")),
        ("monkeypatch.setattr(db, '_adapter', None)", ("peewee", "_adapter")),
        ("class Pool(playhouse.pool.PooledDatabase):\n    def _close(self): ...", ("peewee", "_close")),
        ("from prometheus_client.mmap_dict import MmapedDict", ("prometheus_client", "MmapedDict")),
    ],
)
def test_a_private_name_is_found(source, found):
    source = f"import playhouse.pool, peewee\n{source}"

    assert found in set(find_private_names(Path("none.py"), ast.parse(source)))
