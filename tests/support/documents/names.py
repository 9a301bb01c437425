"""What the modules of the program define, and which names each of them uses, read from their source."""

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.documents.files import ROOT

# Decorators that do not register what they decorate. Any other one counts as a use.
PLAIN = {"abstractmethod", "cache", "cached_property", "classmethod", "contextmanager", "dataclass"} | {
    "lru_cache", "overload", "property", "staticmethod", "wraps",
}  # fmt: skip

Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign
Lines = defaultdict[str, list[int]]


@dataclass
class Module:
    """The names that a module uses, with their lines.

    `used` are names of other modules, as (module, name). `imported` is what stands behind imported names.
    `of_any_module` are attributes of modules whose names are texts.
    """

    name: str
    tree: ast.Module
    names: Lines = field(default_factory=lambda: defaultdict(list))
    attributes: Lines = field(default_factory=lambda: defaultdict(list))
    used: set[tuple[str, str]] = field(default_factory=set)
    imported: dict[str, str] = field(default_factory=dict)
    of_any_module: set[str] = field(default_factory=set)


def read_modules(folders: Collection[str], with_text: str = "") -> list[Module]:
    """Read the modules of these folders; `with_text`: only those that contain it."""
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    known = {_name_module(path) for path in paths}
    texts = {path: path.read_text() for path in paths}
    return [
        _read_module(Module(_name_module(path), ast.parse(text)), known)
        for path, text in texts.items()
        if with_text in text
    ]


def _name_module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _read_module(module: Module, known: set[str]) -> Module:
    nodes = list(ast.walk(module.tree))
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            module.used |= {(node.module or "", each.name) for each in node.names}
            module.imported |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
        elif isinstance(node, ast.Import):
            module.imported |= {each.asname or each.name.partition(".")[0]: each.name for each in node.names}
    for node in nodes:
        match node:
            case ast.Name(ctx=ast.Load()):
                module.names[node.id].append(node.lineno)
            case ast.Attribute():
                _read_attribute(module, node)
            case ast.Constant(value=str(text)):
                _read_text(module, text, node.lineno, known)
    return module


def _read_attribute(module: Module, node: ast.Attribute) -> None:
    module.attributes[node.attr].append(node.lineno)
    if isinstance(node.value, ast.Name) and node.value.id in module.imported:
        module.used.add((module.imported[node.value.id], node.attr))
    elif isinstance(node.value, ast.Call) and get_last_name(node.value) == "import_module":
        module.of_any_module.add(node.attr)


def _read_text(module: Module, text: str, line: int, known: set[str]) -> None:
    """Read names in a text: "pipeline.router:decide", code for another process, or a type."""
    words = re.findall(r"\w+", text)
    for dotted in re.findall(r"[\w.]+(?=[:. ])", text):
        if dotted in known:
            module.used |= {(dotted, word) for word in words}
    if "[" in text:
        for word in words:
            module.names[word].append(line)


def get_last_name(node: ast.expr) -> str:
    """Return the last name of a decorator or a base: "actor" of dramatiq.actor(...)."""
    match node:
        case ast.Subscript(value=inner) | ast.Call(func=inner):
            return get_last_name(inner)
        case ast.Attribute():
            return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def list_defined(body: list[ast.stmt]) -> Iterator[tuple[str, Definition]]:
    """Yield the functions, classes and constants of a module or class, if no decorator registers them."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                if PLAIN.issuperset(map(get_last_name, node.decorator_list)):
                    yield node.name, node
            case ast.Assign() | ast.AnnAssign():
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    names = (each for each in ast.walk(target) if isinstance(each, ast.Name))
                    yield from ((each.id, node) for each in names if isinstance(each.ctx, ast.Store))


def is_named(lines: list[int], outside: Definition) -> bool:
    """Return whether one of the lines stands outside of a definition."""
    return any(not outside.lineno <= line <= (outside.end_lineno or 0) for line in lines)
