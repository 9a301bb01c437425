"""Count the parameters and returns of the product whose annotation contains `Any`. The limit only falls.

A name for a type that contains `Any` counts like `Any`.
"""

import ast
import sys
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).parent.parent
PRODUCT = ("tocsin", "web", "workers", "pipeline", "schedules", "models", "runtime")
LIMIT = 250


def list_aliases(path: Path) -> set[str]:
    """Return the names that a module gives to types that contain `Any`."""
    assigned = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign)]
    return {
        target.id
        for node in assigned
        if "Any" in names(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def count(path: Path, loose: Collection[str] = ("Any",)) -> int:
    functions = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    annotations = [each.returns for each in functions]
    annotations += [arg.annotation for each in functions for arg in list_arguments(each.args)]
    return sum(not names(each).isdisjoint(loose) for each in annotations if each is not None)


def list_arguments(arguments: ast.arguments) -> list[ast.arg]:
    more = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more]


def names(annotation: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}


if __name__ == "__main__":
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    paths = [path for name in PRODUCT for path in sorted((root / name).rglob("*.py"))]
    loose = {"Any"}.union(*map(list_aliases, paths))
    counts = {path: count(path, loose) for path in paths}
    for path, number in sorted(counts.items(), key=lambda item: -item[1])[:10]:
        print(f"{number:4}  {path.relative_to(root)}")
    total = sum(counts.values())
    print(f"{total} parameters and returns are annotated with Any; at most {LIMIT} may be")
    sys.exit(total > LIMIT)
