"""Members of an account: permissions to change and to remove members."""

import pytest

from models.domain.enums import AccountRole
from models.people import provisioning
from models.store.ids import make_uuid
from models.store.peewee_internals import get_values
from models.tables.accounts import CustomRole, User
from tests.support.offenders import list_offenders

MEMBERS = "/api/account/members/"


def create_role(world, now, *permissions: str) -> CustomRole:
    return CustomRole.create(
        unique_id=make_uuid(),
        account=world.account,
        name=make_uuid(),
        permissions=permissions,
        creation_date=now,
    )


@pytest.fixture
def admin(world, now) -> User:
    """Create another admin, with a token named "admin"."""
    user = provisioning.create_user(world.account, "admin@example.org", AccountRole.ADMIN, now)
    world.tokens["admin"] = provisioning.issue_token(user, "test", now)
    return user


@pytest.fixture
def writer(world, now) -> User:
    """Return Charlie with a custom role that has the permission member_write."""
    User.update(custom_role=create_role(world, now, "member_write")).where(
        User.id == world.charlie.id
    ).execute()
    return world.charlie


def get_member_path(user: User) -> User:
    return User.get_by_id(user.id)


def test_removed_members_are_not_found(ask, world, now):
    User.update(removed_at=now).where(User.id == world.charlie.id).execute()

    listed = [member["user"]["first_name"] for member in ask("GET", "/api/account/members/").json]
    assert listed == ["Alice", "Bob"]
    assert ask("GET", f"/api/account/members/{world.charlie.username}/").status_code == 404


def test_a_member_changes_their_own_data(ask, world):
    path = f"{MEMBERS}{world.bob.username}/"
    body = {"time_zone": "Europe/Berlin", "user": {"username": world.bob.username, "first_name": "Robert"}}

    changed = ask("PUT", path, body, who="bob")

    assert changed.status_code == 200
    assert changed.json["time_zone"] == "Europe/Berlin"
    assert changed.json["user"]["first_name"] == "Robert"
    assert ask("PUT", path, body, who="charlie").status_code == 403


def test_missing_fields_keep_their_values(ask, world, admin):
    """This includes the role, although the specification has a default for it."""
    path = f"{MEMBERS}{admin.username}/"
    ask("PATCH", path, {"time_zone": "Asia/Tokyo"})

    changed = ask("PUT", path, {"user": {"last_name": "Miller"}}).json

    assert (changed["role"], changed["time_zone"]) == (2, "Asia/Tokyo")
    assert changed["user"] == {
        "username": admin.username, "first_name": "", "last_name": "Miller", "email": "admin@example.org",
    }  # fmt: skip


WRONG_CHANGES = [
    {"user": {"username": "0" * 8}}, {"user": {"username": ""}}, {"user": 7}, {"user": None}, {"role": 4},
    {"role": 1}, {"time_zone": "Mars/Olympus"}, {"user": {"first_name": "x" * 256}},
]  # fmt: skip


def test_invalid_changes_are_refused(ask, world):
    def check(wrong):
        before = get_values(get_member_path(world.bob))

        assert ask("PATCH", f"{MEMBERS}{world.bob.username}/", wrong).status_code == 400
        assert get_values(get_member_path(world.bob)) == before

    assert list_offenders(check, WRONG_CHANGES, str) == []


def test_the_nested_form_does_not_change_the_address(ask, world):
    body = {"user": {"username": world.bob.username, "email": "evil@example.org"}}

    assert ask("PUT", f"{MEMBERS}{world.bob.username}/", body).json["user"]["email"] == "bob@example.org"


def test_a_put_of_the_specification_needs_the_username(ask, world):
    path = f"{MEMBERS}{world.bob.username}/"

    assert ask("PUT", path, {"time_zone": "UTC"}).status_code == 400
    assert ask("PUT", path, {"time_zone": "UTC"}, scheme="Token").status_code == 200


def test_the_flat_form_changes_the_address_too(ask, world):
    path = f"/api/account/users/{world.bob.username}/"
    body = {"email": "robert@example.org", "first_name": "Robert", "last_name": "B", "role": 2}

    changed = ask("PATCH", path, body, scheme="token").json

    assert changed["user"] == {"username": world.bob.username, "first_name": "Robert", "last_name": "B",
                               "email": "robert@example.org"}  # fmt: skip
    assert changed["role"] == 2


def test_addresses_of_members_are_unique(ask, world, now):
    path = f"/api/account/users/{world.bob.username}/"

    assert ask("PATCH", path, {"email": "CHARLIE@example.org"}).status_code == 400
    assert ask("PATCH", path, {"email": "mallory@example.net"}).status_code == 200
    assert ask("PATCH", path, {"email": "Mallory@Example.net"}).status_code == 200
    User.update(removed_at=now).where(User.id == world.charlie.id).execute()
    assert ask("PATCH", path, {"email": "charlie@example.org"}).status_code == 200


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("j\u00f6rg@example.org", "J\u00d6RG@EXAMPLE.ORG"),
        ("stra\u00dfe@example.org", "STRASSE@example.org"),
        ("jo\u0308rg@example.org", "j\u00f6rg@example.org"),
        ("\u03bf\u03c2@example.org", "\u039f\u03a3@example.org"),
        ("i@example.org", "I@example.org"),
    ],
)
def test_addresses_in_every_script_are_compared_without_case(ask, world, first, second):
    """The stores fold only some letters: SQLite those of ASCII, PostgreSQL those of its locale."""
    charlie = f"/api/account/users/{world.charlie.username}/"
    bob = f"/api/account/users/{world.bob.username}/"

    assert ask("PATCH", charlie, {"email": first}).status_code == 200
    assert ask("PATCH", bob, {"email": second}).status_code == 400
    assert ask("PATCH", charlie, {"email": second}).status_code == 200


def test_only_the_member_and_admins_change_an_address(ask, world, writer):
    path = f"/api/account/users/{world.bob.username}/"

    assert (
        ask("PATCH", path, {"email": "bob@example.org", "first_name": "B"}, who="charlie").status_code == 200
    )
    assert ask("PATCH", path, {"email": "x@example.org"}, who="charlie").status_code == 403
    assert ask("PATCH", path, {"email": "x@example.org"}, who="bob").status_code == 200


def test_a_member_cannot_give_a_higher_role_than_their_own(ask, world, admin, writer):
    bob, charlie = (f"{MEMBERS}{user.username}/" for user in (world.bob, world.charlie))

    assert ask("PATCH", bob, {"role": 2}, who="bob").status_code == 403
    assert ask("PATCH", bob, {"role": 2}, who="charlie").status_code == 403
    assert ask("PATCH", charlie, {"role": 2}, who="charlie").status_code == 403
    assert ask("PATCH", bob, {"role": 3, "user": {"first_name": "R"}}, who="charlie").status_code == 200
    assert ask("PATCH", bob, {"role": 2}, who="admin").status_code == 200
    assert ask("PATCH", bob, {"role": 1}, who="admin").status_code == 400


def test_members_with_a_higher_role_cannot_be_changed(ask, world, admin, writer):
    alice, above = (f"{MEMBERS}{user.username}/" for user in (world.alice, admin))

    for change in ({"time_zone": "UTC"}, {"role": 3}, {"role": 1}):
        assert ask("PATCH", alice, change, who="admin").status_code == 403
        assert ask("PATCH", above, change, who="charlie").status_code == 403


def test_the_owner_keeps_the_role(ask, world):
    path = f"{MEMBERS}{world.alice.username}/"

    assert ask("PATCH", path, {"role": 2}).status_code == 400
    assert ask("PATCH", path, {"role": 1, "time_zone": "Europe/Paris"}).status_code == 200
    assert get_member_path(world.alice).role == AccountRole.OWNER


def test_a_removed_member_loses_access_at_once(ask, world):
    assert ask("GET", MEMBERS, who="bob").status_code == 200

    assert ask("POST", "/api/account/deleteuser/", {"username": world.bob.username}).status_code == 204

    assert ask("GET", MEMBERS, who="bob").status_code == 401
    assert ask("GET", f"{MEMBERS}{world.bob.username}/").status_code == 404
    assert ask("POST", "/api/account/deleteuser/", {"username": world.bob.username}).status_code == 400


def test_members_cannot_remove_themselves_the_owner_or_a_higher_role(ask, world, admin, writer):
    def remove(user: User, who: str) -> int:
        return ask("POST", "/api/account/deleteuser/", {"username": user.username}, who=who).status_code

    assert remove(world.alice, "alice") == remove(world.alice, "admin") == remove(admin, "admin") == 400
    assert remove(world.charlie, "charlie") == remove(world.alice, "charlie") == 400
    assert remove(admin, "charlie") == remove(world.charlie, "bob") == 403
    assert remove(world.mallory, "alice") == 400
    assert User.select().where(User.removed_at.is_null(False)).count() == 0
    assert remove(world.bob, "charlie") == 204
    assert remove(admin, "alice") == 204


@pytest.mark.parametrize(
    "body", [{}, {"username": ""}, {"username": 7}, {"username": None}, {"username": "x"}, []]
)
def test_removals_of_unknown_members_are_refused(ask, body):
    assert ask("POST", "/api/account/deleteuser/", body).status_code == 400


def test_a_new_address_before_joining_also_changes_the_contact(ask, world):
    invited = {"email": "dorra@example.org", "first_name": "Dora", "last_name": "", "role": 3}
    made = ask("POST", "/api/account/api_invite/", {"team": world.team.unique_id, "user_detail": invited})
    username = made.json["user"]["username"]

    ask("PATCH", f"/api/account/users/{username}/", {"email": "dora@example.org"})

    contacts = ask("GET", f"/api/account/users/{username}/contacts/").json
    assert [contact["value"] for contact in contacts] == ["dora@example.org"]
