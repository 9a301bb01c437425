"""Contacts of all types are created and verified by our own operation."""

import re
from datetime import timedelta

import pytest

from models.contacts import contact_links
from models.domain.channels import (
    AT_ONCE,
    CHANNELS,
    CONTACT_TYPES,
    PHONE_DELAYS,
    PHONE_UNITS,
    SMS_UNITS,
    AddressForm,
    ChannelSpec,
)
from models.domain.enums import ContactType, MessageKind, OtherContactType, Urgency, Verification
from models.domain.values import replace
from models.store.store import store
from models.tables.accounts import ConfigVersion
from models.tables.notifications import Attempt, Message
from models.tables.users import ContactCode, ContactMethod, NotificationRule
from runtime import settings
from runtime.settings import load
from tests.support.offenders import list_offenders
from web.account import message_limits

NOTEBOOK, CHAT, BROWSER, PHONE = 199, 198, 197, 196
NUMBER = AddressForm("a phone number", re.compile(r"\+[1-9][0-9]{6,14}"), 16)


@pytest.fixture(autouse=True)
def channels(monkeypatch, enqueued):
    """Add a channel of each kind. Their files do not exist: nothing is sent here."""
    for spec in (
        ChannelSpec(NOTEBOOK, "notebook", "notebook pages"),
        ChannelSpec(CHAT, "chat", "a chat", verification=Verification.LINK),
        ChannelSpec(BROWSER, "browser", "a browser", verification=Verification.BROWSER),
        ChannelSpec(
            PHONE, "call", "a call", address=NUMBER, rule_delays=PHONE_DELAYS, toll_units=PHONE_UNITS
        ),
    ):
        monkeypatch.setitem(CHANNELS, spec.contact_type, spec)
        monkeypatch.setitem(CONTACT_TYPES, spec.contact_type, spec.title)


@pytest.fixture
def own(world):
    return f"/api/tocsin/users/{world.bob.username}/contacts/"


@pytest.fixture
def spec(world):
    """The path of the operation of the interface specification."""
    return f"/api/account/users/{world.bob.username}/contacts/"


@pytest.fixture
def add(ask, own):
    """add(contact_type, value): create a contact of Bob. Return the answer."""

    def add(contact_type, value="", status=201):
        body = {"name": "Mine", "contact_type": contact_type, "value": value}
        answer = ask("POST", own, body, who="bob")
        assert answer.status_code == status, answer.json
        return answer.json

    return add


def list_rules(contact):
    rules = NotificationRule.select().join(ContactMethod).where(ContactMethod.unique_id == contact)
    return sorted((rule.urgency, rule.start_delay) for rule in rules)


# --- verification ----------------------------------------------------------------------------------


def test_a_contact_with_an_address_is_verified_by_a_code_and_then_has_rules(ask, own, add, world):
    made = add(NOTEBOOK, "kitchen wall")
    assert (made["is_verified"], made["verification"], made["value"]) == (False, "code", "kitchen wall")
    assert made["next_step"].endswith(f"POST {own}{made['unique_id']}/verify/.")
    assert (Message.get().kind, Message.get().channel) == (MessageKind.CODE, NOTEBOOK)
    assert list_rules(made["unique_id"]) == []
    before = ConfigVersion.get(ConfigVersion.account == world.account).version

    code = ContactCode.get().code
    assert (
        ask("POST", f"{own}{made['unique_id']}/verify/", {"code": code}, who="bob").json["is_verified"]
        is True
    )

    assert list_rules(made["unique_id"]) == [(Urgency.LOW, 0), (Urgency.HIGH, 0)]
    assert ConfigVersion.get(ConfigVersion.account == world.account).version > before
    (shown,) = [contact for contact in ask("GET", own, who="bob").json if contact["name"] == "Mine"]
    assert (shown["is_verified"], shown["next_step"], shown["expires_at"]) == (True, "", None)


def test_a_contact_without_an_address_is_linked_by_its_code(ask, own, add, spec):
    made = add(CHAT)
    assert (made["value"], made["is_verified"]) == ("", False)
    assert made["link_code"] in made["next_step"]
    assert Message.select().count() == 0
    shown = ask("GET", f"{spec}{made['unique_id']}/", who="bob").json
    assert (shown["value"], shown["contact_type"]) == ("", CHAT)

    with store().write_transaction():
        assert contact_links.enter_link_code(CHAT, made["link_code"], "chat 7", store().now())

    (linked,) = [contact for contact in ask("GET", own, who="bob").json if contact["name"] == "Mine"]
    assert (linked["value"], linked["is_verified"], linked["link_code"]) == ("chat 7", True, None)
    assert list_rules(made["unique_id"]) == [(Urgency.LOW, 0), (Urgency.HIGH, 0)]


def test_a_new_link_code_ends_the_code_before_it(ask, own, add):
    made = add(CHAT)
    again = ask("POST", f"{own}{made['unique_id']}/link/", who="bob").json

    assert again["link_code"] != made["link_code"]
    with store().write_transaction():
        assert contact_links.enter_link_code(CHAT, made["link_code"], "chat 7", store().now()) is None
        assert contact_links.enter_link_code(CHAT, again["link_code"], "chat 7", store().now())
    assert ask("POST", f"{own}{made['unique_id']}/code/", who="bob").status_code == 400


def test_only_a_linked_type_has_link_codes(ask, own, add):
    made = add(NOTEBOOK, "kitchen wall")

    assert ask("POST", f"{own}{made['unique_id']}/link/", who="bob").status_code == 400


def test_a_phone_contact_gets_a_rule_for_high_urgency_only(ask, own, add):
    made = add(PHONE, "+46701234567")
    body = {"code": ContactCode.get().code}
    assert ask("POST", f"{own}{made['unique_id']}/verify/", body, who="bob").status_code == 200

    assert list_rules(made["unique_id"]) == [(Urgency.HIGH, 10)]


def test_rules_that_a_person_deleted_do_not_return_with_a_new_code(ask, own, add, spec):
    made = add(NOTEBOOK, "kitchen wall")
    path = f"{own}{made['unique_id']}/"
    ask("POST", f"{path}verify/", {"code": ContactCode.get().code}, who="bob")
    NotificationRule.delete().execute()
    Message.update(created_at=store().now() - timedelta(minutes=1)).execute()
    ContactCode.delete().execute()
    changed = {"value": "bathroom wall"}
    assert ask("PATCH", f"{spec}{made['unique_id']}/", changed, who="bob").status_code == 200
    row = ContactMethod.get(ContactMethod.unique_id == made["unique_id"])
    ContactCode.delete().execute()
    ContactCode.create(
        contact=row, value=row.value, code="123456", expires_at=store().now() + timedelta(minutes=5)
    )

    assert ask("POST", f"{path}verify/", {"code": "123456"}, who="bob").json["is_verified"] is True
    assert list_rules(made["unique_id"]) == []


# --- what is refused -------------------------------------------------------------------------------


UNFIT_ADDRESSES = [
    (NOTEBOOK, "", "value"),
    (NOTEBOOK, "two\nlines", "value"),
    (NOTEBOOK, "x" * 321, "value"),
    (PHONE, "0701234567", "value"),
    (CHAT, "chat 7", "value"),
    (BROWSER, "", "contact_type"),
    (0, "x", "contact_type"),
    (999, "x", "contact_type"),
]


def test_an_address_must_fit_its_channel(add):
    def check(case):
        contact_type, value, field = case
        assert list(add(contact_type, value, status=400)["errors"]) == [field]
        assert ContactMethod.select().where(ContactMethod.name == "Mine").count() == 0

    assert list_offenders(check, UNFIT_ADDRESSES) == []


def test_a_channel_that_is_not_configured_names_the_missing_setting(monkeypatch, add):
    needed = tuple(
        replace(setting, needed_by=("notebook",)) if setting.name == "smtp_user" else setting
        for setting in settings.SETTINGS
    )
    monkeypatch.setattr(settings, "SETTINGS", needed)

    why = add(NOTEBOOK, "kitchen wall", 400)["errors"]["contact_type"][0]
    assert why == "The operator has not configured this channel: TOCSIN_SMTP_USER is not set."


def test_an_email_contact_can_be_created_before_a_relay_is_set(add):
    assert add(1, "bob@home.example.org")["verification"] == "code"


def test_the_operation_of_the_specification_creates_email_only_and_names_ours(ask, spec):
    for contact_type in (2, 3, 4, 5, 6, NOTEBOOK):
        body = {"name": "Mine", "contact_type": contact_type, "value": "bob@example.org"}
        answer = ask("POST", spec, body, who="bob")
        assert answer.status_code == 400
        assert "POST /api/tocsin/users/<username>/contacts/" in answer.json["errors"]["contact_type"][0]


def test_a_change_of_type_or_value_does_not_skip_the_verification(ask, spec, add):
    made = add(NOTEBOOK, "bob@home.example.org")
    row = ContactMethod.unique_id == made["unique_id"]
    ContactMethod.update(verified_value="bob@home.example.org").where(row).execute()
    path = f"{spec}{made['unique_id']}/"

    assert ask("PATCH", path, {"contact_type": PHONE}, who="bob").status_code == 400
    assert ask("PATCH", path, {"contact_type": 1}, who="bob").status_code == 200
    assert ContactMethod.get(row).verified_value is None
    assert [code.value for code in ContactCode.select() if code.contact_id == ContactMethod.get(row).id] == []

    linked = add(CHAT)
    path = f"{spec}{linked['unique_id']}/"
    assert ask("PATCH", path, {"value": "chat of somebody else"}, who="bob").status_code == 400
    assert ask("PATCH", path, {"name": "Team chat"}, who="bob").json["name"] == "Team chat"


def test_contacts_of_others_cannot_be_created_or_seen(ask, own):
    body = {"name": "Mine", "contact_type": NOTEBOOK, "value": "kitchen wall"}

    assert [ask("POST", own, body, who=who).status_code for who in ("charlie", "mallory")] == [403, 404]
    assert [ask("GET", own, who=who).status_code for who in ("charlie", "mallory")] == [403, 404]
    assert ask("POST", own, body, who="alice").status_code == 201


# --- messages that cost money ----------------------------------------------------------------------


def test_only_numbers_of_the_allowed_countries_can_be_contacts(app, home, add):
    app.config["SETTINGS"] = load({"TOCSIN_HOME": str(home), "TOCSIN_PHONE_PREFIXES": "+46,+1"})

    why = add(PHONE, "+882123456789", 400)["errors"]["value"][0]
    assert why == "The operator allows only phone numbers that begin with +46, +1."
    assert add(PHONE, "+46701234567")["is_verified"] is False


def test_codes_leave_half_of_the_daily_units_for_incidents(app, home, add, world):
    app.config["SETTINGS"] = load({"TOCSIN_HOME": str(home), "TOCSIN_PHONE_DAILY_LIMIT": "12"})
    at = store().now() - timedelta(hours=1)
    sent = Message.create(
        message_id="1", account=world.account, user=world.bob, channel=PHONE, created_at=at,
        next_attempt_at=at, state=1, done_at=at,
    )  # fmt: skip
    for _ in range(2):
        Attempt.create(message=sent, at=at, outcome="sent", detail="", milliseconds=1)

    assert "have used the 12 units" in add(PHONE, "+46701234567", 400)["errors"]["value"][0]


def test_a_number_is_added_to_two_channels_at_once(add):
    for channel in (PHONE, NOTEBOOK):
        assert add(channel, "+46701234567")["expires_at"] is not None
    assert add(PHONE, "+46701234567")["expires_at"] is None


def test_few_codes_are_sent_to_numbers_that_cost_money(add, own, ask, monkeypatch):
    monkeypatch.setattr(message_limits, "TOLL_PERSON", ((2, 3600.0),))
    for digit in (1, 2, 3):
        add(PHONE, f"+4670123456{digit}")

    assert Message.select().where(Message.kind == MessageKind.CODE).count() == 2
    contact = ContactMethod.get(ContactMethod.value == "+46701234563")
    assert ask("POST", f"{own}{contact.unique_id}/code/", who="bob").status_code == 429


def test_channels_have_the_defaults_of_the_contract():
    """The kinds of contacts cost money, are linked, or come from a browser, wherever their line is."""
    units = {ContactType.SMS: SMS_UNITS, ContactType.PHONE: PHONE_UNITS}
    kinds = dict.fromkeys((ContactType.SLACK, OtherContactType.TELEGRAM), Verification.LINK)
    kinds[OtherContactType.WEB_PUSH] = Verification.BROWSER
    delays = {ContactType.SMS: {1: 5, 0: 5}, ContactType.PHONE: {1: 10}}
    for number in set(CHANNELS) - {NOTEBOOK, CHAT, BROWSER, PHONE}:
        channel = CHANNELS[number]
        assert channel.toll_units == units.get(number, 0)
        assert channel.verification is kinds.get(number, Verification.CODE)
        assert channel.rule_delays == delays.get(number, AT_ONCE)
