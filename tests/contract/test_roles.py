"""Every operation with every role, compared with the matrix of contract section 6."""

import re
from typing import Any

import pytest

from models.domain.enums import AccountRole, TeamRole
from models.people import provisioning
from models.store.ids import make_uuid
from models.tables.accounts import CustomRole, User
from models.tables.teams import Team, TeamMember
from tests.support import stores
from tests.support.contract.matrix import name, tried
from tests.support.contract.requests import BODIES
from tests.support.offenders import list_offenders
from web.http import permissions
from web.http.permissions import Grants, is_allowed
from web.routes import ROUTES

ADMINS = {"owner", "admin"}
ALL_ROLES = ADMINS | {"manager", "user", "outsider", "guest", "reader", "writer"}


def list_allowed(permission: str) -> set[str]:
    """Return the roles that have a permission: the matrix.

    `user` is a plain member of the team, and the person that paths name. The others are plain members of the
    account. For `guest`, the team has the default permissions of a new team; for the others it is closed.
    `reader` and `writer` have custom roles with all permissions that end in _read or _write.
    """
    if permission == "member":
        return ALL_ROLES
    if permission in ("own", "admin", "manager"):
        return ADMINS | {"own": {"user"}, "admin": set[str](), "manager": {"manager"}}[permission]
    if permission.endswith("_read"):
        open_to_guests = {"guest"} if permission in provisioning.DEFAULT_TEAM_PERMISSIONS else set[str]()
        # Every custom role has these permissions, even if they are not listed.
        implied = {"writer"} if permission in ("member_read", "team_read") else set[str]()
        return ADMINS | {"manager", "user", "reader"} | open_to_guests | implied
    return ADMINS | {"manager", "writer"} | ({"user"} if permission == "incident_write" else set())


# Operations of the account: the roles in teams do not matter for them.
ROLES = "/api/account/customroles/"
INVITATION = "/api/tocsin/users/<username>/invitation/"
PERSON = ("/api/account/members/<username>/", "/api/account/users/<username>/")
TEAM_MEMBERS = "/api/account/teams/<team_id>/members/"


# The object of the sample is a custom role, and the right is that to change the object.
OF_A_CUSTOM_ROLE = (
    "/api/tocsin/objects/<object_id>/deletion/",
    "/api/tocsin/changes/<change_id>/",
    "/api/tocsin/changes/<change_id>/undo/",
)


def list_allowed_by_route(route: Any) -> set[str]:
    """Return the roles that may use a route."""
    allowed = list_allowed(route.permission)
    if route.path in PERSON and route.permission != "member":
        # Members may change their own data.
        return allowed - {"manager"} | {"user"}
    if (route.method, route.path) == ("POST", TEAM_MEMBERS):
        # Only admins and members of the team put a person into it.
        return allowed - {"writer"}
    if route.path in OF_A_CUSTOM_ROLE:
        return ADMINS
    of_account = route.path == INVITATION or route.path.startswith(ROLES)
    return allowed & (ADMINS | {"reader", "writer"}) if of_account else allowed


PEOPLE: stores.RowCache[dict[str, Any]] = stores.RowCache()


@pytest.fixture
def people(world: Any, samples: Any, now: Any) -> dict[str, Any]:
    """Return a token for each role."""
    return PEOPLE.get(lambda: create_people(world, now))


def create_people(world: Any, now: Any) -> dict[str, Any]:

    def create_custom_role(end_role: str) -> CustomRole:
        names = [each for each in permissions.ACCOUNT_PERMISSIONS if each.endswith(end_role)]
        names += ["regenerate_integration_key"] if end_role == "_write" else []
        return CustomRole.create(
            unique_id=make_uuid(), account=world.account, name=end_role, permissions=names, creation_date=now
        )

    def member(role: AccountRole = AccountRole.USER, custom_role: Any = None) -> User:
        email = f"{make_uuid()}@example.org"
        user = provisioning.create_user(world.account, email, role, now)
        User.update(custom_role=custom_role).where(User.id == user.id).execute()
        return user

    manager = member()
    TeamMember.create(
        unique_id=make_uuid(), team=world.team, user=manager, role=TeamRole.MANAGER, joining_date=now
    )
    created = {
        "admin": member(AccountRole.ADMIN),
        "manager": manager,
        "outsider": member(),
        "guest": member(),
        "reader": member(custom_role=create_custom_role("_read")),
        "writer": member(custom_role=create_custom_role("_write")),
    }
    tokens = {who: provisioning.issue_token(user, "test", now) for who, user in created.items()}
    return {"owner": world.tokens["alice"], "user": world.tokens["bob"], **tokens}


def request_as(ask: Any, world: Any, samples: Any, token: str, route: Any, who: str) -> int:
    open_to = provisioning.DEFAULT_TEAM_PERMISSIONS if who == "guest" else []
    Team.update(account_permissions=open_to).where(Team.id == world.team.id).execute()
    path = re.sub("<([a-z_]+)>", lambda found: samples.ids[found[1]], route.path)
    body = samples.bodies.get(BODIES.get((route.method, route.path)) or "")
    headers = {"Authorization": f"Bearer {token}"}
    status: int = ask(route.method, path, body, who=None, headers=headers).status_code
    return status


IN_PATHS = [route for route in ROUTES if route.auth and "<" in route.path]
READS = [route for route in IN_PATHS if route.method == "GET"]
# Each changes what the others need, so each has a world of its own.
CHANGES = [route for route in IN_PATHS if route.method != "GET"]
ACCOUNT_PERMISSIONS = [route for route in ROUTES if route.auth and "<" not in route.path]


def test_every_operation_has_a_permission():
    known = permissions.REQUIRED_ROLES | set(permissions.ACCOUNT_PERMISSIONS)

    assert [name(route) for route in ROUTES if route.auth and route.permission not in known] == []


@pytest.fixture
def check_roles(ask, world, samples, people) -> Any:
    return lambda route: check_roles_of(route, ask, world, samples, people)


def check_roles_of(route: Any, ask: Any, world: Any, samples: Any, people: Any) -> None:
    """Require that exactly the roles of the matrix may use a route."""
    allowed = list_allowed_by_route(route)
    # Roles without permission come first: an allowed request can delete the object of the path.
    ordered = [*sorted(ALL_ROLES - allowed), *sorted(allowed)]

    statuses = {who: request_as(ask, world, samples, people[who], route, who) for who in ordered}

    assert {who for who, status in statuses.items() if status != 403} == allowed
    assert not [status for status in statuses.values() if status >= 500]


def test_each_role_may_read_exactly_what_the_matrix_allows(check_roles):
    assert list_offenders(check_roles, tried(READS), name) == []


@pytest.mark.parametrize("route", tried(CHANGES), ids=name)
def test_each_role_may_change_exactly_what_the_matrix_allows(check_roles, route):
    check_roles(route)


@pytest.mark.parametrize("route", tried(ACCOUNT_PERMISSIONS), ids=name)
def test_admins_may_use_all_operations_of_the_account(ask, world, samples, people, route):
    """For other roles, the result depends on the body, or lists show only the permitted objects."""
    shown = ALL_ROLES - ADMINS if route.method == "GET" else set()
    shown = set() if route.permission == "admin" else shown
    shown = {"reader", "writer"} if route.path == ROLES and route.method == "GET" else shown
    for who in sorted(ADMINS | shown):
        assert request_as(ask, world, samples, people[who], route, who) < 403


def test_permissions_end_with_the_custom_role(ask, world, people):
    reader = User.get(User.custom_role.is_null(False))
    path = f"/api/account/teams/{world.team.unique_id}/tags/"

    def status() -> int:
        return ask("GET", path, who=None, headers={"Authorization": f"Bearer {people['reader']}"}).status_code

    assert status() == 200
    User.update(custom_role=None).where(User.id == reader.id).execute()
    assert status() == 403


def test_a_higher_role_has_all_permissions_of_the_lower_ones():
    names = [*permissions.ACCOUNT_PERMISSIONS, *permissions.TEAM_PERMISSIONS, *permissions.REQUIRED_ROLES]
    user = Grants(AccountRole.USER)
    for permission in names:
        member = Grants(AccountRole.USER, team=TeamRole.USER)
        manager = Grants(AccountRole.USER, team=TeamRole.MANAGER)
        rising = [is_allowed(each, permission) for each in (user, member, manager, Grants(AccountRole.ADMIN))]
        assert rising == sorted(rising)


def test_member_write_puts_nobody_into_a_team_of_others(ask, world, people, now):
    """Else its holder could put in themselves, or a second person with an address of theirs."""
    path = f"/api/account/teams/{world.team.unique_id}/members/"
    headers = {"Authorization": f"Bearer {people['writer']}"}
    me = ask("GET", "/api/user/profile/", who=None, headers=headers).json["username"]

    for username in (me, world.charlie.username):
        assert ask("POST", path, {"user": username}, who=None, headers=headers).status_code == 403

    writer = User.get(User.username == me)
    TeamMember.create(
        unique_id=make_uuid(), team=world.team, user=writer, role=TeamRole.USER, joining_date=now
    )
    other = {"user": world.charlie.username}
    assert ask("POST", path, other, who=None, headers=headers).status_code == 201


def test_an_admin_cannot_change_how_the_owner_is_notified(ask, world, people):
    path = f"/api/account/users/{world.alice.username}/contacts/"
    contact = ask("GET", path).json[0]["unique_id"]
    headers = {"Authorization": f"Bearer {people['admin']}"}

    assert ask("GET", path, who=None, headers=headers).status_code == 200
    assert ask("DELETE", f"{path}{contact}/", who=None, headers=headers).status_code == 403


def test_only_admins_and_team_managers_remove_a_team_manager(ask, world, people):
    headers = {"Authorization": f"Bearer {people['writer']}"}
    charlie = {"username": world.charlie.username}

    assert ask("POST", "/api/account/deleteuser/", charlie, who=None, headers=headers).status_code == 403
    bob = {"username": world.bob.username}
    assert ask("POST", "/api/account/deleteuser/", bob, who=None, headers=headers).status_code == 204
