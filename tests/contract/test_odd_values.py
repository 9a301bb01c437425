"""Odd values in each field of each body get an answer of the contract, and no partial write."""

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tests.support import stores
from tests.support.contract.operations import OPERATIONS, Row
from tests.support.contract.requests import build_body, dump_all_rows, get_path
from tests.support.scenarios.combinations import take
from web.http.errors import BadRequest
from web.routes import ROUTES


def nest(levels: int) -> list[Any]:
    return [nest(levels - 1)] if levels else []


# Values that the stores can handle in different ways.
ODD_TO_STORES = (
    2**63, 1e300, "\x00", "\ud7ff\uffff", "x" * 70_000, "2026-13-45", "9999-12-31T23:59:59-12:00",
)  # fmt: skip
# Values that are handled before a store is used: tested with one store only.
ODD_ANYWHERE = (
    None, True, -1, 1.5, "", " ", "x", "0", "' or 1=1 --", "00000000-0000-4000-8000-000000000000",
    [], [[]], [None], [{}], ["x"] * 101, {}, {"unique_id": 7}, {"unique_id": None}, nest(200),
)  # fmt: skip
# For nested places of a body. There are many of them, so the list is short.
ODD_INSIDE_ANYWHERE = (None, -1, "", "x", [], [None], {}, nest(100))
ODD = ODD_TO_STORES if stores.SERVER else (*ODD_ANYWHERE, *ODD_TO_STORES)
ODD_INSIDE = (2**63, "\x00", "x" * 70_000, *(() if stores.SERVER else ODD_INSIDE_ANYWHERE))
INVALID_BODIES = (b"{", b"[]", b'"x"', b"null", b"7", b"\xff\xfe", b"[" * 100_000, b'{"a": 1}, {"b": 2}')

TAKES = {(route.method, route.path): route.body for route in ROUTES}
VIEWS = {(route.method, route.path): route.view for route in ROUTES}
TAKING = [row for row in OPERATIONS if TAKES[row.method, row.path]]
# Each view once: paths have aliases, and PUT and PATCH differ only in the required fields.
EACH_VIEW = {VIEWS[row.method, row.path]: row for row in TAKING}
# Of views of one module with the same body, one: they read it with the same function (analytics).
WRITES = list(
    {
        (row.method, view.__module__, type(TAKES[row.method, row.path])): row
        for view, row in EACH_VIEW.items()
    }.values()
)


def list_places(value: Any, *above: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the path of keys to each value in a body."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield (*above, key)
        yield from list_places(inner, *above, key)


def replace_at(body: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(body)
    inner: Any = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed


def build_odd_bodies(row: Row, body: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield valid bodies with one odd value, and its place: each field, and each nested value."""
    for number, field in enumerate(TAKES[row.method, row.path].load_fields):
        yield from ((field, {**body, field: value}) for value in take(ODD, number))
    for number, place in enumerate(list_places(body)):
        if len(place) > 1:
            yield from ((place, replace_at(body, place, value)) for value in take(ODD_INSIDE, number))


@pytest.mark.parametrize("row", WRITES, ids=lambda row: f"{row.method} {row.path}")
def test_an_odd_value_is_accepted_or_refused_without_a_change(ask, samples, row):
    def list_refused(bodies: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
        """Return the refused bodies; the error must be that of the contract. All others must be accepted.

        Of the bodies that are refused for one place with the same text, return one.
        """
        found = {}
        for place, body in bodies:
            answer = ask(row.method, get_path(row, samples), body)
            assert answer.status_code in (row.status, 400), str(body)[:200]
            if answer.status_code == 400:
                assert answer.json["detail"] == BadRequest.detail, str(body)[:200]
                found[place, answer.text] = (place, body)
        return found

    # Some bodies are refused because of an earlier request. When all are refused, nothing may have changed.
    bodies = list_refused(build_odd_bodies(row, build_body(row, samples)))
    before = dump_all_rows()
    while bodies.keys() != (again := list_refused(bodies.values())).keys():
        bodies, before = again, dump_all_rows()
    for data in INVALID_BODIES:
        answer = ask(row.method, get_path(row, samples), data=data, content_type="application/json")
        assert (answer.status_code, answer.json["detail"]) == (400, BadRequest.detail), data[:20]

    assert dump_all_rows() == before
