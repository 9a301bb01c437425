"""A body with a wrong type is refused in words for people, and names the field."""

import json

import pytest

from pipeline.sources.reading.body import BadBody, RequestBody
from pipeline.sources.reading.type_errors import describe_type_error
from pipeline.sources.table import SOURCES


@pytest.mark.parametrize(
    ("source", "body", "errors"),
    [
        ("generic", {}, {"body": ["must have the field message"]}),
        ("generic", [], {"body": ["must be an object, not a list"]}),
        ("generic", {"message": 5}, {"message": ["must be a text, not a whole number"]}),
        (
            "generic",
            {"message": "m", "urls": [5]},
            {"urls.0": ["must be a text or an object, not a whole number"]},
        ),
        ("generic", {"message": "m", "urls": 1.5}, {"urls": ["must be a text or a list, not a number"]}),
        (
            "generic",
            {"message": "m", "suppressed": "x"},
            {"suppressed": ["must be true or false, not a text"]},
        ),
        ("alertmanager", {"alerts": []}, {"body": ["must be a list, not an object"]}),
        ("alertmanager", [{}] * 40_001, {"body": ["must have at most 40,000 items"]}),
    ],
)
def test_a_wrong_type_is_named_with_its_field(source, body, errors):
    raw = json.dumps(body).encode()
    decoded = RequestBody(raw)
    decoded.decode_json()

    for request in (RequestBody(raw), decoded):
        with pytest.raises(BadBody) as caught:
            SOURCES[source].parse(request)
        assert caught.value.errors == errors


@pytest.mark.parametrize(
    ("error", "described"),
    [
        (
            "Expected `str`, got `int` - at `$.alerts[3].labels[...]`",
            ("alerts.3.labels", "must be a text, not a whole number"),
        ),
        ("Expected `array` of length >= 1 - at `$.alerts`", ("alerts", "must have at least 1 item")),
        ("Invalid value - at `$.a`", ("a", "has a value of another type")),
    ],
)
def test_every_error_of_the_reader_has_words(error, described):
    assert describe_type_error(error) == described
