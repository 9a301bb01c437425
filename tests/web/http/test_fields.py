"""Fields that more than one resource uses."""

import pytest
from marshmallow import ValidationError

from web.http.fields import InputMoment, OptionalMoment, Schema, TimeZone


class Sample(Schema):
    zone = TimeZone()
    at = InputMoment()
    until = OptionalMoment()


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
