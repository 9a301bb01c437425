"""Which operations a matrix tries: all of them on SQLite, on PostgreSQL one of each kind.

What guards, reads and writes an operation is one function for all of its kind, and asks the store in one way;
what differs between their rows of the tables is proven where the whole matrix runs.
"""

import re
from collections.abc import Iterable
from typing import Any

import pytest

from tests.support import stores
from web.routes import ROUTES

VIEWS = {(route.method, route.path): route.view for route in ROUTES}


def name(operation: Any) -> str:
    return f"{operation.method} {operation.path}"


def kind(operation: Any) -> tuple[str, str, str]:
    """What serves it: a verb of all tables, or a function of its own."""
    view = VIEWS[operation.method, operation.path]
    return operation.method, view.__module__, view.__qualname__


def tried(operations: Iterable[Any]) -> list[Any]:
    """Those of a matrix that are tried on this store."""
    found = list(operations)
    if not stores.SERVER:
        return found
    first: dict[tuple[str, str, str], Any] = {}
    for each in found:
        first.setdefault(kind(each), each)
    return list(first.values())


# What one operation does must not be in the way of the next: a second one of a name is refused.
ORDER = ("GET", "HEAD", "PUT", "PATCH", "DELETE", "POST")


def together(operations: Iterable[Any]) -> list[Any]:
    """The same as parameters, a list for each table: its operations share a world."""
    by_table: dict[str, list[Any]] = {}
    for each in sorted(tried(operations), key=lambda one: ORDER.index(one.method)):
        by_table.setdefault(re.sub(r"<[a-z_]+>/$", "", each.path), []).append(each)
    return [pytest.param(each, id=path) for path, each in by_table.items()]
