"""Countries and expensive ranges of phone numbers in the international form (ITU-T E.164)."""

import re
from collections.abc import Collection

# Country codes of two digits. Those of one digit are 1 and 7, and all others have three.
_TWO_DIGITS = re.compile(r"2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]")
# Numbers whose owner gets a part of the price, satellites and networks without a country. Not complete: the
# plans of countries change. Within +1 also the countries outside the USA and Canada.
_EXPENSIVE = (
    *("+870", "+878", "+881", "+882", "+883", "+888", "+979"),
    *("+1900", "+1976", "+3389", "+3480", "+3490", "+3989", "+3190", "+4190", "+439", "+4487", "+449"),
    *("+46900", "+46939", "+46944", "+49137", "+49180", "+49900", "+6119", "+7809"),
    *("+1242", "+1246", "+1264", "+1268", "+1284", "+1345", "+1441", "+1473", "+1649", "+1658", "+1664"),
    *("+1721", "+1758", "+1767", "+1784", "+1809", "+1829", "+1849", "+1868", "+1869", "+1876"),
)


def find_country(number: str) -> str | None:
    """Return + and the country code of a number; None: it is no number, but for example a name."""
    digits = number[1:]
    if not number.startswith("+") or not digits.isdecimal():
        return None
    if digits[0] in "17":
        return number[:2]
    return number[:3] if _TWO_DIGITS.match(digits) else number[:4]


def is_expensive(number: str, named: Collection[str]) -> bool:
    """Return whether a number is in an expensive range, which none of the named beginnings names itself.

    A beginning of only a country names none of its ranges.
    """
    found = [each for each in _EXPENSIVE if number.startswith(each)]
    return any(not any(name.startswith(each) and number.startswith(name) for name in named) for each in found)
