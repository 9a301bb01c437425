"""Find the person of an identity at an OpenID provider, and put the person into the teams of its groups."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from models.changes.record import Actor
from models.domain.addresses import is_same_address
from models.domain.enums import TeamRole, Way
from models.sign_in import audit, sessions
from models.sign_in.people import MAX_ACCOUNTS, find_people, has_verified_address
from models.store.ids import make_uuid
from models.tables.accounts import Account, User, bump_version
from models.tables.sign_in import Identity
from models.tables.teams import Team, TeamMember

SUBJECT_LIMIT = 255
ACTOR = Actor("the sign-in provider", Way.SYSTEM)


@dataclass(frozen=True, slots=True)
class ProvenIdentity:
    """What a provider said of a person, after all checks. `address` "": it verified none.

    `signed_in_at` is when the person proved to the provider who it is, in epoch seconds; None: not said.
    """

    issuer: str
    subject: str
    address: str = ""
    groups: tuple[str, ...] = ()
    signed_in_at: int | None = None


def list_people(identity: ProvenIdentity) -> list[User]:
    """Return the members whom this identity can sign in, one in each account: first those who are linked.

    Other members are those with the verified address of the identity: people who have proven it, and people
    who were invited with it. A member who entered the address of somebody else gets no identity of that
    person.
    """
    linked = _list_linked(identity)
    return [*linked, *(user for user in find_people(identity.address) if _is_open(user, identity))]


def link(user: User, identity: ProvenIdentity, now: datetime) -> bool:
    """Link a member of list_people() with the identity, once; return whether this was the first time.

    An invited person so joins. Nothing happens if the member has changed meanwhile: see is_linked(). Needs a
    write transaction.
    """
    current = User.get_by_id(user.id) if sessions.lock_person(user) else None
    if current is None or is_linked(user, identity):
        return False
    if not is_same_address(current.email, identity.address) or not _is_open(current, identity):
        return False
    Identity.create(user=user, issuer=identity.issuer, subject=identity.subject, created_at=now)
    audit.record(user, "identity_added", now, detail=identity.issuer)
    if not current.is_verified:
        User.update(is_verified=True, verified_email=current.email).where(User.id == user.id).execute()
        audit.record(user, "joined", now)
    return True


def is_linked(user: User, identity: ProvenIdentity) -> bool:
    """Return whether the person has this identity."""
    own = (Identity.user == user) & (Identity.issuer == identity.issuer)
    return bool(Identity.select().where(own, Identity.subject == identity.subject).exists())


def join_teams(
    user: User, groups: Collection[str], mapping: Collection[tuple[str, str]], now: datetime
) -> None:
    """Make the person a plain member of the teams of these groups. Needs a write transaction.

    Nobody leaves a team, gets another role in one, or becomes an owner by a group.
    """
    names = {team for group, team in mapping if group in groups}
    if not names:
        return
    own = TeamMember.select(TeamMember.team).where(TeamMember.user == user)
    missing = Team.select().where(
        Team.account == user.account_id, Team.name.in_(sorted(names)), Team.id.not_in(own)
    )
    joined = list(missing.order_by(Team.id))
    for team in joined:
        TeamMember.create(unique_id=make_uuid(), team=team, user=user, role=TeamRole.USER, joining_date=now)
        audit.record(user, "team_changed", now, actor=ACTOR, detail=f"user of {team.name}")
    if joined:
        sessions.renew_later([user.id])
        bump_version(user.account_id)


def read_groups(claims: Mapping[str, object]) -> tuple[str, ...]:
    """Return the groups of a person; other values than texts are left out."""
    groups = claims.get("groups")
    return tuple(each for each in groups if isinstance(each, str)) if isinstance(groups, list) else ()


def _list_linked(identity: ProvenIdentity) -> list[User]:
    rows = (
        Identity.select(Identity, User, Account)
        .join(User)
        .join(Account)
        .where(
            Identity.issuer == identity.issuer,
            Identity.subject == identity.subject,
            User.removed_at.is_null(),
        )
        .order_by(User.id)
        .limit(MAX_ACCOUNTS)
    )
    return [row.user for row in rows]


def _is_open(user: User, identity: ProvenIdentity) -> bool:
    """Return whether a member with the address of the identity can be linked with it."""
    has_identity = Identity.select().where(Identity.user == user, Identity.issuer == identity.issuer).exists()
    return not has_identity and (has_verified_address(user) or not user.is_verified)
