"""The country of a phone number, and ranges that are expensive."""

import pytest

from models.domain.phone_numbers import find_country, is_expensive


@pytest.mark.parametrize(
    ("number", "country"),
    [
        ("+15550100", "+1"),
        ("+74950000000", "+7"),
        ("+46701234567", "+46"),
        ("+447700900123", "+44"),
        ("+358401234567", "+358"),
        ("+882161234567", "+882"),
        ("MG0123456789", None),
        ("Tocsin", None),
        ("+", None),
        ("", None),
    ],
)
def test_the_country_code_is_found(number, country):
    assert find_country(number) == country


@pytest.mark.parametrize(
    ("number", "named", "expected"),
    [
        ("+46701234567", ["+46"], False),
        ("+469001234567", ["+46"], True),
        ("+469001234567", ["+46", "+46900"], False),
        ("+469001234567", ["+46", "+4690012"], False),
        ("+469001234567", ["+46", "+4690099"], True),
        ("+19005550100", ["+1"], True),
        ("+18765550100", ["+1"], True),
        ("+12125550100", ["+1"], False),
        ("+88216123456", ["+"], True),
        ("+88216123456", ["+882"], False),
    ],
)
def test_a_range_is_expensive_unless_it_is_named(number, named, expected):
    assert is_expensive(number, named) is expected
