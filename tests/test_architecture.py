"""Who may import whom (design, section 4), walked over the syntax of every module."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OURS = {"runtime", "web", "workers", "pipeline", "models", "schedules", "tocsin"}

VOCABULARY = {"models.domain.enums", "models.domain.effects", "models.domain.facts", "models.domain.shortid"}
PURE = VOCABULARY | {"pipeline", "schedules"}

# Module or package -> what of ours it may import, what of others. The longest name that fits counts.
RULES: dict[str, tuple[set[str], set[str]]] = {
    "models.domain.enums": (set(), set()),
    "models.domain.effects": (VOCABULARY, set()),
    "models.domain.facts": (VOCABULARY, set()),
    "models.domain.shortid": (set(), set()),
    "models.lifecycle.signed_links": ({"models"}, {"itsdangerous"}),
    "models.store.postgresql": (set(), {"peewee", "playhouse", "psycopg"}),
    "models": ({"models"}, {"peewee", "playhouse", "orjson"}),
    "pipeline.sources": (PURE, {"msgspec"}),
    "pipeline.rules.conditions": (PURE, {"datalogic_py", "re2", "msgspec"}),
    "pipeline.rules.rulesets": (PURE, {"msgspec"}),
    "pipeline": (PURE, set()),
    "schedules": (PURE, {"zoneinfo", "dateutil"}),
    "schedules.clock": ({"models", "schedules", "runtime"}, {"rq", "rq_scheduler", "redis", "structlog"}),
    "workers": ({"workers", "models", "pipeline", "schedules", "runtime", "tocsin.metrics"}, {"*"}),
    "web": (
        {"web", "models", "pipeline", "schedules", "workers.queue", "runtime"}
        | {"tocsin.metrics", "web.operations.run_simulation"},
        {"*"},
    ),
    "runtime": ({"runtime"}, {"structlog", "redis"}),
    "tocsin": (OURS, {"*"}),
}


def list_modules() -> list[str]:
    files = (path for folder in sorted(OURS) for path in sorted((ROOT / folder).rglob("*.py")))
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in files
    ]


def list_imports(module: str) -> set[str]:
    path = ROOT.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {
                f"{node.module}.{name.name}" if is_module(f"{node.module}.{name.name}") else node.module
                for name in node.names
            }
    return found


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def is_inside(name: str, allowed: set[str]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in allowed)


def find_rule(module: str) -> tuple[set[str], set[str]]:
    return RULES[max((name for name in RULES if is_inside(module, {name})), key=len)]


@pytest.mark.parametrize("module", list_modules())
def test_a_module_imports_only_what_its_place_allows(module):
    ours, others = find_rule(module)
    for name in list_imports(module):
        top = name.split(".")[0]
        if top in OURS:
            assert is_inside(name, ours), f"{module} may not import {name}"
        elif top not in sys.stdlib_module_names and top != "__future__":
            assert "*" in others or top in others, f"{module} may not import {name}"


@pytest.mark.parametrize("module", [m for m in list_modules() if find_rule(m)[0] == PURE])
def test_pure_modules_never_look_at_a_clock(module):
    path = ROOT.joinpath(*module.split("."))
    text = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()

    for clock in ("datetime.now(", "utcnow(", "time.time(", "monotonic(", "date.today("):
        assert clock not in text
