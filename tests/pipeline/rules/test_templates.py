"""Templates: which placeholders are filled in, and which are not."""

import pytest

from pipeline.rules.conditions import Budget
from pipeline.rules.templates import MAX_PLACEHOLDERS, MAX_RESULT_LENGTH, render

FIELDS = {
    "message": "Disk full",
    "summary": "97% of {{message}}",
    "entity_id": "disk/db1",
    "payload": {"a": {"b": ["x", {"c": 1.5}]}, "up": True, "none": None, "app.name": "shop"},
}
SUBJECT = FIELDS | {"alert": FIELDS}

RENDERED = {
    "no holes": "no holes",
    "": "",
    "{{message}} on {{payload.a.b[0]}}": "Disk full on x",
    "{{ message }}": "Disk full",
    "{{alert.message}}": "Disk full",
    "{{alert.payload.a.b[0]}}": "x",
    "{{payload.a.b[1].c}}": "1.5",
    "{{payload.a.b.0}}": "x",
    "{{payload.a.b[*]}}": 'x, {"c":1.5}',
    '{{payload["app.name"]}}': "shop",
    "{{payload.up}}": "true",
    "<{{payload.none}}>": "<>",
    "<{{payload.a.b[7]}}>": "<>",
    "<{{payload.q.r.s}}>": "<>",
    "<{{nothing}}>": "<>",
    "<{{}}>": "<>",
    "<{{ }}>": "<>",
    "<{{a..b}}>": "<>",
    "{{message": "{{message",
    "{message}": "{message}",
    "{{{message}}}": "{Disk full}",
    # Placeholders in a filled-in value are not replaced.
    "{{summary}}": "97% of {{message}}",
}


@pytest.mark.parametrize("template", RENDERED)
def test_placeholders_are_filled_in_and_missing_values_are_empty(template):
    assert RENDERED[template] == render(template, SUBJECT, Budget())


@pytest.mark.parametrize(
    "name",
    [
        "message.__class__",
        "payload.__init__.__globals__",
        "message.upper()",
        "7*7",
        "message|upper",
        "payload.a.b.append",
        "self",
        "''.__class__.__mro__",
    ],
)
def test_a_placeholder_is_never_code(name):
    assert render(f"<{{{{{name}}}}}>", SUBJECT, Budget()) == "<>"


def test_a_result_is_truncated():
    payload = {"big": "x" * 500_000}

    rendered = render("{{payload.big}}" * 1_000, {"payload": payload}, Budget())

    assert rendered == "x" * MAX_RESULT_LENGTH


def test_placeholders_beyond_the_limit_are_empty():
    rendered = render("{{message}}," * (MAX_PLACEHOLDERS + 2), {"message": "a"}, Budget())

    assert rendered == "a," * MAX_PLACEHOLDERS + ",,"
