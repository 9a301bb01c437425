"""Functions, classes, constants and methods that the program does not use are gone.

A function of a module counts as used if another module imports it or names it beside its module. A method
counts as used if there is any attribute of its name: so only what surely nobody uses is found.
"""

import ast
from collections.abc import Iterator

from tests.support.documents.names import Module, get_last_name, is_named, list_defined, read_modules

PACKAGES = ("web", "models", "pipeline", "schedules", "workers", "runtime", "tocsin", "bench")

# A library may call the methods of a class that is derived from one of its own, except from these.
HARMLESS_BASES = {"ABC", "Enum", "Generic", "IntEnum", "NamedTuple", "Protocol", "StrEnum", "Struct"}

BETWEEN_TESTS = "tests empty what a process keeps"
ONE_FILE = "tests ask; private names of peewee are in this file"
EXCEPTIONS = {
    "models.store.migrate.list_pending": "tests ask what a database lacks",
    "models.store.peewee_internals.count_used_connections": ONE_FILE,
    "models.store.migrations.0001_initial.up": "the runner of migrations calls it",
    "tocsin.server.granian_worker._Loop.call_soon": "granian calls it",
    "web.oncall.calendar_cache.clear": BETWEEN_TESTS,
    "web.pages.clients.clear": BETWEEN_TESTS,
    "workers.alerts.amazon.clear": BETWEEN_TESTS,
    "workers.alerts.pieces.clear": BETWEEN_TESTS,
    "workers.config_cache.clear": BETWEEN_TESTS,
    "workers.delivery.replies.send_reply": "an actor, which the broker calls",
    "workers.main.ACTORS": "the imports of all modules that declare actors",
}

Classes = dict[str, tuple[Module, ast.ClassDef]]


def test_every_name_is_used_by_the_program():
    """What only tests use of bench counts as used, because they measure with it."""
    modules = read_modules(PACKAGES)
    users = [*modules, *read_modules([".ci"])]
    tests = read_modules(["tests"], with_text="bench")

    found = {*_list_unused(modules, users, tests), *_list_unused_methods(modules, users, tests)}

    assert sorted(found - set(EXCEPTIONS)) == []
    assert sorted(set(EXCEPTIONS) - found) == []


def _list_unused(modules: list[Module], users: list[Module], tests: list[Module]) -> Iterator[str]:
    used = {name for module in users for name in module.used}
    used |= {(owner, name) for module in tests for owner, name in module.used if owner.startswith("bench.")}
    of_any_module = {name for module in users for name in module.of_any_module}
    for module in modules:
        defined = list(list_defined(module.tree.body))
        inside = {name for name, node in defined if is_named(module.names[name], node)}
        exports = (ast.literal_eval(node.value) for name, node in defined if name == "__all__")
        names = {name for name, _ in defined if not name.startswith("__")} - inside
        for name in names.union(*exports) - of_any_module:
            if (module.name, name) not in used:
                yield f"{module.name}.{name}"


def _list_unused_methods(modules: list[Module], users: list[Module], tests: list[Module]) -> Iterator[str]:
    classes: Classes = {
        f"{module.name}.{node.name}": (module, node)
        for module in modules
        for node in module.tree.body
        if isinstance(node, ast.ClassDef)
    }
    of_tests = {name for module in tests for name in module.attributes}
    for owner, (module, node) in classes.items():
        if _has_foreign_base(module, node, classes):
            continue
        for name, method in list_defined(node.body):
            if not isinstance(method, ast.FunctionDef) or name.startswith("__"):
                continue
            is_used = is_named(module.attributes[name], method) or any(
                name in each.attributes for each in users if each.name != module.name
            )
            if not is_used and not (owner.startswith("bench.") and name in of_tests):
                yield f"{owner}.{name}"


def _has_foreign_base(module: Module, node: ast.ClassDef, classes: Classes) -> bool:
    """Return whether a class is derived from a class of a library, directly or not."""
    for base in node.bases:
        name = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
        first, _, rest = name.partition(".")
        full = ".".join(filter(None, (module.imported.get(first, f"{module.name}.{first}"), rest)))
        if get_last_name(base) in HARMLESS_BASES:
            continue
        if full not in classes or _has_foreign_base(*classes[full], classes):
            return True
    return False
