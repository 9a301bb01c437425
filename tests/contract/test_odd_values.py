"""Whatever stands in whichever field of whichever operation: an answer of the contract, never a 500."""

import re

import pytest

from tests.contract.operations import OPERATIONS
from web.routes import ROUTES

ODD = (
    None, True, False, 0, -1, 1.5, 10**12, -(10**18), 1e300, "", " ", "x", "0", "\x00", "\ud7ff\uffff",
    "x" * 70_000, "' or 1=1 --", "2026-13-45", "9999-12-31T23:59:59-12:00",
    "00000000-0000-4000-8000-000000000000", [], [[]], [None], [{}], [{"x": 1}], ["x"] * 100, {},
    {"unique_id": 7}, {"unique_id": None}, {"user": []}, {"delay": {}}, {"email": {}},
    [{"delay": 1, "targets": [None]}], [{"time": 1, "type": 1, "responders": [[]]}],
)  # fmt: skip
TAKES = {(route.method, route.path): route.takes for route in ROUTES}
WRITES = [row for row in OPERATIONS if TAKES[row.method, row.path]]


@pytest.mark.parametrize("row", WRITES, ids=lambda row: f"{row.method} {row.path}")
def test_no_value_of_a_field_is_too_odd(ask, stock, row):
    path = re.sub("<([a-z_]+)>", lambda found: stock.ids[found[1]], row.path)
    fields = TAKES[row.method, row.path].load_fields

    failed = [
        (field, value)
        for field in fields
        for value in ODD
        if ask(row.method, path, {**stock.bodies[row.body], field: value}).status_code >= 500
    ]

    assert failed == []
