"""Invite people to an account: contract section 3.1. They join with the link in a message
(web/pages/join.py)."""

from typing import Any

from models.changes.record import CREATED
from models.contacts import invitations
from models.contacts.messages import create_invitation, find_last_invitation
from models.domain.channels import USER_EMAIL_CHANNEL
from models.domain.enums import AccountRole
from models.people import provisioning
from models.store.store import store
from models.tables.accounts import Account, User, get_display_name
from models.tables.teams import Team, TeamMember
from web.account.contact_test import TooSoon
from web.account.members import MEMBERS as ACCOUNT_MEMBERS
from web.account.members import require_grantable
from web.account.message_limits import MIN_INTERVAL, count_invitation
from web.http import access, recording, serialization
from web.http.auth import now, viewer
from web.http.errors import reject
from web.http.fields import Choice, Email, List, Nested, Reference, Schema, Text, explain
from web.http.resource import config_transaction, lock_row
from web.teams.teams import MEMBERS
from workers import queue


class InviteeSchema(Schema):
    """A person to invite."""

    first_name = Text()
    last_name = Text()
    email = Email(required=True, limit=254, metadata=explain("The address to which the invitation is sent."))
    role = Choice(
        (AccountRole.ADMIN, AccountRole.USER), metadata=explain("The role in the account; default: 3.")
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
    """Invite a person to the account and into a team.

    A person who is in the account already is only added to the team, as user; role and names stay. For a
    person who is in the team, the answer is the membership.
    """
    access.access_account(viewer())
    values = serialization.read_body()
    return add(values["team"], [values["user_detail"]])[0]


def invite_many() -> list[TeamMember]:
    """Invite several persons to the account and into a team. If there is an error, nobody is invited.

    People who are in the account already are only added to the team.
    """
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
    email = person.pop("email")
    known = provisioning.find_member(account, email)
    if known is not None:
        return _add(team, known)
    require_grantable(role)
    count_invitation(viewer().user, email)
    inviter = get_display_name(viewer().user)
    member = invitations.invite(account, team, email, role, inviter, now(), **person)
    ACCOUNT_MEMBERS.record(CREATED, account, member.user, {}, ACCOUNT_MEMBERS.describe(member.user))
    MEMBERS.record(CREATED, team, member, {}, MEMBERS.describe(member))
    recording.record(member.user, "invited", f"as {role.name.lower()} into {team.name}")
    return member


def _add(team: Team, user: User) -> TeamMember:
    """Return the membership of a member of the account, or create it with the role user.

    The role and the names in the account stay as they are, and no mail is sent. Tools that manage what exists
    (Terraform) remove a person from a team and invite the person again.
    """
    found: TeamMember | None = TeamMember.get_or_none(TeamMember.team == team, TeamMember.user == user)
    if found is not None:
        return found
    access.require_permission(viewer(), team.id, MEMBERS.permissions.write)
    member = invitations.add_to_team(team, user, now())
    MEMBERS.record(CREATED, team, member, {}, MEMBERS.describe(member))
    recording.record_rights(user, "team_changed", f"into {team.name}")
    return member
