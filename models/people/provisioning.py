"""Create an account with its owner, a user with contacts, a team with its defaults.

Each function inserts rows inside the caller's transaction and returns the row in its name. Functions that
change what lanes load raise the version of the configuration.
"""

import unicodedata
from collections.abc import Mapping
from datetime import datetime

from models.domain.applications import APPLICATIONS
from models.domain.channels import CHANNELS, USER_EMAIL_CHANNEL
from models.domain.enums import AccountRole, TargetType, TeamRole, Urgency
from models.store.ids import digest, make_account_identifier, make_token, make_username, make_uuid
from models.tables.accounts import Account, ConfigVersion, Token, User, bump_version
from models.tables.services import Integration, Service
from models.tables.teams import EscalationPolicy, IncidentRole, Team, TeamMember
from models.tables.users import ContactMethod, NotificationRule

# Permissions of account members outside a new team (contract section 3.3).
DEFAULT_TEAM_PERMISSIONS = [
    "schedule_read", "member_read", "team_read", "sla_read", "incident_read", "incident_role_read",
    "escalation_policy_read", "tag_read", "service_read", "task_template_read", "priority_read",
]  # fmt: skip

INCIDENT_COMMANDER = (
    "Leads the response to an incident: knows the state of all work, gives each task to a person, informs"
    " people outside the team, and gives the role to another person when the shift ends."
)


def create_account(name: str, owner_email: str, now: datetime) -> tuple[Account, User]:
    account = Account.create(
        unique_id=make_uuid(), account_identifier=make_account_identifier(), name=name, creation_date=now
    )
    ConfigVersion.create(account=account)
    return account, create_user(account, owner_email, AccountRole.OWNER, now, is_verified=True)


def create_user(
    account: Account,
    email: str,
    role: AccountRole,
    now: datetime,
    *,
    first_name: str = "",
    last_name: str = "",
    is_verified: bool = False,
) -> User:
    """Create a user with the contact "Primary Email" and a notification rule for each urgency.

    `is_verified`: the person has joined, and the address is verified.

    Source: contract section 3.2.
    """
    user = User.create(
        unique_id=make_uuid(),
        account=account,
        username=make_username(),
        first_name=first_name,
        last_name=last_name,
        email=email,
        verified_email=email if is_verified else None,
        role=role,
        is_verified=is_verified,
        joining_date=now,
    )
    create_contact(user, "Primary Email", USER_EMAIL_CHANNEL, email, now, is_verified=is_verified)
    bump_version(account.id)
    return user


def find_member(account: Account, email: str) -> User | None:
    """Return the member with this address, or None. Ignores case; removed users are left out.

    The addresses are compared here: SQLite folds only the letters of ASCII, PostgreSQL those of its locale.
    """
    members = User.select(User.id, User.email).where(User.account == account, User.removed_at.is_null())
    folded = _fold(email)
    row = next((row for row, address in members.tuples().iterator() if _fold(address) == folded), None)
    return None if row is None else User.get_by_id(row)


def _fold(address: str) -> str:
    return unicodedata.normalize("NFC", address).casefold()


def create_contact(
    user: User, name: str, contact_type: int, value: str, now: datetime, *, is_verified: bool = False
) -> ContactMethod:
    """Create a contact. The user's first e-mail contact gets a rule without delay for each urgency."""
    first = (
        not ContactMethod.select()
        .where(ContactMethod.user == user, ContactMethod.contact_type == USER_EMAIL_CHANNEL)
        .exists()
    )
    contact = ContactMethod.create(
        unique_id=make_uuid(),
        user=user,
        name=name,
        contact_type=contact_type,
        value=value,
        verified_value=value if is_verified else None,
        creation_date=now,
    )
    if first and contact_type == USER_EMAIL_CHANNEL:
        _create_rules(contact, {Urgency.HIGH: 0, Urgency.LOW: 0}, now)
    return contact


def create_default_rules(contact: ContactMethod, now: datetime) -> None:
    """Create the notification rules of a contact that was verified for the first time.

    Further e-mail contacts get none: the first one has rules since its creation.
    """
    channel = CHANNELS.get(contact.contact_type)
    if channel is None or contact.contact_type == USER_EMAIL_CHANNEL:
        return
    if NotificationRule.select().where(NotificationRule.contact == contact).exists():
        return
    _create_rules(contact, channel.rule_delays, now)
    bump_version(User.get_by_id(contact.user_id).account_id)


def _create_rules(contact: ContactMethod, delays: Mapping[Urgency, int], now: datetime) -> None:
    """Create a rule for each urgency, with its delay in minutes."""
    for urgency, delay in delays.items():
        NotificationRule.create(
            unique_id=make_uuid(),
            user=contact.user_id,
            contact=contact,
            urgency=urgency,
            start_delay=delay,
            creation_date=now,
        )


def issue_token(user: User, name: str, now: datetime, expires_at: datetime | None = None) -> str:
    """Create a token of this user and return it. Only its digest is stored. `expires_at` None: never."""
    token = make_token()
    Token.create(user=user, name=name, digest=digest(token), created_at=now, expires_at=expires_at)
    return token


def create_team(account: Account, name: str, owner: User, now: datetime) -> Team:
    """Create a team with its owner as manager, the role "Incident Commander" and a default policy.

    Source: contract 3.3.
    """
    team = Team.create(
        unique_id=make_uuid(),
        account=account,
        name=name,
        owner=owner,
        account_permissions=list(DEFAULT_TEAM_PERMISSIONS),
        creation_date=now,
    )
    TeamMember.create(unique_id=make_uuid(), team=team, user=owner, role=TeamRole.MANAGER, joining_date=now)
    IncidentRole.create(
        unique_id=make_uuid(),
        team=team,
        title="Incident Commander",
        description=INCIDENT_COMMANDER,
        rank=1,
        creation_date=now,
    )
    target = {"target_type": TargetType.USER, "target_id": owner.username, "position": 0}
    EscalationPolicy.create(
        unique_id=make_uuid(),
        team=team,
        name="Default Escalation Policy",
        summary="Notifies the owner of the team immediately.",
        rules=[{"unique_id": make_uuid(), "delay": 0, "position": 1, "targets": [target]}],
        assignment_settings=build_assignment_settings(),
        creation_date=now,
    )
    bump_version(account.id)
    return team


def build_assignment_settings() -> dict[str, object]:
    """Return the default: strategy 1, assign to any target of the first rule (contract section 3.5)."""
    return {
        "unique_id": make_uuid(),
        "assignee_strategy": 1,
        "assignment_index": 0,
        "call_rr_assignee": False,
    }


def create_service(team: Team, name: str, policy: EscalationPolicy, creator: User, now: datetime) -> Service:
    service = Service.create(
        unique_id=make_uuid(),
        team=team,
        name=name,
        escalation_policy=policy,
        created_by=creator,
        creation_date=now,
    )
    bump_version(team.account_id)
    return service


def create_integration(
    service: Service, name: str, application: str, creator: User, now: datetime
) -> Integration:
    # An account can add applications of its own.
    known = APPLICATIONS.get(application)
    integration = Integration.create(
        unique_id=make_uuid(),
        service=service,
        application=application,
        name=name,
        integration_key=make_uuid(),
        create_incidents_for=known.create_incidents_for if known else 1,
        created_by=creator,
        creation_date=now,
    )
    bump_version(service.team.account_id)
    return integration
