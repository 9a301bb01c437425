"""The history over the interface: what it shows, who reads which change, and what it costs."""

from datetime import timedelta

import pytest
from playhouse.test_utils import count_queries

from bench.servers.plans import list_scans, list_sorts
from models.domain.enums import TeamRole
from models.store.ids import make_short_id, make_uuid
from models.tables.accounts import User
from models.tables.changes import Change
from models.tables.teams import Team, TeamMember
from web.http.permissions import ADMIN, MANAGER, MEMBER, OWN

PATH = "/api/tocsin/changes/"
TEAM = "/api/account/teams"


@pytest.fixture
def service_path(world):
    return f"{TEAM}/{world.team.unique_id}/services/{world.service.unique_id}/"


@pytest.fixture
def read(ask):
    """read("bob", kind="service"): the changes that this person gets with these filters."""

    def read(who="alice", **filters):
        answer = ask("GET", PATH, who=who, query_string=filters)
        assert answer.status_code == 200, answer.json
        return answer.json["results"]

    return read


def add_changes(world, now, count, **values):
    """Add changes of Alice to the service, one a second."""
    row = {
        "account": world.account,
        "action": "changed",
        "kind": "service",
        "object_id": world.service.unique_id,
        "name": "Checkout",
        "team": world.team,
        "actor": "Alice",
        "author": world.alice,
        "way": "interface",
        "fields": [{"field": "name", "before": "a", "after": "b"}],
        **values,
    }
    rows = [
        {**row, "unique_id": make_short_id(), "batch": make_short_id(), "at": now + timedelta(seconds=place)}
        for place in range(count)
    ]
    for start in range(0, count, 500):
        Change.insert_many(rows[start : start + 500]).execute()


def test_a_change_says_who_changed_what_and_how(ask, world, service_path, read):
    assert ask("PATCH", service_path, {"name": "Kiosk", "summary": "Till"}).status_code == 200

    (change,) = read()

    row = Change.get()
    assert change == {
        "unique_id": row.unique_id,
        "at": change["at"],
        "action": "changed",
        "kind": "service",
        "object": world.service.unique_id,
        "name": "Kiosk",
        "number": 2,
        "team": world.team.unique_id,
        "person": None,
        "actor": "Alice",
        "author": world.alice.username,
        "token": "test",
        "way": "interface",
        "batch": row.batch,
        "what": "Alice changed the service Kiosk: name, summary",
        "fields": [
            {"field": "name", "before": "Checkout", "after": "Kiosk"},
            {"field": "summary", "before": "", "after": "Till"},
        ],
        "undoes": None,
        "undone_by": None,
        "can_undo": True,
        "why_not": None,
    }
    assert ask("GET", f"{PATH}{row.unique_id}/").json == change


def test_the_newest_change_comes_first_and_pages_keep_their_filters(ask, world, service_path, read):
    for name in ("A", "B", "C"):
        ask("PATCH", service_path, {"name": name})

    filters = {"object": world.service.unique_id, "kind": "service", "page_size": 2}
    first = ask("GET", PATH, query_string=filters).json
    second = ask("GET", first["next"].removeprefix("https://tocsin.example.org")).json

    assert [each["name"] for each in first["results"] + second["results"]] == ["C", "B", "A"]
    assert second["next"] is None
    assert f"object={world.service.unique_id}" in second["previous"]


def test_each_filter_finds_its_changes(ask, world, service_path, read):
    tag = ask("POST", f"{TEAM}/{world.team.unique_id}/tags/", {"name": "database", "color": "red"}).json
    ask("PATCH", service_path, {"name": "Kiosk"})
    changed, created = read()
    Change.update(at=Change.get(Change.kind == "tag").at - timedelta(days=2)).where(
        Change.kind == "tag"
    ).execute()

    def count(**filters):
        return [each["kind"] for each in read(**filters)]

    assert count(object=tag["unique_id"].upper()) == count(kind="tag") == count(action="created") == ["tag"]
    assert count(batch=created["batch"]) == ["tag"]
    assert count(way="interface", person=world.alice.username) == ["service", "tag"]
    assert count(way="page") == count(person=world.bob.username) == count(object=make_uuid()) == []
    assert count(**{"from": changed["at"]}) == ["service"]
    assert count(to=changed["at"]) == ["tag"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("object", ""),
        ("object", "x" * 65),
        ("person", "nobody"),
        ("person", ""),
        ("kind", "planet"),
        ("action", "eaten"),
        ("way", "telepathy"),
        ("batch", "x"),
        ("from", "yesterday"),
        ("to", "1066-10-14"),
        ("persons", "bob"),
    ],
)
def test_a_wrong_filter_is_refused_and_named(ask, world, name, value):
    answer = ask("GET", PATH, query_string={name: value})

    # What has the right form and does not exist is not found.
    assert answer.status_code == (404 if name in ("person", "kind") else 400)
    assert list(answer.json["errors"]) == [name]


def test_a_period_that_ends_before_it_begins_is_refused(ask, world):
    answer = ask("GET", PATH, query_string={"from": "2026-03-02", "to": "2026-03-01"})

    assert (answer.status_code, list(answer.json["errors"])) == (404, ["to"])


def test_a_person_of_another_account_is_no_filter(ask, world):
    assert ask("GET", PATH, query_string={"person": world.mallory.username}).status_code == 404


def test_members_read_what_they_may_read_of_the_object(ask, world, service_path, read):
    ask("PATCH", service_path, {"name": "Kiosk"})
    ask("POST", "/api/tocsin/stakeholders/", {"email": "press@example.org", "name": "Press"})
    contacts = f"/api/account/users/{world.charlie.username}/contacts/"
    own = {"name": "Home", "contact_type": 1, "value": "charlie@home.example.org"}
    assert ask("POST", contacts, own, who="charlie").status_code == 201

    def list_kinds(who):
        return {each["kind"] for each in read(who)}

    assert list_kinds("alice") >= {"service", "stakeholder", "contact method"}
    assert list_kinds("bob") == {"service"}
    assert list_kinds("charlie") == {"contact method"}
    assert list_kinds("mallory") == set()


def test_a_team_that_lets_all_read_its_services_lets_them_read_their_history(ask, world, service_path, read):
    ask("PATCH", service_path, {"name": "Kiosk"})
    ask("POST", f"{TEAM}/{world.team.unique_id}/tags/", {"name": "database", "color": "red"})
    Team.update(account_permissions=["service_read"]).where(Team.id == world.team.id).execute()

    (change,) = read("charlie")

    assert (change["kind"], change["can_undo"]) == ("service", False)
    assert change["why_not"] == "You do not have the permission to change it."


def test_what_only_managers_may_change_a_member_cannot_undo(ask, world, service_path, read):
    ask("PATCH", service_path, {"name": "Kiosk"})

    assert [each["can_undo"] for each in read("bob")] == [False]
    TeamMember.update(role=TeamRole.MANAGER).where(TeamMember.user == world.bob).execute()
    assert [each["can_undo"] for each in read("bob")] == [True]


def test_a_change_that_was_undone_names_the_undo(ask, world, service_path, read):
    ask("PATCH", service_path, {"name": "Kiosk"})
    (change,) = read()
    undone = ask("POST", f"{PATH}{change['unique_id']}/undo/").json

    undo, change = read()

    assert undo["undoes"] == change["unique_id"]
    assert undo["what"] == "Alice undid a change of the service Checkout: name"
    assert (change["undone_by"], undo["batch"]) == (undone["batch"], undone["batch"])
    assert (change["can_undo"], change["why_not"]) == (False, "It has been undone already.")


def test_no_answer_shows_what_a_deletion_removed_or_a_secret(ask, world, service_path):
    contacts = f"/api/account/users/{world.bob.username}/contacts/"
    ask("POST", contacts, {"name": "Home", "contact_type": 1, "value": "bob@secret.example.org"}, who="bob")
    assert ask("DELETE", service_path).status_code == 204
    removed = Change.get(Change.kind == "service").removed
    assert removed is not None

    answer = ask("GET", PATH)

    assert removed not in answer.text
    assert "bob@secret.example.org" not in answer.text
    contact = next(each for each in answer.json["results"] if each["kind"] == "contact method")
    assert {"field": "value", "secret": True} in contact["fields"]
    deleted = next(each for each in answer.json["results"] if each["action"] == "deleted")
    assert deleted["can_undo"]


def test_entries_of_the_audit_list_are_for_admins(ask, world, read):
    ask("POST", "/api/tocsin/tokens/", {"name": "laptop"}, who="bob")

    (entry,) = [each for each in read() if each["action"] == "token_created"]

    assert (entry["kind"], entry["object"], entry["can_undo"]) == (None, None, False)
    assert entry["what"] == "Bob created a token (laptop)"
    assert [each["action"] for each in read("bob") if each["kind"] is None] == []


def test_a_change_of_a_deleted_team_is_for_admins(ask, world, service_path, read):
    ask("PATCH", service_path, {"name": "Kiosk"})
    Change.update(team=None).execute()

    assert [each["team"] for each in read()] == [None]
    assert read("bob") == []


@pytest.mark.parametrize("who", ["alice", "bob"])
def test_ten_thousand_changes_of_an_object_are_read_from_an_index(ask, world, now, statements, read, who):
    add_changes(world, now, 10_000)
    object_id = world.service.unique_id

    for filters in ({}, {"object": object_id}, {"object": object_id, "page": 1000}, {"kind": "service"}):
        with statements() as seen:
            assert len(read(who, **filters)) == 10
        (page,) = [each for each in seen if 'FROM "change"' in each[0]]
        assert list_scans([page]) == []
        assert list_sorts([page]) == []


def test_a_page_of_many_changes_needs_as_many_statements_as_one_of_a_few(ask, world, now, read):
    add_changes(world, now, 1)
    read("bob")
    with count_queries() as few:
        assert len(read("bob")) == 1
    add_changes(world, now, 60, kind="tag")
    add_changes(world, now, 60, kind="schedule")
    with count_queries() as many:
        assert len(read("bob", page_size=100)) == 100
    assert many.count == few.count


def test_the_kinds_are_those_of_the_resources(app):
    from web.changes.kinds import list_kinds

    with app.app_context():
        kinds = list_kinds()

    roles = {MEMBER, OWN, ADMIN, MANAGER}
    by_role = {noun for noun, kind in kinds.items() if kind.resource.permissions.read in roles}
    # Objects of the account or of a person: no permission in a team shows them.
    assert by_role == {
        "account member",
        "added application",
        "contact method",
        "forwarding rule",
        "global router",
        "global router rule",
        "notification rule",
        "stakeholder",
        "token",
    }


def test_a_removed_person_is_a_filter_too(ask, world, now, read):
    User.update(removed_at=now).where(User.id == world.bob.id).execute()

    assert read(person=world.bob.username) == []
