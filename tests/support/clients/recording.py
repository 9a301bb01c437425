"""List the methods of a published client, and record which were called and returned."""

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

SUFFIXES = ("Client", "Builder")


def list_classes(package: ModuleType) -> list[type]:
    """Return the classes of a package that send requests or build them."""
    return sorted(
        {
            client_class
            for module in _list_modules(package)
            for name, client_class in inspect.getmembers(module, inspect.isclass)
            if client_class.__module__ == module.__name__ and name.endswith(SUFFIXES)
        },
        key=lambda client_class: client_class.__name__,
    )


def _list_modules(package: ModuleType) -> Iterator[ModuleType]:
    yield package
    for client_class in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        yield importlib.import_module(client_class.name)


def list_methods(client_class: type) -> set[str]:
    """Return the methods that the class itself defines."""
    return {
        name
        for name, _ in inspect.getmembers(client_class, inspect.isfunction)
        if _is_own(client_class, name)
    }


def _is_own(client_class: type, name: str) -> bool:
    return name in vars(client_class) and not name.startswith("_")


def record_calls(client_class: type, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return a set that collects the methods of a class that are called and return."""
    returned: set[str] = set()
    for name in list_methods(client_class):
        monkeypatch.setattr(client_class, name, _wrap_method(getattr(client_class, name), name, returned))
    return returned


def _wrap_method(method: Callable[..., Any], name: str, returned: set[str]) -> Callable[..., Any]:
    @functools.wraps(method)
    def wrapper(*arguments: Any, **keywords: Any) -> Any:
        answer = method(*arguments, **keywords)
        returned.add(name)
        return answer

    return wrapper
