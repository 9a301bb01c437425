"""Which methods a published client has, and which of them were called and gave an answer."""

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

ENDINGS = ("Client", "Builder")


def classes_of(package: ModuleType) -> list[type]:
    """Whatever in this package asks for something, or helps to ask for it."""
    return sorted(
        {
            found
            for module in _modules(package)
            for name, found in inspect.getmembers(module, inspect.isclass)
            if found.__module__ == module.__name__ and name.endswith(ENDINGS)
        },
        key=lambda found: found.__name__,
    )


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    yield package
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        yield importlib.import_module(found.name)


def methods_of(found: type) -> set[str]:
    """Those that are the class's own: all builders inherit one that shows them."""
    return {name for name, _ in inspect.getmembers(found, inspect.isfunction) if _is_own(found, name)}


def _is_own(found: type, name: str) -> bool:
    return name in vars(found) and not name.startswith("_")


def record(found: type, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the methods of this class that from now on were called, and returned."""
    returned: set[str] = set()
    for name in methods_of(found):
        monkeypatch.setattr(found, name, _noting(getattr(found, name), name, returned))
    return returned


def _noting(method: Callable[..., Any], name: str, returned: set[str]) -> Callable[..., Any]:
    @functools.wraps(method)
    def noting(*arguments: Any, **named: Any) -> Any:
        answer = method(*arguments, **named)
        returned.add(name)
        return answer

    return noting
