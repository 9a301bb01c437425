"""The members of an account and their invitation: contract section 3.1."""

from typing import Any

import peewee

from models import founding
from models.accounts import Account, User
from models.enums import AccountRole, TeamRole
from models.ids import new_uuid
from models.teams import Team, TeamMember
from web import access, wire
from web.auth import now, viewer
from web.errors import bad
from web.resource import configuring
from web.shapes import (
    Choice,
    Email,
    Flag,
    Itself,
    Moment,
    Part,
    Reference,
    Several,
    Shape,
    Text,
    UserShape,
)


class AccountMemberShape(Shape):
    unique_id = Text(dump_only=True)
    time_zone = Text(dump_only=True)
    user = Itself(UserShape, dump_only=True)
    joining_date = Moment(dump_only=True)
    role = Choice(AccountRole, dump_only=True)
    is_verified = Flag(dump_only=True)


class PersonShape(Shape):
    """Somebody to invite."""

    first_name = Text()
    last_name = Text()
    email = Email(required=True, limit=254)
    role = Choice(AccountRole)


class InvitationShape(Shape):
    team = Reference(required=True, blank=False)
    user_detail = Part(PersonShape, required=True)


class InvitationsShape(Shape):
    team = Reference(required=True, blank=False)
    email_accounts = Several(Part(PersonShape), required=True)


MEMBER = AccountMemberShape()
INVITATION = InvitationShape()
INVITATIONS = InvitationsShape()


def members() -> list[User]:
    """List the members of the account."""
    present = User.select().where(User.account == viewer().account, User.removed_at.is_null())
    return list(present.order_by(User.joining_date, User.id))


def member(username: str) -> User:
    """Retrieve a member of the account."""
    return access.see_user(viewer(), username)


def users() -> list[User]:
    """List the members of the account, as the Go client asks for them."""
    return members()


def user(username: str) -> User:
    """Retrieve a member of the account, as the Go client asks for it."""
    return member(username)


def invite() -> TeamMember:
    """Invite a person to the account and into a team."""
    account = access.access_account(viewer())
    values = wire.body()
    with configuring():
        return _invited(account, _team(account, values["team"]), values["user_detail"])


def invite_many() -> list[TeamMember]:
    """Invite several persons to the account and into a team; all of them, or nobody."""
    account = access.access_account(viewer())
    values = wire.body()
    with configuring():
        team = _team(account, values["team"])
        return [_invited(account, team, person) for person in values["email_accounts"]]


def _team(account: Account, team_id: str) -> Team:
    team: Team | None = Team.select().where(Team.account == account, Team.unique_id == team_id).first()
    if team is None:
        bad("team", "No such team.")
    return team


def _invited(account: Account, team: Team, person: dict[str, Any]) -> TeamMember:
    role = AccountRole(person.pop("role", AccountRole.USER))
    if role is AccountRole.OWNER:
        bad("role", "An account has one owner.")
    email = person.pop("email")
    same = peewee.fn.LOWER(User.email) == email.lower()
    if User.select().where(User.account == account, User.removed_at.is_null(), same).exists():
        bad("email", "This address is in the account already.")
    user = founding.new_user(account, email, role, now(), **person)
    return TeamMember.create(
        unique_id=new_uuid(), team=team, user=user, role=TeamRole.USER, joining_date=now()
    )
