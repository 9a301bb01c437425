"""Inviting people to an account: contract section 3.1. A message with a link lets them join (web/join.py)."""

from typing import Any

from models import founding
from models.accounts import Account, display_name
from models.base import store
from models.enums import AccountRole, ContactType, TeamRole
from models.ids import new_uuid
from models.invitations import last_invitation, new_invitation
from models.teams import Team, TeamMember
from web import access, wire
from web.accounts import require_free, require_grantable
from web.auth import now, viewer
from web.contact_test import PAUSE, TooSoon
from web.errors import bad
from web.resource import configuring, locked
from web.shapes import Choice, Email, Part, Reference, Several, Shape, Text
from workers import bell


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


INVITATION = InvitationShape()
INVITATIONS = InvitationsShape()


def invite() -> TeamMember:
    """Invite a person to the account and into a team."""
    account = access.access_account(viewer())
    values = wire.body()
    with configuring():
        invited = _invited(locked(account), _team(account, values["team"]), values["user_detail"])
    bell.ring_deliver(ContactType.EMAIL)
    return invited


def invite_many() -> list[TeamMember]:
    """Invite several persons to the account and into a team; all of them, or nobody."""
    account = access.access_account(viewer())
    values = wire.body()
    with configuring():
        account, team = locked(account), _team(account, values["team"])
        invited = [_invited(account, team, person) for person in values["email_accounts"]]
    bell.ring_deliver(ContactType.EMAIL)
    return invited


def again(username: str) -> dict[str, str]:
    """Send an invitation again, to somebody who has not joined yet."""
    access.access_account(viewer())
    user = access.see_user(viewer(), username)
    access.require_rank(viewer(), user.role)
    with store().writing():
        if locked(user).is_verified:
            bad("username", "This person has joined already.")
        last = last_invitation(user)
        if last is not None and last > now() - PAUSE:
            raise TooSoon(detail="An invitation was sent to this person a moment ago.")
        message = new_invitation(user, display_name(viewer().user), now())
    bell.ring_deliver(ContactType.EMAIL)
    return {"message": "The invitation is on its way.", "message_id": message.message_id}


def _team(account: Account, team_id: str) -> Team:
    team: Team | None = Team.select().where(Team.account == account, Team.unique_id == team_id).first()
    if team is None:
        bad("team", "No such team.")
    return team


def _invited(account: Account, team: Team, person: dict[str, Any]) -> TeamMember:
    role = AccountRole(person.pop("role", AccountRole.USER))
    require_grantable(role)
    email = person.pop("email")
    require_free(account, email)
    user = founding.new_user(account, email, role, now(), **person)
    new_invitation(user, display_name(viewer().user), now())
    return TeamMember.create(
        unique_id=new_uuid(), team=team, user=user, role=TeamRole.USER, joining_date=now()
    )
