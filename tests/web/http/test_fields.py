"""Fields that more than one resource uses."""

import pytest
from marshmallow import ValidationError

from web.http.fields import LONG_TEXT, InputMoment, OptionalMoment, Schema, Text, TextOrNumber, TimeZone


class Sample(Schema):
    zone = TimeZone()
    at = InputMoment()
    until = OptionalMoment()
    name = Text()
    description = Text(limit=LONG_TEXT)
    pattern = TextOrNumber(limit=LONG_TEXT)


@pytest.mark.parametrize("name", ["Europe/Berlin", "Asia/Calcutta", "UTC", "Australia/Lord_Howe"])
def test_names_and_aliases_of_time_zones_are_kept(name):
    assert Sample().load({"zone": name}) == {"zone": name}


NO_ZONES = ["Europe/Nowhere", "localtime", "../../etc/passwd", "europe/berlin", "+02:00"]


@pytest.mark.parametrize("name", NO_ZONES)
def test_an_unknown_time_zone_is_refused(name):
    with pytest.raises(ValidationError):
        Sample().load({"zone": name})


@pytest.mark.parametrize("nothing", ["", None, " "])
def test_an_empty_time_zone_means_utc(nothing):
    assert Sample().load({"zone": nothing}) == {"zone": "UTC"}


@pytest.mark.parametrize(
    ("moment_text", "shown"),
    [
        ("2026-07-08T11:26:33Z", "2026-07-08T11:26:33Z"),
        ("2026-07-08T11:26:33.5+02:00", "2026-07-08T09:26:33.500000Z"),
        ("2026-07-08", "2026-07-08T00:00:00Z"),
    ],
)
def test_moments_keep_their_precision(moment_text, shown):
    assert Sample().dump(Sample().load({"at": moment_text})) == {"at": shown}


def test_a_blank_optional_moment_is_none():
    assert Sample().load({"until": ""}) == {"until": None}


# An umlaut, a family that a zero-width joiner joins, and Hebrew.
MIXED = "Gr\u00fc\u00dfe \U0001f468\u200d\U0001f469 \u05e9\u05dc\u05d5\u05dd"


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("pay\u202eexe.sdrac", "payexe.sdrac"), ("\u2066a\u2069\u200e\u200f\u061cb", "ab"),
        ("a\x1b[31mb\x07\x7f\x85", "a[31mb "), ("zero\u200b\ufeffwidth", "zerowidth"),
        ("two\nlines\tand\r\na tab", "two lines and a tab"), ("two  blanks ", "two  blanks "),
        (MIXED, MIXED),
    ],
)  # fmt: skip
def test_a_name_has_no_control_characters_and_no_direction_marks(sent, stored):
    assert Sample().load({"name": sent}) == {"name": stored}


def test_a_long_text_keeps_its_lines():
    loaded = Sample().load({"description": "1\r\n\t2\n\u202e3\x00\x1b"})

    assert loaded == {"description": "1\r\n\t2\n3"}


def test_patterns_are_kept_as_sent():
    assert Sample().load({"pattern": "\u202e\t"}) == {"pattern": "\u202e\t"}


def test_a_required_name_needs_more_than_unfit_characters():
    with pytest.raises(ValidationError):
        Text(required=True).deserialize("\u202e\x07")
