"""Change single places of decisions and writers, and count how many changes the tests find.

    make mutants                    100 mutants, with the tests of this folder: at most an hour on two cores
    make mutants OTHER=../before    the same mutants with the tests of another checkout too, to compare

In a mutant, one comparison, boolean operator, constant, result or statement is changed or removed. It runs
against the tests of its own folder, then tests/scenarios, until one fails. A mutant that takes much longer
than the unchanged code counts as killed, because it does not end. With OTHER, only functions are chosen that
both checkouts have, word for word; the module may have moved. Exit code 1: this checkout kills fewer.
"""

import argparse
import ast
import copy
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).parent.parent
MUTATED = ("pipeline", "schedules", "models/write")
# Where a function of the other checkout may be.
SEARCHED = (*MUTATED, "models", "workers")
# Writers have no tests of their own: these run alerts, timers and deliveries through them.
TESTS_OF = {
    "models/write": ("tests/pipeline/test_effects.py", "tests/workers/alerts", "tests/workers/timers")
}
LAST_TESTS = "tests/scenarios"
MARKS = "not processes and not faults and not siege and not wheel and not schemathesis"
# Compiled files and what needs no copy.
LEFT_OUT = (".git", ".venv", "__pycache__", "*.egg-info", "node_modules", ".*_cache")
# The limit of a mutant: so many times the time of the unchanged code, and this besides.
SLOWER, MORE_S = 3.0, 20.0

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Mutant:
    """One change of the node with this number, in the order of ast, in a function of a file."""

    path: str
    function: str
    line: int
    node: int
    option: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.function}: {self.what}"


def list_changes(node: ast.AST) -> list[tuple[str, ast.AST]]:
    """Return the changes of a node: what is done, and what stands there then."""
    if isinstance(node, ast.Compare):
        return [
            _change_comparison(node, place) for place, op in enumerate(node.ops) if type(op) in COMPARISONS
        ]
    if isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return [("and <-> or", ast.BoolOp(other, node.values))]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return [("without not", node.operand)]
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return [(f"{node.value} -> {node.value + step}", ast.Constant(node.value + step)) for step in (1, -1)]
    if isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
        return [("return None", ast.Return(ast.Constant(None)))]
    if isinstance(node, ast.AugAssign | ast.Raise) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and not _is_log(node.value)
    ):
        return [(f"without {ast.unparse(node)[:60]}", ast.Pass())]
    return []


def _change_comparison(node: ast.Compare, place: int) -> tuple[str, ast.AST]:
    changed = copy.deepcopy(node)
    changed.ops[place] = COMPARISONS[type(node.ops[place])]()
    return f"{ast.unparse(node)[:60]} -> {ast.unparse(changed)[:60]}", changed


def _is_log(call: ast.Call) -> bool:
    return ast.unparse(call.func).startswith(("log.", "logger.", "logging."))


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else super().visit(node)


def list_functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Yield the functions of a module and the methods of its classes, each with its name."""
    for node in tree.body:
        if isinstance(node, Function):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from (
                (f"{node.name}.{each.name}", each) for each in node.body if isinstance(each, Function)
            )


def list_mutants(path: str, known: set[tuple[str, str]] | None) -> Iterator[Mutant]:
    """Yield all mutants of a file; `known` has the functions of the other checkout, if there is one."""
    for name, function in list_functions(ast.parse((ROOT / path).read_text())):
        if known is not None and (name, ast.dump(function)) not in known:
            continue
        for number, node in enumerate(ast.walk(function)):
            for option, (what, _) in enumerate(list_changes(node)):
                yield Mutant(path, name, node.lineno, number, option, what)


def mutate(text: str, mutant: Mutant, function: Function) -> str:
    """Return a module with the mutant instead of this function of it."""
    changed = copy.deepcopy(function)
    node = list(ast.walk(changed))[mutant.node]
    _, new = list_changes(node)[mutant.option]
    written = ast.unparse(ast.fix_missing_locations(_Replace(node, new).visit(changed)))
    first = min([function.lineno, *(each.lineno for each in function.decorator_list)])
    lines = text.split("\n")
    indented = [" " * function.col_offset + line for line in written.split("\n")]
    return "\n".join([*lines[: first - 1], *indented, *lines[function.end_lineno :]])


def list_files(root: Path, folders: tuple[str, ...]) -> list[str]:
    found = {path for folder in folders for path in (root / folder).rglob("*.py")}
    return sorted(str(path.relative_to(root)) for path in found)


def read_functions(root: Path) -> dict[tuple[str, str], str]:
    """Return the files of the functions of a checkout, by their names and contents."""
    return {
        (name, ast.dump(function)): path
        for path in reversed(list_files(root, SEARCHED))
        for name, function in list_functions(ast.parse((root / path).read_text()))
    }


class Checkout:
    """A checkout whose copies run mutants, each in one thread."""

    def __init__(self, name: str, root: Path, folder: Path, jobs: int) -> None:
        self.name, self._root = name, root
        self._functions = read_functions(root)
        self._copies: Queue[Path] = Queue()
        for number in range(jobs):
            target = folder / f"{name}{number}"
            shutil.copytree(root, target, ignore=shutil.ignore_patterns(*LEFT_OUT))
            self._copies.put(target)
        # How long the tests take with the unchanged code, by their paths.
        self._needs: dict[str, float] = {}

    def find(self, mutant: Mutant) -> str:
        """Return the file of a mutant's function in this checkout."""
        functions = dict(list_functions(ast.parse((ROOT / mutant.path).read_text())))
        return self._functions[mutant.function, ast.dump(functions[mutant.function])]

    def list_tests(self, path: str) -> list[str]:
        """Return the tests for a file, the quickest first: those of its folder, then scenarios."""
        folder = Path(path).parent
        own = TESTS_OF.get(str(folder), ()) if not (self._root / "tests" / folder).exists() else ()
        while not own and not any((self._root / "tests" / folder).glob("**/test_*.py")):
            folder = folder.parent
        return [*(own or [f"tests/{folder}"]), LAST_TESTS]

    def measure(self, mutants: list[Mutant]) -> None:
        """Run the tests of these mutants with the unchanged code: they must pass."""
        home = self._copies.get()
        for tests in sorted({each for mutant in mutants for each in self.list_tests(self.find(mutant))}):
            began = time.monotonic()
            ended, output = run_tests(home, [tests], 1800)
            if ended != 0:
                sys.exit(f"{self.name}: {tests} fails without a mutant:\n{output[-2000:]}")
            self._needs[tests] = time.monotonic() - began
        self._copies.put(home)

    def kill(self, mutant: Mutant) -> str:
        """Return what finds a mutant; empty: nothing does."""
        path = self.find(mutant)
        home = self._copies.get()
        file, text = home / path, (self._root / path).read_text()
        function = dict(list_functions(ast.parse(text)))[mutant.function]
        try:
            write(file, mutate(text, mutant, function))
            module = f"test_{file.stem}.py"
            for tests in self.list_tests(path):
                first = sorted(str(each.relative_to(home)) for each in (home / tests).rglob(module))
                ended, output = run_tests(home, [*first, tests], self._needs[tests] * SLOWER + MORE_S)
                if ended is None:
                    return "does not end"
                if ended != 0:
                    lines = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
                    return lines[0].split(" - ")[0].partition(" ")[2] if lines else f"exit code {ended}"
            return ""
        finally:
            write(file, text)
            self._copies.put(home)


def write(file: Path, text: str) -> None:
    """Write a module. A compiled file of the same second and size would be used instead of it."""
    file.write_text(text)
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()


def run_tests(home: Path, tests: list[str], limit_s: float) -> tuple[int | None, str]:
    """Return the exit code of the tests, or None after the limit, and their output."""
    options = ["-x", "-q", "--no-header", "-n", "0", "-p", "no:cacheprovider", "-p", "no:rerunfailures"]
    if "processes: " in (home / "pyproject.toml").read_text():
        options += ["-m", MARKS]
    environment = {name: value for name, value in os.environ.items() if name != "TEST_DATABASE_URL"}
    started = subprocess.Popen(  # noqa: S603 - our own tests
        [sys.executable, "-m", "pytest", *options, *tests], cwd=home, env=environment, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = started.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        started.communicate()
        return None, ""
    return started.returncode, output


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--other", type=Path, help="another checkout, whose tests are compared")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60, help="start no more mutants after this time")
    return parser.parse_args()


def main() -> int:
    arguments = read_arguments()
    until = time.monotonic() + arguments.minutes * 60
    known = set(read_functions(arguments.other)) if arguments.other else None
    everything = [mutant for path in list_files(ROOT, MUTATED) for mutant in list_mutants(path, known)]
    # The seed makes the same sample again.
    mutants = random.Random(arguments.seed).sample(everything, arguments.count)  # noqa: S311
    print(f"{len(mutants)} of {len(everything)} mutants, seed {arguments.seed}", flush=True)

    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        roots = {"now": ROOT, **({"other": arguments.other} if arguments.other else {})}
        checkouts = [Checkout(name, root, Path(folder), arguments.jobs) for name, root in roots.items()]
        for checkout in checkouts:
            checkout.measure(mutants)

        def run(mutant: Mutant) -> list[str] | None:
            if time.monotonic() > until:
                return None
            found = [checkout.kill(mutant) for checkout in checkouts]
            by = "; ".join(
                f"{one.name}: {how or 'SURVIVED'}" for one, how in zip(checkouts, found, strict=True)
            )
            print(f"{'killed  ' if found[0] else 'survived'} {mutant} [{by}]", flush=True)
            return found

        with ThreadPoolExecutor(arguments.jobs) as threads:
            done = [found for found in threads.map(run, mutants) if found is not None]

    killed = [sum(bool(found[number]) for found in done) for number in range(len(checkouts))]
    for checkout, count in zip(checkouts, killed, strict=True):
        print(f"{checkout.name}: {count} of {len(done)} killed, {len(done) - count} survived")
    if len(done) < len(mutants):
        print(f"{len(mutants) - len(done)} were not tried in {arguments.minutes:.0f} minutes")
    return int(killed[0] < max(killed))


if __name__ == "__main__":
    sys.exit(main())
