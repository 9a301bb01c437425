"""The services and policies of all teams, from which a chat bot lets a person choose."""

import pytest

from models.people import provisioning
from models.store.ids import make_uuid
from models.tables.accounts import CustomRole, User
from models.tables.teams import Team

SERVICES = "/api/account/available_incident_services/"
POLICIES = "/api/account/available_account_eps/"


@pytest.fixture
def other_service(world, now):
    """A service of Charlie's team, which only its members may read."""
    Team.update(account_permissions=[]).where(Team.id == world.charlies_team.id).execute()
    policy = world.charlies_team.escalationpolicy_set.get()
    return provisioning.create_service(world.charlies_team, "Invoices", policy, world.charlie, now)


@pytest.fixture
def list_ids(ask):
    def list_ids(path, **more):
        answer = ask("GET", path, **more)
        assert answer.status_code == 200
        rows = answer.json if isinstance(answer.json, list) else answer.json["escalations"]
        return [row["unique_id"] for row in rows]

    return list_ids


def test_each_service_and_policy_has_the_form_of_the_lists_of_its_team(ask, world, other_service):
    for scheme in ("Bearer", "Token"):
        expected = {"services": [], "escalation_policies": []}
        for team in (world.team, world.charlies_team):
            for name, rows in expected.items():
                rows += ask("GET", f"/api/account/teams/{team.unique_id}/{name}/", scheme=scheme).json

        assert ask("GET", SERVICES, scheme=scheme).json == expected["services"]
        assert ask("GET", POLICIES, scheme=scheme).json == {"escalations": expected["escalation_policies"]}


def test_only_those_of_permitted_teams_are_listed(list_ids, world, other_service):
    policies = {team.id: team.escalationpolicy_set.get() for team in (world.team, world.charlies_team)}

    for who, team, service in (
        ("bob", world.team, world.service),
        ("charlie", world.charlies_team, other_service),
    ):
        assert list_ids(SERVICES, who=who) == [service.unique_id]
        assert list_ids(POLICIES, who=who) == [policies[team.id].unique_id]
    assert list_ids(SERVICES, who="mallory") == []
    assert list_ids(POLICIES, who="mallory") == [world.mallorys_team.escalationpolicy_set.get().unique_id]


def test_a_service_is_listed_only_for_those_who_may_create_incidents(list_ids, world, now):
    def set_permissions(*names):
        role = CustomRole.create(
            unique_id=make_uuid(),
            account=world.account,
            name=make_uuid(),
            permissions=names,
            creation_date=now,
        )
        User.update(custom_role=role).where(User.id == world.charlie.id).execute()

    set_permissions("service_read")
    assert list_ids(SERVICES, who="charlie") == []
    set_permissions("incident_write")
    assert list_ids(SERVICES, who="charlie") == []

    set_permissions("service_read", "incident_write")
    assert list_ids(SERVICES, who="charlie") == [world.service.unique_id]


def test_a_bot_creates_an_incident_on_a_listed_service(ask, list_ids):
    (service,) = list_ids(SERVICES, who="bob", scheme="token")
    body = {
        "title": "Disk full", "summary": "Seen in the chat", "user": None, "escalation_policy": None,
        "service": service, "urgency": 1,
    }  # fmt: skip

    created = ask("POST", "/api/incidents/", body, who="bob", scheme="token")

    assert (created.status_code, created.json["incident_number"]) == (201, 1)
