"""Which phone numbers get messages that cost money if the operator names none."""

import pytest

from models.contacts.toll_limits import TollLimits, find_toll_obstacle
from models.domain.enums import ContactType
from runtime.settings import load

ACCOUNT = {"TOCSIN_TWILIO_ACCOUNT_SID": "AC1", "TOCSIN_TWILIO_AUTH_TOKEN": "x"}


def find_code(number, now, **settings):
    limits = TollLimits.from_settings(load({**ACCOUNT, "TOCSIN_PHONE_DAILY_LIMIT": "0", **settings}))
    found = find_toll_obstacle(1, ContactType.PHONE, number, now, limits=limits)
    return found.code if found is not None else None


@pytest.mark.parametrize(
    ("number", "prefixes", "code"),
    [
        ("+46701234567", "", None),
        ("+358401234567", "", None),
        ("+2521234567", "", "country_not_allowed"),
        ("+88216123456", "", "country_not_allowed"),
        ("+46900123456", "", "number_expensive"),
        ("+2521234567", "+", None),
        ("+88216123456", "+", "number_expensive"),
        ("+88216123456", "+46,+882", None),
        ("+358401234567", "+46", "country_not_allowed"),
    ],
)
def test_without_a_list_only_the_countries_of_the_senders_are_allowed(now, number, prefixes, code):
    senders = {"TOCSIN_TWILIO_CALL_FROM": "+46105550100", "TOCSIN_TWILIO_SMS_FROM": "+358105550100"}

    assert find_code(number, now, **senders, TOCSIN_PHONE_PREFIXES=prefixes) == code


def test_a_messaging_service_has_no_country(now):
    assert find_code("+46701234567", now, TOCSIN_TWILIO_SMS_FROM="MG1") == "countries_not_set"
