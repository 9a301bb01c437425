"""Invite people to an account: contract section 3.1. They join with the link in a message
(web/pages/join.py)."""

from typing import Any

from models.contacts.messages import create_invitation, find_last_invitation
from models.domain.channels import USER_EMAIL_CHANNEL
from models.domain.enums import AccountRole, TeamRole
from models.people import provisioning
from models.store.ids import make_uuid
from models.store.store import store
from models.tables.accounts import Account, get_display_name
from models.tables.teams import Team, TeamMember
from web.account.contact_test import TooSoon
from web.account.members import require_grantable, require_unused
from web.account.message_limits import MIN_INTERVAL, count_invitation
from web.http import access, audited, serialization
from web.http.auth import now, viewer
from web.http.errors import reject
from web.http.fields import Choice, Email, List, Nested, Reference, Schema, Text, explain
from web.http.resource import config_transaction, lock_row
from workers import queue


class InviteeSchema(Schema):
    """A person to invite."""

    first_name = Text()
    last_name = Text()
    email = Email(required=True, limit=254, metadata=explain("The address to which the invitation is sent."))
    role = Choice(
        AccountRole, metadata=explain("The role in the account; default: 3. An invitation cannot give 1.")
    )


class InvitationSchema(Schema):
    team = Reference(
        required=True, blank=False, metadata=explain("The unique_id of the team that the person joins.")
    )
    user_detail = Nested(InviteeSchema, required=True, metadata=explain("The person to invite."))


class InvitationsSchema(Schema):
    team = Reference(
        required=True, blank=False, metadata=explain("The unique_id of the team that the people join.")
    )
    email_accounts = List(Nested(InviteeSchema), required=True, metadata=explain("The people to invite."))


INVITATION = InvitationSchema()
INVITATIONS = InvitationsSchema()


def invite() -> TeamMember:
    """Invite a person to the account and into a team."""
    access.access_account(viewer())
    values = serialization.read_body()
    return add(values["team"], [values["user_detail"]])[0]


def invite_many() -> list[TeamMember]:
    """Invite several persons to the account and into a team. If there is an error, nobody is invited."""
    access.access_account(viewer())
    values = serialization.read_body()
    return add(values["team"], values["email_accounts"])


def add(team_id: str, people: list[dict[str, object]]) -> list[TeamMember]:
    """Invite people to the viewer's account and into a team. If there is an error, nobody is invited."""
    with config_transaction():
        account = lock_row(viewer().account)
        team = _find_team(account, team_id)
        invited = [_invite(account, team, person) for person in people]
    queue.enqueue_delivery(USER_EMAIL_CHANNEL)
    return invited


def resend(username: str) -> dict[str, str]:
    """Send an invitation again to a person who has not joined yet."""
    access.access_account(viewer())
    user = access.access_member(viewer(), username)
    access.require_rank(viewer(), user.role)
    with store().write_transaction():
        if lock_row(user).is_verified:
            reject("username", "This person has already joined.")
        last = find_last_invitation(user)
        if last is not None and last > now() - MIN_INTERVAL:
            raise TooSoon(detail="An invitation was sent to this person a moment ago.")
        count_invitation(viewer().user, user.email)
        message = create_invitation(user, get_display_name(viewer().user), now())
    queue.enqueue_delivery(USER_EMAIL_CHANNEL)
    return {"message": "Tocsin is sending the invitation.", "message_id": message.message_id}


def _find_team(account: Account, team_id: str) -> Team:
    team: Team | None = Team.select().where(Team.account == account, Team.unique_id == team_id).first()
    if team is None:
        reject("team", f"{team_id} is not a team of this account.")
    access.require_team_member(viewer(), team.id)
    return team


def _invite(account: Account, team: Team, person: dict[str, Any]) -> TeamMember:
    role = AccountRole(person.pop("role", AccountRole.USER))
    require_grantable(role)
    email = person.pop("email")
    require_unused(account, email)
    count_invitation(viewer().user, email)
    user = provisioning.create_user(account, email, role, now(), **person)
    create_invitation(user, get_display_name(viewer().user), now())
    audited.record(user, "invited", f"as {role.name.lower()} into {team.name}")
    return TeamMember.create(
        unique_id=make_uuid(), team=team, user=user, role=TeamRole.USER, joining_date=now()
    )
