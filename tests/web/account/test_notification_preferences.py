"""Contact methods and notification rules."""

import pytest

from models.tables.accounts import User
from models.tables.users import ContactMethod, NotificationRule
from tests.support.offenders import list_offenders


@pytest.fixture
def bob(world) -> str:
    return f"/api/account/users/{world.bob.username}"


OTHER_TYPES = [2, 3, 4, 5, 6, 0, 7, "x", None]


def test_only_email_contacts_can_be_created(ask, bob):
    def check(kind):
        body = {"name": "Phone", "contact_type": kind, "value": "bob@example.org"}

        assert ask("POST", f"{bob}/contacts/", body).status_code == 400

    assert list_offenders(check, OTHER_TYPES) == []


IMPLAUSIBLE = ["bob", "@", "bob@", "a@b\nc", "a b@c", "a@b@c", "<a@b>", "", "+4912345"]


def test_an_implausible_address_is_refused(ask, bob):
    def check(value):
        body = {"name": "Home", "contact_type": "1", "value": value}

        assert ask("POST", f"{bob}/contacts/", body).status_code == 400

    assert list_offenders(check, IMPLAUSIBLE) == []


def test_the_first_email_contact_is_created_and_deleted_with_its_rules(ask, bob, world):
    ContactMethod.delete().where(ContactMethod.user == world.bob).execute()
    body = {"name": "Home", "contact_type": "1", "value": "bob@localhost"}

    made = ask("POST", f"{bob}/contacts/", body, who="bob").json

    assert [rule["contact"] for rule in ask("GET", f"{bob}/notification_rules/").json] == [
        made["unique_id"]
    ] * 2
    assert ask("DELETE", f"{bob}/contacts/{made['unique_id']}/", who="bob").status_code == 204
    assert NotificationRule.select().where(NotificationRule.user == world.bob).count() == 0


def test_a_rule_uses_a_contact_of_its_person(ask, bob, world):
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
def test_invalid_notification_rules_are_refused(ask, bob, world, wrong):
    rule = NotificationRule.get(NotificationRule.user == world.bob)

    assert ask("PATCH", f"{bob}/notification_rules/{rule.unique_id}/", wrong).status_code == 400


def test_a_partial_change_of_a_contact_checks_the_address(ask, bob, world):
    contact = ContactMethod.get(ContactMethod.user == world.bob)
    path = f"{bob}/contacts/{contact.unique_id}/"

    assert (
        ask("PATCH", path, {"value": "bob@home.example.org"}, who="bob").json["value"]
        == "bob@home.example.org"
    )
    assert ask("PUT", path, {"name": "Home"}, who="bob").status_code == 400
    full_contact = {"name": "Home", "contact_type": 1, "value": "bob@localhost"}
    assert ask("PUT", path, full_contact, who="bob").json["name"] == "Home"
    for wrong in ({"contact_type": 2}, {"contact_type": 7}, {"value": "bob"}, {"value": None}, {"name": ""}):
        assert ask("PATCH", path, wrong, who="bob").status_code == 400


@pytest.fixture
def forwarding(world) -> dict:
    return {
        "from_date": "2026-12-24T08:00:00Z",
        "to_date": "2026-12-27T08:00:00+01:00",
        "to_user": world.charlie.username,
    }


def test_a_forwarding_rule_has_a_person_and_a_time(ask, bob, world, forwarding):
    made = ask("POST", f"{bob}/forwarding_rules/", {**forwarding, "time_zone": "Europe/Berlin"})

    assert made.status_code == 201
    shown = {name: made.json[name] for name in made.json if name not in ("unique_id", "creation_date")}
    assert shown == {
        "time_zone": "Europe/Berlin",
        "from_date": "2026-12-24T08:00:00Z",
        "to_date": "2026-12-27T07:00:00Z",
        "to_user": world.charlie.username,
        "created_by": world.alice.username,
        "user": world.bob.username,
    }
    assert ask("GET", f"{bob}/forwarding_rules/", who="bob").json == [made.json]


def test_a_person_changes_and_deletes_a_forwarding_rule(ask, bob, forwarding):
    made = ask("POST", f"{bob}/forwarding_rules/", forwarding, who="bob").json
    path = f"{bob}/forwarding_rules/{made['unique_id']}/"

    changed = ask("PATCH", path, {"to_date": "2027-01-01"}, who="bob").json
    assert (changed["to_date"], changed["time_zone"]) == ("2027-01-01T00:00:00Z", "UTC")
    assert ask("PATCH", path, {"from_date": "2027-01-01T00:00:00Z"}, who="bob").status_code == 400
    assert ask("DELETE", path, who="charlie").status_code == 403
    assert ask("DELETE", path, who="bob").status_code == 204
    assert ask("GET", path).status_code == 404


WRONG_FORWARDING = [
    {"to_user": "alice"}, {"to_user": "x"}, {"to_user": ""}, {"to_user": None}, {"to_date": ""},
    {"to_date": "2026-12-24T08:00:00Z"}, {"to_date": "2020-01-01"}, {"from_date": "soon"},
    {"from_date": None}, {"time_zone": "Mars/Olympus"},
]  # fmt: skip


def test_invalid_forwarding_rules_are_refused(ask, bob, forwarding):
    def check(wrong):
        assert ask("POST", f"{bob}/forwarding_rules/", {**forwarding, **wrong}).status_code == 400

    assert list_offenders(check, WRONG_FORWARDING, str) == []


def test_messages_are_forwarded_only_to_another_member_of_the_account(ask, bob, world, forwarding, now):
    for other_user in (world.bob, world.mallory):
        body = {**forwarding, "to_user": other_user.username}
        assert ask("POST", f"{bob}/forwarding_rules/", body).status_code == 400
    User.update(removed_at=now).where(User.id == world.charlie.id).execute()
    assert ask("POST", f"{bob}/forwarding_rules/", forwarding).status_code == 400


def test_the_profile_shows_the_viewer(ask, world, bob, forwarding):
    forwarded = ask("POST", f"{bob}/forwarding_rules/", forwarding).json

    shown = ask("GET", "/api/user/profile/", who="bob").json

    assert (shown["username"], shown["email"], shown["role"]) == (world.bob.username, "bob@example.org", 3)
    assert [contact["name"] for contact in shown["contacts"]] == ["Primary Email"]
    assert [(rule["type"], rule["user"]) for rule in shown["notification_rules"]] == [
        ("notification_rule", world.bob.username)
    ] * 2
    assert shown["forwarding_rules"] == [forwarded]
    assert shown["permissions"] == []
    (team,) = shown["teams"]
    assert team == {"unique_id": world.team.unique_id, "name": "Payments", "private": True, "members": []}
    assert "member_write" in ask("GET", "/api/user/profile/").json["permissions"]
