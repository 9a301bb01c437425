"""pyproject.toml names what the code uses: no package more, none less."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PRODUCT = ("models", "pipeline", "runtime", "schedules", "tocsin", "web", "workers")
DEVELOPMENT = ("bench", "tests")

# zoneinfo reads this package where the system has no zone data; nothing imports it by name.
IMPORTED_BY_PYTHON = {"tzdata"}
# Commands and plugins of the Makefile and of pytest.
COMMANDS = {
    "mypy",
    "pre-commit",
    "pytest-rerunfailures",
    "pytest-timeout",
    "pytest-xdist",
    "ruff",
    "setuptools",
    "uv",
}


def normalize(name: str) -> str:
    """Return a distribution's name as the packaging specification compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(requirements: list[str]) -> set[str]:
    return {normalize(re.split(r"[\[<>=!~; ]", each, maxsplit=1)[0]) for each in requirements}


@cache
def installed_packages() -> dict[str, set[str]]:
    return {name: {normalize(each) for each in found} for name, found in packages_distributions().items()}


def imported(*folders: str) -> set[str]:
    """Return the distributions of other projects that the modules of these folders import."""
    names = {
        name.split(".")[0]
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in names_imported_by(node)
    }
    others = names - sys.stdlib_module_names - {*PRODUCT, *DEVELOPMENT}
    unknown = others - installed_packages().keys()
    assert not unknown
    return {min(installed_packages()[name]) for name in others}


def names_imported_by(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module]
    return []


def test_the_product_declares_exactly_the_packages_that_it_imports():
    dependencies = declared(PROJECT["project"]["dependencies"])

    assert dependencies - IMPORTED_BY_PYTHON == imported(*PRODUCT)


def test_development_packages_are_those_that_tests_import_and_commands():
    development = declared(PROJECT["project"]["optional-dependencies"]["dev"])
    product = declared(PROJECT["project"]["dependencies"])

    assert development - COMMANDS == imported(*DEVELOPMENT) - product


@pytest.mark.parametrize(
    "module", [name for each in PROJECT["tool"]["mypy"]["overrides"] for name in each["module"]]
)
def test_mypy_is_strict_about_modules_that_exist(module):
    path = ROOT.joinpath(*module.removesuffix(".*").split("."))

    assert path.is_dir() if module.endswith(".*") else path.with_suffix(".py").exists()
