"""Put people into a team by invitations, in the transaction of the caller."""

from datetime import datetime

from models.contacts.messages import create_invitation
from models.domain.enums import AccountRole, TeamRole
from models.people import provisioning
from models.store.ids import make_uuid
from models.tables.accounts import Account, User, bump_version
from models.tables.teams import Team, TeamMember


def invite(
    account: Account,
    team: Team,
    email: str,
    role: AccountRole,
    inviter: str,
    now: datetime,
    *,
    first_name: str = "",
    last_name: str = "",
) -> TeamMember:
    """Create a user who has not joined, a mail with a link to join, and the membership of the team.

    `inviter` is the display name in the mail. The caller has checked that no member has this address.
    """
    user = provisioning.create_user(account, email, role, now, first_name=first_name, last_name=last_name)
    create_invitation(user, inviter, now)
    return add_to_team(team, user, now)


def add_to_team(team: Team, user: User, now: datetime) -> TeamMember:
    """Return the membership of a user in a team. Create it with the role user if there is none."""
    found: TeamMember | None = TeamMember.get_or_none(TeamMember.team == team, TeamMember.user == user)
    if found is not None:
        return found
    bump_version(team.account_id)
    made: TeamMember = TeamMember.create(
        unique_id=make_uuid(), team=team, user=user, role=TeamRole.USER, joining_date=now
    )
    return made


def find_invited(row: int) -> User | None:
    """Return a person (row number) with the account, unless the person was removed."""
    query = User.select(User, Account).join(Account).where(User.id == row)
    user: User | None = query.where(User.removed_at.is_null()).first()
    return user


def join(user: User) -> bool:
    """Let an invited person join, whose address is then verified. False: the invitation is used up."""
    joined = User.update(is_verified=True, verified_email=user.email).where(
        User.id == user.id, ~User.is_verified, User.email == user.email, User.removed_at.is_null()
    )
    return bool(joined.execute())


def list_teams(user: User) -> list[str]:
    """Return the names of the teams of a person."""
    teams = Team.select(Team.name).join(TeamMember).where(TeamMember.user == user).order_by(TeamMember.id)
    return [team.name for team in teams]
