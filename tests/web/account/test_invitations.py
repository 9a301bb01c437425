"""Invitations to an account."""

import pytest

from models.domain.enums import TeamRole
from models.people import provisioning
from models.store.ids import make_uuid
from models.tables.accounts import CustomRole, User
from models.tables.notifications import Message
from models.tables.teams import TeamMember
from models.tables.users import NotificationRule

INVITE = "/api/account/api_invite/"


@pytest.fixture
def person(world) -> dict:
    detail = {"first_name": "Dora", "last_name": "Doe", "email": "dora@example.org", "role": 3}
    return {"team": world.team.unique_id, "user_detail": detail}


def test_an_invited_person_is_a_member_at_once_and_can_be_notified(ask, person):
    invited = ask("POST", INVITE, person, scheme="Token")

    assert (invited.status_code, invited.json["role"]) == (201, 2)
    username = invited.json["user"]["username"]
    member = ask("GET", f"/api/account/members/{username}/").json
    assert (member["user"]["email"], member["role"], member["is_verified"]) == ("dora@example.org", 3, False)
    assert NotificationRule.select().join(User).where(User.username == username).count() == 2


def test_a_member_who_is_invited_into_another_team_is_only_added_to_it(ask, person, world, now):
    team = provisioning.create_team(world.account, "Second", world.alice, now)
    person |= {"team": team.unique_id}
    person["user_detail"] |= {"email": "BOB@example.org", "role": 2}

    first, again = (ask("POST", INVITE, person) for _ in range(2))

    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json == again.json
    assert (first.json["role"], first.json["user"]["username"]) == (TeamRole.USER, world.bob.username)
    bob = User.get_by_id(world.bob.id)
    assert (bob.role, bob.first_name) == (world.bob.role, world.bob.first_name)
    assert TeamMember.select().where(TeamMember.team == team, TeamMember.user == bob).count() == 1
    assert not Message.select().exists()


def test_a_member_of_the_team_who_is_invited_into_it_stays_as_they_are(ask, person, world):
    person["user_detail"]["email"] = "alice@example.org"

    answer = ask("POST", INVITE, person)

    assert (answer.status_code, answer.json["role"]) == (201, TeamRole.MANAGER)


def test_a_removed_address_can_be_invited_again(ask, person, world, now):
    person["user_detail"]["email"] = "bob@example.org"
    User.update(removed_at=now).where(User.email == "bob@example.org").execute()

    assert ask("POST", INVITE, person).json["user"]["username"] != world.bob.username


@pytest.mark.parametrize(
    "wrong",
    [{"email": "x"}, {"email": "a@b\r\nBcc: c@d"}, {"email": "a@b, c@d"}, {"email": ""}, {"email": None},
     {"email": "a" * 250 + "@b.org"}, {"role": 1}, {"role": 4}, {"first_name": 7}, {"last_name": "x" * 256}],
    ids=str,
)  # fmt: skip
def test_invalid_invitations_are_refused(ask, person, wrong):
    person["user_detail"] |= wrong

    assert ask("POST", INVITE, person).status_code == 400
    assert User.select().count() == 4


def test_only_owners_and_admins_invite(ask, person):
    assert ask("POST", INVITE, person, who="bob").status_code == 403


def test_an_error_in_one_invitation_refuses_all(ask, world):
    people = [{"email": "dora@example.org"}, {"email": "x"}]
    body = {"team": world.team.unique_id, "email_accounts": people}
    assert ask("POST", "/api/account/invite/", body).status_code == 400
    assert User.select().count() == 4

    people.pop()
    (invited,) = ask("POST", "/api/account/invite/", body).json
    assert invited["user"]["email"] == "dora@example.org"


def test_an_inviter_cannot_give_a_higher_role_than_their_own(ask, person, world, now):
    role = CustomRole.create(
        unique_id=make_uuid(),
        account=world.account,
        name="x",
        permissions=["member_write"],
        creation_date=now,
    )
    User.update(custom_role=role).where(User.id == world.bob.id).execute()

    person["user_detail"]["role"] = 2
    assert ask("POST", INVITE, person, who="bob").status_code == 403
    person["user_detail"]["role"] = 3
    assert ask("POST", INVITE, person, who="bob").status_code == 201


@pytest.mark.parametrize("path", [INVITE, "/api/account/invite/"])
def test_only_members_of_a_team_and_admins_invite_into_it(ask, person, world, now, path):
    """Else member_write would let its holder invite a second self into a private team."""
    role = CustomRole.create(
        unique_id=make_uuid(),
        account=world.account,
        name="x",
        permissions=["member_write"],
        creation_date=now,
    )
    User.update(custom_role=role).where(User.id == world.charlie.id).execute()
    many = {"team": person["team"], "email_accounts": [person["user_detail"]]}
    body = person if path == INVITE else many

    refused = ask("POST", path, body, who="charlie")

    assert (refused.status_code, User.select().count()) == (403, 4)
    invited = ask("POST", path, {**body, "team": world.charlies_team.unique_id}, who="charlie")
    assert (invited.status_code, User.select().count()) == (201, 5)
