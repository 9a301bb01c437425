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


# Example numbers of libphonenumber 9.0.43 with premium rate, and a number of Spain whose cost is shared.
# fmt: off
EXPENSIVE = [
    "+439001234567", "+3270250000", "+41900123456", "+49137712345678", "+491801234", "+4590123456",
    "+34803123456", "+34901123456", "+358600123456", "+33891123456", "+448712345678",
    "+449012345678", "+30909123456", "+3690123456", "+39899123456", "+31906123456", "+4782912345",
    "+48701234567", "+351760123456", "+40900123456", "+46900123456", "+61190012345", "+819901234",
    "+78091234567", "+908881234567", "+27862345678", "+97212001234", "+16585550100", "+18095550100",
    "+17215550100", "+8706123456", "+979123456789",
]
USUAL = [
    "+431234567890", "+43664123456", "+3212345678", "+32470123456", "+41446681800", "+41781234567",
    "+49301234567", "+4915123456789", "+34612345678", "+358412345678", "+33612345678",
    "+441212345678", "+447400123456", "+302123456789", "+393123456789", "+39061234567",
    "+31612345678", "+4740612345", "+48512345678", "+351912345678", "+46701234567", "+61412345678",
    "+819012345678", "+79123456789", "+905012345678", "+27711234567", "+972502345678",
    "+15062345678", "+12015550123", "+353850123456", "+60123456789",
]
# fmt: on


def test_numbers_with_an_extra_price_are_expensive_and_usual_numbers_are_not():
    assert [each for each in EXPENSIVE if not is_expensive(each, ["+"])] == []
    assert [each for each in USUAL if is_expensive(each, ["+"])] == []


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
