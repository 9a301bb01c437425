"""What concerns the person: contacts, rules, shifts, time zone, colours."""

import re

import pytest

from models.tables.accounts import User
from models.tables.notifications import Message
from models.tables.users import ContactCode, ContactMethod, NotificationRule
from runtime.settings import load
from tests.support.schedules.stored import layer, schedule

PATH = "/mine/"


@pytest.fixture
def browser(sign_in):
    found = sign_in("bob")
    found.get(PATH)
    return found


def get_contact(world) -> ContactMethod:
    return ContactMethod.get(ContactMethod.user == world.bob)


def test_the_page_shows_contacts_and_rules_of_the_person_only(browser):
    assert "bob@example.org" in browser.last.text
    assert "alice@example.org" not in browser.last.text
    assert "High urgency, at once" in browser.last.text


def test_a_contact_is_added_and_says_what_to_do_next(browser, world):
    browser.post(PATH, act="add", name="Second mail", contact_type="1", value="bob2@example.org")
    text = browser.follow().text

    assert "bob2@example.org" in text
    assert "not verified" in text
    assert ">Verify<" in text
    assert "Within 10 minutes, enter the code that Tocsin sends to this contact." in text
    # What programs do next is no help for a person.
    assert "POST /api" not in text


def test_a_contact_that_is_verified_already_is_confirmed(browser, world):
    browser.post(PATH, act="add", name="Again", contact_type="1", value=world.bob.email)

    assert "Done." in browser.follow().text


def test_a_code_that_has_ended_is_replaced_by_a_button(browser, world):
    browser.post(PATH, act="add", name="Second mail", contact_type="1", value="bob2@example.org")
    ContactCode.delete().execute()

    text = browser.get(PATH).text
    assert "No code is valid now. Get one with the button Send a code." in text
    assert "POST /api" not in text


def test_only_channels_that_the_operator_configured_are_offered(browser, app, home):
    assert ">e-mail</option>" in browser.last.text
    assert ">Telegram</option>" not in browser.last.text

    settings = {"TOCSIN_HOME": str(home), "TOCSIN_TELEGRAM_TOKEN": "1:x"}
    app.config["SETTINGS"] = load({**settings, "TOCSIN_PUBLIC_URL": "https://tocsin.example.org"})
    assert ">Telegram</option>" in browser.get(PATH).text


def test_a_test_message_goes_to_the_contact(browser, world):
    browser.post(PATH, act="test", row=get_contact(world).unique_id)

    assert "Tocsin is sending a test message." in browser.follow().text
    assert Message.select().count() == 1


def test_a_rule_is_added_and_removed(browser, world):
    contact = get_contact(world).unique_id
    browser.post(PATH, act="add_rule", contact=contact, urgency="1", start_delay="7")
    assert "after 7 min" in browser.follow().text

    rule = NotificationRule.get(NotificationRule.start_delay == 7)
    browser.post(PATH, act="remove_rule", row=rule.unique_id)
    assert "after 7 min" not in browser.follow().text


def test_the_next_shifts_are_listed(browser, world):
    found = schedule(world.team, layer(world.bob, world.alice), name="Payments on call")

    assert f"/on-call/{found.unique_id}/" in browser.get(PATH).text


def test_a_shift_without_an_end_is_one_shift(browser, world):
    schedule(world.team, layer(world.bob), name="Payments on call")

    assert browser.get(PATH).text.count("no end</p>") == 1
    assert browser.last.text.count("Payments on call") == 1


def test_times_are_shown_in_the_new_time_zone(browser, world):
    browser.post(PATH, act="time_zone", time_zone="Asia/Kolkata")

    assert User.get_by_id(world.bob.id).time_zone == "Asia/Kolkata"
    assert "All times are now in Asia/Kolkata." in browser.follow().text
    # The zone is named once; each time has it for those who point at it.
    schedule(world.team, layer(world.bob, world.alice), name="Payments on call")
    text = browser.get(PATH).text
    assert "Times are in Asia/Kolkata (IST)." in text
    assert re.search(r'<time [^>]*title="[^"]* IST \(Asia/Kolkata\)"', text)


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../etc/passwd", "x" * 1_000])
def test_an_unknown_time_zone_is_refused(browser, world, zone):
    assert browser.post(PATH, act="time_zone", time_zone=zone).status_code == 400
    assert User.get_by_id(world.bob.id).time_zone == "UTC"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_colours_are_stored_in_the_browser(browser, theme):
    browser.post(PATH, act="theme", theme=theme)

    assert f'data-theme="{theme}"' in browser.follow().text


@pytest.mark.parametrize(
    "form",
    [
        {}, {"act": "explode"}, {"act": "theme", "theme": "pink"}, {"act": "add", "name": "x"},
        {"act": "add", "name": "x", "contact_type": "1", "value": "nobody"},
        {"act": "add_rule", "contact": "x", "urgency": "1", "start_delay": "0"},
    ],
    ids=str,
)  # fmt: skip
def test_a_form_without_sense_is_refused_with_a_reason(browser, form):
    answer = browser.post(PATH, **form)

    assert answer.status_code == 400
    assert "Nothing was changed" in answer.text


@pytest.mark.parametrize("act", ["remove", "test", "send_code", "verify", "link"])
def test_a_contact_of_another_person_does_not_exist(browser, world, act):
    contact = ContactMethod.get(ContactMethod.user == world.alice)

    assert browser.post(PATH, act=act, row=contact.unique_id, code="123456").status_code == 404


def test_the_code_that_links_a_chat_is_in_no_address(browser, app, home):
    app.config["SETTINGS"] = load(
        {
            "TOCSIN_HOME": str(home),
            "TOCSIN_PUBLIC_URL": "https://tocsin.example.org",
            "TOCSIN_TELEGRAM_TOKEN": "1:x",
        }
    )
    answer = browser.post(PATH, act="add", name="Chat", contact_type="101")

    assert (answer.status_code, answer.headers.get("Location")) == (200, None)
    assert re.search("send [0-9A-Z]{12} to Tocsin in Telegram", answer.text)


def test_a_refused_form_comes_back_with_the_text_beside_its_field(browser):
    text = browser.post(PATH, act="time_zone", time_zone="Mars/Olympus").text

    assert 'value="Mars/Olympus"' in text
    assert '<span class="at-field">Must be the name of a time zone' in text
