"""A code that was sent from an address at a provider gives the contact this address, as verified."""

from datetime import timedelta

import pytest

from models.contacts.contact_links import LIFE, create_link_code, enter_link_code
from models.domain.enums import ContactType
from models.people import provisioning
from models.tables.users import ContactLink, ContactMethod

SLACK = ContactType.SLACK


@pytest.fixture
def contact(world, now):
    return provisioning.create_contact(world.alice, "Slack", SLACK, "", now)


def test_the_code_links_the_contact_with_the_address(contact, now):
    code, _ = create_link_code(contact, now)

    linked = enter_link_code(SLACK, f" {code.lower()} ", "U1", now)

    assert linked == contact
    found = ContactMethod.get_by_id(contact.id)
    assert (found.value, found.verified_value) == ("U1", "U1")


def test_a_code_works_once(contact, now):
    code, _ = create_link_code(contact, now)
    enter_link_code(SLACK, code, "U1", now)

    assert enter_link_code(SLACK, code, "U2", now) is None
    assert ContactMethod.get_by_id(contact.id).value == "U1"


def test_a_code_is_valid_for_ten_minutes_and_for_its_type(contact, now):
    code, expires_at = create_link_code(contact, now)

    assert expires_at == now + timedelta(minutes=10) == now + LIFE
    assert enter_link_code(ContactType.SMS, code, "U1", now) is None
    assert enter_link_code(SLACK, code, "U1", expires_at) is None


def test_a_new_code_replaces_the_one_before(contact, now):
    before, _ = create_link_code(contact, now)
    code, _ = create_link_code(contact, now)

    assert enter_link_code(SLACK, before, "U1", now) is None
    assert enter_link_code(SLACK, code, "U1", now) is not None


def test_the_code_is_not_stored(contact, now):
    code, _ = create_link_code(contact, now)

    assert code not in str(ContactLink.select().dicts().get())
