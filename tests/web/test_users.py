"""Contact methods and notification rules."""

import pytest

from models.users import ContactMethod, NotificationRule


@pytest.fixture
def bob(world) -> str:
    return f"/api/account/users/{world.bob.username}"


@pytest.mark.parametrize("kind", [2, 3, 4, 5, 6, 0, 7, "x", None])
def test_only_email_contacts_are_made_here(ask, bob, kind):
    body = {"name": "Phone", "contact_type": kind, "value": "bob@example.org"}

    assert ask("POST", f"{bob}/contacts/", body).status_code == 400


@pytest.mark.parametrize("value", ["bob", "@", "bob@", "a@b\nc", "a b@c", "a@b@c", "<a@b>", "", "+4912345"])
def test_a_contact_is_a_plausible_address(ask, bob, value):
    body = {"name": "Home", "contact_type": "1", "value": value}

    assert ask("POST", f"{bob}/contacts/", body).status_code == 400


def test_the_first_email_contact_comes_with_rules_and_goes_with_them(ask, bob, world):
    ContactMethod.delete().where(ContactMethod.user == world.bob).execute()
    body = {"name": "Home", "contact_type": "1", "value": "bob@localhost"}

    made = ask("POST", f"{bob}/contacts/", body, who="bob").json

    assert [rule["contact"] for rule in ask("GET", f"{bob}/notification_rules/").json] == [
        made["unique_id"]
    ] * 2
    assert ask("DELETE", f"{bob}/contacts/{made['unique_id']}/", who="bob").status_code == 204
    assert NotificationRule.select().where(NotificationRule.user == world.bob).count() == 0


def test_a_rule_names_a_contact_of_its_person(ask, bob, world):
    own, alices = (ContactMethod.get(ContactMethod.user == user) for user in (world.bob, world.alice))
    path = f"{bob}/notification_rules/"

    assert ask("POST", path, {"contact": alices.unique_id}, who="bob").status_code == 400
    made = ask("POST", path, {"contact": own.unique_id, "start_delay": "5"}, who="bob").json
    assert (made["start_delay"], made["urgency"], made["type"]) == (5, 1, "")
    one = f"{path}{made['unique_id']}/"
    changed = ask("PUT", one, {"contact": own.unique_id, "start_delay": 0, "urgency": 0}, who="bob").json
    assert (changed["start_delay"], changed["urgency"]) == (0, 0)


@pytest.mark.parametrize(
    "wrong", [{"start_delay": -1}, {"start_delay": 10**7}, {"urgency": 2}, {"contact": ""}]
)
def test_rules_that_cannot_be(ask, bob, world, wrong):
    rule = NotificationRule.get(NotificationRule.user == world.bob)

    assert ask("PATCH", f"{bob}/notification_rules/{rule.unique_id}/", wrong).status_code == 400
