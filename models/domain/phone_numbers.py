"""Countries and expensive ranges of phone numbers in the international form (ITU-T E.164)."""

import re
from collections.abc import Collection

# Country codes of two digits. Those of one digit are 1 and 7, and all others have three.
_TWO_DIGITS = re.compile(r"2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]")
# By country code, the beginnings of the national numbers for which the caller pays an extra price.
#
# Origin: the ranges with premium rate in the metadata of Google's libphonenumber 9.0.43, shortened to
# beginnings of at most four digits; besides, Spain 901 and 902 and Germany 137 and 180, whose cost is shared.
# Beginnings that also usual numbers have are left out, for example Ireland 15 and Malaysia 1600. The plans of
# countries change.
# fmt: off
_EXPENSIVE_AT_HOME = {
    "20": "900", "212": "89", "213": "803 804 805 806 808 809", "216": "88", "221": "884 886 888 889",
    "227": "09", "230": "30", "231": "332", "236": "877", "240": "90", "242": "800 801 802",
    "248": "85", "250": "900", "254": "900", "255": "90", "256": "901 902 903",
    "262": "891 892 893 897 898 899", "264": "870", "267": "90", "268": "900", "269": "8",
    "27": "86 90 91 92", "297": "900", "298": "901 902 903 904 905 909", "30": "901 909",
    "31": "900 906 909", "32": "702 703 704 706 707 90", "33": "8", "34": "803 806 807 901 902",
    "351": "601 607 608 646 648 760 761 762", "352": "900 901 905", "354": "90", "355": "900",
    "356": "500 506 507 509 51 52", "357": "900 909", "358": "600 700", "359": "90", "36": "90 91",
    "370": "900 902 903 909 910", "371": "90", "372": "40 900", "373": "900 905 906",
    "374": "900 901 906", "375": "810 902", "376": "1 9", "378": "71 77 78", "380": "900",
    "381": "78 900 901 906 909", "382": "941 945 946 948 951 957 958", "383": "900",
    "385": "60 61 64 65 69", "386": "891 892 893 90", "387": "90 92 94 96", "389": "5",
    "39": "0878 144 163 164 166 892 893 894 895 899", "40": "900 901 903 906", "41": "900 901 906",
    "420": "900 905 906 908 909 976", "421": "900 97 98", "423": "900 901 906",
    "43": "862 863 864 865 866 868 892 893 894 895 896 898 900 901 930 931 939",
    "44": "842 843 844 845 870 871 872 873 90 91 980 981 982 983 984 989", "45": "90",
    "46": "649 900 939 944 991 992 993 994 995 999", "47": "820 829", "48": "70", "49": "137 180 900",
    "502": "19", "503": "900", "506": "900 905 909", "507": "822 855 860 877 878 886 900 981",
    "51": "805", "52": "900", "54": "600 604 605 607 609", "55": "500 900", "57": "190 194 901",
    "58": "900 901", "590": "81 82 89", "592": "900", "594": "81 82 89", "596": "81 82 89", "597": "90",
    "598": "90", "61": "190", "62": "809", "64": "1 500 503 506 507 508 90", "65": "190", "670": "90",
    "687": "36", "7": "803 809", "81": "990", "82": "60", "84": "190", "852": "900", "86": "160 168",
    "886": "20", "90": "888 898 900", "91": "1861", "92": "900", "962": "9", "966": "925", "968": "900",
    "971": "900", "972": "120 121 190 191 199", "973": "87 9", "994": "900",
}
# fmt: on
# The area codes of the countries other than the USA and Canada that share +1 (NANPA's list of area codes).
_OTHER_COUNTRIES_OF_1 = "242 246 264 268 284 345 441 473 649 658 664 721 758 767 784 809 829 849 868 869 876"
# What belongs to no country (ITU-T E.164, list of assigned codes): shared cost, Inmarsat, personal numbers,
# satellites, networks, aid, premium rate.
_WITHOUT_COUNTRY = ("+808", "+870", "+878", "+881", "+882", "+883", "+888", "+979")
_EXPENSIVE = (
    *_WITHOUT_COUNTRY,
    *(f"+{code}{each}" for code, all_ in _EXPENSIVE_AT_HOME.items() for each in all_.split()),
    *(f"+1{each}" for each in ("900", *_OTHER_COUNTRIES_OF_1.split())),
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
