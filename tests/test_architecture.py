"""Who may import whom (docs/design.md, section 4), read from the imports of every module."""

import ast
import re
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# From top to bottom. A package imports packages below it only; those of one layer do not import each other.
LAYERS = (("tocsin",), ("web", "workers"), ("pipeline",), ("schedules",), ("models",), ("runtime",))
PACKAGES = [package for layer in LAYERS for package in layer]
LAYER_OF = {package: number for number, layer in enumerate(LAYERS) for package in layer}

# A web process enqueues; nothing else of workers is imported there.
ENQUEUE = "workers.queue"

# Pure code decides; it does no I/O, reads no clock and knows no framework.
PURE = ("models.domain", "pipeline", "schedules")
# The process that runs periodic jobs stands in schedules, but is a shell.
CLOCK_PROCESS = "schedules.clock_process"
# What pure code may import of others: JSON Logic and patterns for conditions, a typed decoder for bodies and
# the base of values, and the check of a signature.
PURE_LIBRARIES = {
    "models.domain.values": {"msgspec"},
    "pipeline.rules": {"datalogic_py", "re2", "msgspec"},
    "pipeline.sources": {"msgspec"},
    "pipeline.sources.native.cloud.sns": {"cryptography"},
}
CLOCKS = ("datetime.now(", "utcnow(", "time.time(", "monotonic(", "date.today(")

MAX_MODULES_IN_A_FOLDER = 18
MAX_POSITIONAL_PARAMETERS = 9


@cache
def list_modules() -> dict[str, Path]:
    """Return the path of each module of the product, by its dotted name."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths)
    return {name.removesuffix(".__init__"): path for name, path in zip(names, paths, strict=True)}


@cache
def list_imports(module: str) -> frozenset[str]:
    """Return the modules that a module imports, also within functions; of others' packages the first name."""
    found = set()
    for node in ast.walk(ast.parse(list_modules()[module].read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            members = {f"{node.module}.{name.name}" for name in node.names}
            found |= {name if name in list_modules() else node.module for name in members}
    return frozenset(name if get_package(name) in PACKAGES else get_package(name) for name in found)


def get_package(module: str) -> str:
    return module.partition(".")[0]


def get_subpackage(module: str) -> str:
    """Return the package of a module; a module that stands directly in a layer's folder counts by itself."""
    if list_modules()[module].name == "__init__.py" or module.count(".") == 1:
        return module
    return module.rpartition(".")[0]


def is_inside(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def is_pure(module: str) -> bool:
    return is_inside(module, *PURE) and module != CLOCK_PROCESS


def find_imports(allowed: "Rule") -> list[str]:
    """Return each import of one of our modules by another that the rule does not allow, as text."""
    return [
        f"{module} imports {name}"
        for module in list_modules()
        for name in sorted(list_imports(module))
        if name in list_modules() and not allowed(module, name)
    ]


Rule = type(is_pure)


def test_packages_import_only_packages_of_lower_layers():
    def is_downwards(module: str, name: str) -> bool:
        above, below = get_package(module), get_package(name)
        return above == below or LAYER_OF[above] < LAYER_OF[below] or (above, name) == ("web", ENQUEUE)

    assert find_imports(is_downwards) == []


def test_the_packages_of_a_layer_are_independent_but_for_enqueueing():
    def is_allowed(module: str, name: str) -> bool:
        return {get_package(module), get_package(name)} != {"web", "workers"} or name == ENQUEUE

    assert find_imports(is_allowed) == []


def test_pure_code_imports_only_pure_code_of_ours():
    assert find_imports(lambda module, name: not is_pure(module) or is_pure(name)) == []


def test_pure_code_imports_no_library_but_those_for_conditions_and_bodies():
    found = [
        f"{module} imports {name}"
        for module in filter(is_pure, list_modules())
        for name in list_imports(module)
        if name not in list_modules() and name not in sys.stdlib_module_names
        if not any(is_inside(module, place) and name in names for place, names in PURE_LIBRARIES.items())
    ]

    assert found == []


@pytest.mark.parametrize("clock", CLOCKS)
def test_pure_code_reads_no_clock(clock):
    found = [name for name in filter(is_pure, list_modules()) if clock in list_modules()[name].read_text()]

    assert found == []


def test_the_vocabulary_of_decisions_imports_nothing_else():
    def is_allowed(module: str, name: str) -> bool:
        return not is_inside(module, "models.domain") or is_inside(name, "models.domain")

    assert find_imports(is_allowed) == []


def test_only_models_know_how_to_talk_to_a_database():
    drivers = {"psycopg", "playhouse", "sqlite3"}

    found = {module for module in list_modules() if drivers & list_imports(module)}

    assert all(is_inside(module, "models") for module in found)


def test_only_one_module_knows_the_server():
    found = {module for module in list_modules() if "granian" in list_imports(module)}

    assert found == {"tocsin.server.granian_worker"}


def test_only_web_knows_the_web_framework():
    found = {
        module for module in list_modules() if {"flask", "werkzeug", "marshmallow"} & list_imports(module)
    }

    assert {get_package(module) for module in found} == {"web"}


def test_only_workers_know_the_queue_library():
    found = {module for module in list_modules() if "dramatiq" in list_imports(module)}

    assert {get_package(module) for module in found} == {"workers"}


# What reads or writes rows, when it is called on a table.
QUERIES = {
    "select", "get", "get_or_none", "get_by_id", "insert", "insert_many", "create", "update", "delete",
}  # fmt: skip


def test_no_page_has_a_query_of_its_own():
    """Operations, resources, models/load and models/reports have them, so that each rule is in one place."""
    found = [
        f"{module} calls {node.func.value.id}.{node.func.attr}"
        for module, path in list_modules().items()
        if is_inside(module, "web.pages")
        for tree in [ast.parse(path.read_text())]
        for tables in [list_tables(tree)]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in tables
        and node.func.attr in QUERIES
    ]

    assert found == []
    assert [
        name for name in list_modules() if is_inside(name, "web.pages") and "peewee" in list_imports(name)
    ] == []


def list_tables(tree: ast.Module) -> set[str]:
    """Return the names that a module imports from the tables."""
    return {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("models.tables")
        for name in node.names
    }


def test_one_function_locks_and_changes_an_incident():
    """Timers and audits lock many at once. The answer of a responder changes a row of its own only."""
    found = {
        module for module, path in list_modules().items() if re.search(r"\block_incident\b", path.read_text())
    }

    assert found == {"models.load.lane", "models.write.change_incident", "web.incidents.responders"}


def test_no_function_has_too_many_positional_parameters():
    """More than these belong to a value, or are named in each call. Options of a command are keyword-only."""
    paths = [*list_modules().values(), *sorted((ROOT / "bench").rglob("*.py"))]
    found = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        and len(node.args.posonlyargs) + len(node.args.args) > MAX_POSITIONAL_PARAMETERS
    ]

    assert found == []


def test_no_folder_has_too_many_modules():
    folders: dict[Path, int] = {}
    for path in [*list_modules().values(), *(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]:
        folders[path.parent] = folders.get(path.parent, 0) + (path.name != "__init__.py")

    # The migrations are numbered steps. Nobody looks for one by its name.
    del folders[ROOT / "models/store/migrations"]
    assert {folder: count for folder, count in folders.items() if count > MAX_MODULES_IN_A_FOLDER} == {}


def test_no_packages_import_each_other_in_a_cycle():
    graph: dict[str, set[str]] = {}
    for module in list_modules():
        package = get_subpackage(module)
        imported = {get_subpackage(name) for name in list_imports(module) if name in list_modules()}
        graph.setdefault(package, set()).update(imported - {package})

    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        steps = pairwise(reversed(error.args[1]))
        pytest.fail(f"import cycle: {' and '.join(f'{above} imports {below}' for above, below in steps)}")


def test_no_test_module_imports_from_another():
    found = [
        f"{path.relative_to(ROOT)} imports {node.module}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and re.match(r"tests\..*\btest_", node.module or "")
    ]

    assert found == []
