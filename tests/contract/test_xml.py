"""Each operation has the same statuses, values and bodies in XML as in JSON."""

from typing import Any
from xml.etree import ElementTree

import pytest

from models.tables.accounts import RateLimit
from tests.support.contract.matrix import group_by_table, name, tried
from tests.support.contract.operations import OPERATIONS
from tests.support.contract.requests import build_body, free_policy, get_path, with_alert
from web.http import xml

__all__ = ["with_alert"]

ACCEPT = {"Accept": "application/xml"}
# Alerts come in JSON only.
JSON_ONLY = "<integration_key>"


def to_value(element: ElementTree.Element) -> Any:
    """Return the value as a client without our schemas reads it."""
    if not len(element):
        return element.text or None
    named_values = [(inner.get("name", inner.tag), to_value(inner)) for inner in element]
    return [value for _, value in named_values] if element[0].tag == "list-item" else dict(named_values)


def to_texts(value: Any) -> Any:
    """Convert a JSON value to the value that XML represents."""
    match value:
        case dict() if value:
            return {name: to_texts(inner) for name, inner in value.items()}
        case list() if value:
            return [to_texts(inner) for inner in value]
        case bool():
            return str(value).lower()
        case None | {} | [] | "":
            return None
        case _:
            return str(value)


# Each ping gets a new trace_id, so the answers differ.
PINGS = [row for row in OPERATIONS if "/heartbeat/<integration_key>/" in row.path]


@pytest.mark.usefixtures("with_alert")
@pytest.mark.parametrize("scheme", ["Bearer", "Token"])
def test_reads_have_the_same_values_in_xml(ask, samples, scheme):
    for row in tried(row for row in OPERATIONS if row.method == "GET" and row not in PINGS):
        in_json = ask("GET", get_path(row, samples), scheme=scheme)
        # Some operations allow one request per second.
        RateLimit.delete().execute()
        in_xml = ask("GET", get_path(row, samples), scheme=scheme, headers=ACCEPT)

        assert (in_xml.status_code, in_xml.mimetype) == (row.status, "application/xml"), name(row)
        assert to_value(ElementTree.fromstring(in_xml.data)) == to_texts(in_json.json), name(row)
        assert in_xml.headers.get("ETag") == in_json.headers.get("ETag"), name(row)


@pytest.mark.usefixtures("with_alert")
@pytest.mark.parametrize("rows", group_by_table(row for row in OPERATIONS if row.method != "GET"))
def test_writes_are_read_and_answered_in_xml(ask, samples, rows):
    for row in rows:
        free_policy(row, ask, samples)
        body = build_body(row, samples)
        sent = {} if JSON_ONLY in row.path or body is None else {"data": xml.render(body)}
        sent = {"json": body} if JSON_ONLY in row.path else {**sent, "content_type": "application/xml"}

        answer = ask(row.method, get_path(row, samples), headers=ACCEPT, **sent)

        assert answer.status_code == row.status, (name(row), answer.text)
        if row.keys is None:
            assert answer.data == b"", name(row)
            continue
        assert answer.mimetype == "application/xml", name(row)
        parsed = to_value(ElementTree.fromstring(answer.data))
        assert set(parsed[0] if row.is_list else parsed) == row.keys, name(row)


@pytest.mark.parametrize("who", [None, "mallory"])
def test_errors_are_answered_in_xml(ask, samples, who):
    refused = 0
    for row in tried(OPERATIONS):
        if JSON_ONLY in row.path:
            speaker, path = None, get_path(row, samples).replace(samples.ids["integration_key"], "x")
        else:
            speaker, path = who, get_path(row, samples)

        in_json = ask(row.method, path, build_body(row, samples), who=speaker)
        if in_json.status_code < 400:
            continue
        refused += 1
        in_xml = ask(row.method, path, build_body(row, samples), who=speaker, headers=ACCEPT)

        assert (in_xml.status_code, in_xml.mimetype) == (in_json.status_code, "application/xml"), name(row)
        assert to_value(ElementTree.fromstring(in_xml.data)) == in_json.json, name(row)

    assert refused > len(tried(OPERATIONS)) / 2
