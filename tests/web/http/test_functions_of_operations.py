"""What operations do is a function of the viewer, which applies permission and limits for views and pages."""

import sys

import pytest

from models.store.ids import make_uuid
from models.store.store import connection
from models.tables.incidents import IncidentNote
from models.tables.teams import Tag, Team
from tests.support.offenders import list_offenders
from web.account.notification_preferences import CONTACTS
from web.http.auth import Operation, Viewer
from web.http.resource import Resource
from web.incidents.incidents import create_incident
from web.incidents.notes import INCIDENT_NOTES
from web.routes import ROUTES
from web.teams.labels import TAGS
from web.teams.teams import TEAMS

RESOURCES = list(dict.fromkeys(
    route.view.__self__ for route in ROUTES if isinstance(getattr(route.view, "__self__", None), Resource)
))  # fmt: skip
OF_TEAMS = [each for each in RESOURCES if each.parent_field.rel_model is Team and each.page is None]


def list_functions(route) -> list[Operation]:
    """Return the functions of operations that a view calls."""
    module, names = sys.modules[route.view.__module__], route.view.__code__.co_names
    found = [getattr(module, name, None) for name in names]
    return [each for each in found if isinstance(each, Operation)]


def test_a_function_requires_the_permission_that_the_list_of_operations_names():
    def check(route):
        assert {each.permission for each in list_functions(route)} <= {route.permission}

    assert list_offenders(check, ROUTES, lambda route: route.name) == []


def test_the_limit_of_a_resource_has_the_name_of_the_operation_in_the_description():
    limited = [route for route in ROUTES if route.rate_limits and hasattr(route.view, "__self__")]

    assert limited
    assert {route.name for route in limited} == {
        route.view.__self__.name_operation(route.view.__name__) for route in limited
    }


@pytest.fixture
def view(app, world):
    """view("bob"): this person as a viewer who needs no permission yet."""
    with app.app_context(), connection():
        yield lambda who: Viewer(getattr(world, who), getattr(world, who).account, "")


@pytest.mark.parametrize("who", ["alice", "bob", "charlie"])
@pytest.mark.parametrize("resource", OF_TEAMS, ids=lambda resource: resource.noun)
def test_a_viewer_sees_the_rows_of_the_teams_whose_lists_are_not_refused(world, view, resource, who):
    viewer = view(who)
    listed = [
        row.unique_id
        for team in (world.team, world.charlies_team)
        if resource.may(viewer, "index", team)
        for row in resource.list_rows(viewer, team_id=team.unique_id)
    ]

    assert sorted(row.unique_id for row in resource.select_visible(viewer)) == sorted(listed)


def test_the_names_of_a_team_are_those_that_its_list_has(world, view, now):
    Team.update(account_permissions=[]).execute()
    for team, name in ((world.team, "database"), (world.charlies_team, "network")):
        Tag.create(unique_id=make_uuid(), team=team, name=name, creation_date=now)

    assert [name for _, name in TAGS.list_names(view("bob"))] == ["database"]
    assert TAGS.list_names(view("bob"), world.charlies_team) == []
    assert {name for _, name in TAGS.list_names(view("alice"))} == {"database", "network"}


@pytest.mark.parametrize("verb", ["index", "create", "update", "destroy"])
@pytest.mark.parametrize("who", ["alice", "bob", "charlie"])
def test_a_verb_that_may_not_be_used_is_the_one_that_is_refused(ask, world, view, now, who, verb):
    tag = Tag.create(unique_id=make_uuid(), team=world.team, name="database", creation_date=now)
    may = TAGS.may(view(who), verb, tag)
    path = f"/api/account/teams/{world.team.unique_id}/tags/"
    method = {"index": "GET", "create": "POST", "update": "PATCH", "destroy": "DELETE"}[verb]
    answer = ask(method, path if verb in ("index", "create") else f"{path}{tag.unique_id}/", {}, who=who)

    assert bool(may) is (answer.status_code != 403)
    assert bool(may.who_can) is (answer.status_code == 403)


@pytest.mark.parametrize(("who", "may_change"), [("alice", True), ("bob", True), ("charlie", False)])
def test_a_plain_member_may_change_own_notes_only(world, view, who, may_change):
    values = {"service": world.service.unique_id, "title": "Disk full"}
    incident = create_incident(view("alice"), values)
    number = str(incident.incident_number)
    own = INCIDENT_NOTES.create_row(view("bob"), {"note": "I look."}, incident=number)
    other = INCIDENT_NOTES.create_row(view("alice"), {"note": "Call me."}, incident=number)

    assert bool(INCIDENT_NOTES.may(view(who), "update", own)) is may_change
    assert bool(INCIDENT_NOTES.may(view(who), "update", other)) is (who == "alice")
    assert IncidentNote.select().count() == 2


def test_a_person_may_change_own_contacts_and_admins_those_of_others(world, view):
    assert CONTACTS.may(view("bob"), "create", world.bob)
    assert CONTACTS.may(view("alice"), "create", world.bob)
    assert not CONTACTS.may(view("bob"), "create", world.charlie)
    # An admin must not change how the owner is notified.
    assert not CONTACTS.may(view("bob"), "create", world.alice)


def test_only_managers_change_a_team_and_only_admins_create_one(world, view):
    assert TEAMS.may(view("alice"), "create", world.account)
    assert not TEAMS.may(view("bob"), "create", world.account)
    assert TEAMS.may(view("bob"), "retrieve", world.team)
    assert not TEAMS.may(view("bob"), "update", world.team)
