"""Which operations a matrix test uses: all of them with SQLite, one of each kind with PostgreSQL.

Operations of one kind share the functions that check, read and write, so they use the store in the same way.
The test with SQLite covers the differences between the operations of a kind.
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
    """Return the function that serves an operation: a verb of all resources, or its own view."""
    view = VIEWS[operation.method, operation.path]
    return operation.method, view.__module__, view.__qualname__


def tried(operations: Iterable[Any]) -> list[Any]:
    """Return the operations that are tested with this store."""
    found = list(operations)
    if not stores.SERVER:
        return found
    first: dict[tuple[str, str, str], Any] = {}
    for each in found:
        first.setdefault(kind(each), each)
    return list(first.values())


# In this order, no operation makes the next one fail: a second object with the same name is refused.
ORDER = ("GET", "HEAD", "PUT", "PATCH", "DELETE", "POST")


def group_by_table(operations: Iterable[Any]) -> list[Any]:
    """Return the operations as parameters, grouped by table. The operations of a table share a world."""
    by_table: dict[str, list[Any]] = {}
    for each in sorted(tried(operations), key=lambda one: ORDER.index(one.method)):
        by_table.setdefault(re.sub(r"<[a-z_]+>/$", "", each.path), []).append(each)
    return [pytest.param(each, id=path) for path, each in by_table.items()]
