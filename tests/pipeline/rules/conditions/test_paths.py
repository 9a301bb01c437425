"""Paths into payloads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.rules.conditions import Budget, paths
from pipeline.rules.conditions.paths import Wildcard

PAYLOAD = {
    "a": {"b": [10, {"c": "deep"}], "0": "zero", "app.name": "shop", "it's": 1},
    "alerts": [{"host": "db1"}, {"host": "db2", "up": None}, "text"],
    "empty": [],
}

RESULTS = {
    "a.b[0]": [10],
    "$.a.b[0]": [10],
    "$['a']['b'][0]": [10],
    "a.b.0": [10],
    "a[b][1].c": ["deep"],
    "a.b[-1].c": ["deep"],
    "a.b[2]": [],
    "a.b[-3]": [],
    "a.0": ["zero"],
    "a[0]": ["zero"],
    'a["app.name"]': ["shop"],
    "a.app.name": [],
    "a['it\\'s']": [1],
    " $.a.b[ 0 ] ": [10],
    "alerts[*].host": ["db1", "db2"],
    "$.alerts.*.host": ["db1", "db2"],
    "alerts[1].up": [None],
    "a[*][1].c": ["deep"],
    "empty[*]": [],
    "empty": [[]],
    "a.b.c": [],
    "alerts[2].host": [],
    "A.b": [],
    "a.b[²]": [],
    "$": [PAYLOAD],
    "": [PAYLOAD],
}


@pytest.mark.parametrize("path", RESULTS)
def test_a_path_finds_its_value(path):
    assert RESULTS[path] == paths.find(PAYLOAD, paths.parse(path), Budget())


@pytest.mark.parametrize(
    "path", ["a..b", "$..a", "a[", "a]", "a[]", "a['b]", "a[0]b", "a[?(@.x)]", "a" * 1001]
)
def test_an_invalid_path_is_refused_with_its_problem(path):
    with pytest.raises(paths.BadPath, match=r"path"):
        paths.parse(path)


def test_a_path_is_parsed_into_its_steps():
    assert paths.parse('$.a[0][*]["b.c"]') == ("a", 0, Wildcard.EACH, "b.c")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        ("", ""),
        (None, ""),
        ([], ""),
        ({}, ""),
        (0, "0"),
        (False, "false"),
        (1.5, "1.5"),
        ({"k": ["é"]}, '{"k":["é"]}'),
    ],
)
def test_a_value_has_one_text(value, text):
    assert text == paths.to_text(value)


@given(st.dictionaries(st.text(min_size=1), st.integers(), min_size=1), st.data())
def test_any_key_can_be_quoted(payload, data):
    key = data.draw(st.sampled_from(sorted(payload)))
    quoted = key.replace("\\", "\\\\").replace('"', '\\"')

    assert [payload[key]] == paths.find(payload, paths.parse(f'["{quoted}"]'), Budget())


@given(st.text(alphabet="ab.[]*$'\"\\0- ", max_size=40))
def test_any_text_is_a_path_or_refused(text):
    try:
        found = paths.find(PAYLOAD, paths.parse(text), Budget())
    except paths.BadPath:
        return
    assert isinstance(found, list)
