"""The audit list: what it contains, and who reads it."""

import pytest

from models.changes.record import Actor
from models.domain.enums import AccountRole, Way
from models.sign_in import audit
from models.store.store import store
from models.tables.accounts import Token
from models.tables.changes import Change
from tests.support.offenders import list_offenders
from web.http import recording
from web.http.permissions import ACCOUNT_PERMISSIONS
from web.pages.sign_in import audit_list


def record(user, **more):
    with store().write_transaction():
        audit.record(user, "signed_in", store().now(), **more)


def test_the_owner_reads_the_entries_of_the_account(sign_in, world):
    record(world.bob, detail="password", client="192.0.2.7")
    record(world.mallory)

    page = sign_in("alice").get("/audit/")

    assert page.status_code == 200
    for words in ("Bob", "signed in", "password", "192.0.2.7", "bob@example.org"):
        assert words in page.text
    assert "mallory" not in page.text


def select_entries():
    return Change.select().where(Change.kind == "").order_by(Change.id)


def test_a_plain_member_does_not_read_it(sign_in, world):
    assert sign_in("bob").get("/audit/").status_code == 403


def test_changes_of_rights_are_in_the_list(ask, world):
    member = f"/api/account/members/{world.bob.username}/"
    assert ask("PATCH", member, {"role": AccountRole.ADMIN}).status_code == 200
    team = f"/api/account/teams/{world.team.unique_id}/members/"
    assert ask("POST", team, {"user": world.charlie.username}).status_code == 201
    assert ask("POST", "/api/tocsin/tokens/", {"name": "laptop"}).status_code == 201
    body = {"team": world.team.unique_id, "user_detail": {"email": "dora@example.org"}}
    assert ask("POST", "/api/account/api_invite/", body).status_code == 201
    assert ask("POST", "/api/account/deleteuser/", {"username": world.bob.username}).status_code == 204

    found = [(each.actor, each.action, each.detail) for each in select_entries()]
    assert found == [
        ("Alice", "role_changed", "to admin"),
        ("Alice", "team_changed", "user of Payments"),
        ("Alice", "token_created", "laptop"),
        ("Alice", "invited", "as user into Payments"),
        ("Alice", "removed", ""),
    ]


def test_changes_of_the_rights_of_many_are_in_the_list(ask, sign_in, world):
    role = {"name": "Support", "permissions": ["team_read", "member_read"]}
    made = ask("POST", "/api/account/customroles/", role).json["unique_id"]
    path = f"/api/account/customroles/{made}/"
    assert ask("PATCH", path, {"permissions": ["team_read"]}).status_code == 200
    assert ask("PATCH", path, {"description": "x"}).status_code == 200
    assert ask("DELETE", path).status_code == 204
    team = f"/api/account/teams/{world.team.unique_id}/permissions/"
    for given in (["team_read", "incident_read"], ["team_read", "service_read"]):
        assert ask("PATCH", team, {"account_permissions": given}).status_code == 200

    found = [(each.actor, each.action, each.detail) for each in select_entries()]
    assert found == [
        ("Alice", "custom_role_changed", "Support: +member_read, +team_read"),
        ("Alice", "custom_role_changed", "Support: -member_read"),
        ("Alice", "custom_role_changed", "Support: removed"),
        ("Alice", "team_permissions_changed", "Payments: +incident_read, +team_read"),
        ("Alice", "team_permissions_changed", "Payments: +service_read, -incident_read"),
    ]
    assert "Payments: +service_read, -incident_read" in sign_in("alice").get("/audit/").text


def test_the_same_permissions_again_are_no_change(ask, world):
    team = f"/api/account/teams/{world.team.unique_id}/permissions/"
    given = ask("GET", team).json["account_permissions"]
    assert ask("PATCH", team, {"account_permissions": given}).status_code == 200

    assert Change.select().count() == 0


def test_changes_that_have_no_place_in_an_entry_are_counted(ask, world):
    permissions = sorted(ACCOUNT_PERMISSIONS)
    role = {"name": "S" * 100, "permissions": permissions}
    assert ask("POST", "/api/account/customroles/", role).status_code == 201

    detail = select_entries().get().detail
    assert detail.startswith(f"{'S' * 59}…: +{permissions[0]}, +{permissions[1]}, ")
    shown = detail.split(": ")[1].split(", ")
    assert shown[-1] == f"{len(permissions) - len(shown) + 1} more"
    assert len(detail) <= 255


def test_each_number_of_changes_fits_and_none_is_lost():
    def check(count):
        names = [f"permission_{number:02}" for number in range(count)]

        detail = recording.describe_permissions("Support", [], names)

        shown = detail.removeprefix("Support: ").split(", ")
        more = int(shown.pop().removesuffix(" more")) if detail.endswith("more") else 0
        assert (len(shown) + more, len(detail) <= 255) == (count, True)

    assert list_offenders(check, [*range(1, 40)]) == []


def test_a_text_that_was_longer_ends_with_a_mark(world):
    record(world.bob, detail="x" * 256)
    assert Change.get().detail == "x" * 254 + "…"


def test_changes_of_addresses_and_of_the_end_of_tokens_are_in_the_list(ask, world):
    users = f"/api/account/users/{world.bob.username}/"
    assert ask("PATCH", users, {"first_name": "Robert"}).status_code == 200
    assert ask("PATCH", users, {"email": "robert@example.org"}).status_code == 200
    row = Token.get(Token.user == world.bob)
    token = f"/api/tocsin/users/{world.bob.username}/tokens/{row.unique_id}/"
    assert ask("PATCH", token, {"name": "laptop"}).status_code == 200
    assert ask("PATCH", token, {"expires_at": "2100-01-01T00:00:00Z"}).status_code == 200
    assert ask("DELETE", token).status_code == 204

    found = [(each.user_id, each.action, each.detail) for each in select_entries()]
    assert found == [
        (world.bob.id, "address_changed", ""),
        (world.bob.id, "token_changed", "laptop"),
        (world.bob.id, "token_revoked", "laptop"),
    ]


def test_a_long_list_has_pages(sign_in, world, monkeypatch):
    monkeypatch.setattr(audit_list, "PAGE_SIZE", 3)
    for number in range(4):
        record(world.bob, detail=f"way {number}.")
    browser = sign_in("alice")

    first = browser.get("/audit/").text
    older = Change.get(Change.detail == "way 1.").id
    assert ("way 3." in first, "way 0." in first, f"before={older}" in first) == (True, False, True)
    assert "way 0." in browser.get(f"/audit/?before={older}").text


@pytest.mark.parametrize("before", ["", "x", "-1", "9" * 40, "1e3", "%00"])
def test_an_odd_page_number_is_no_error(sign_in, before):
    assert sign_in("alice").get(f"/audit/?before={before}").status_code == 200


def test_hostile_names_are_shown_as_text(sign_in, world):
    record(world.bob, actor=Actor("<script>alert(1)</script>", Way.PAGE), detail="<img src=x>")

    page = sign_in("alice").get("/audit/").text
    assert "<script>alert" not in page
    assert "<img" not in page
