"""The people of the tests and their rows, created with the functions of the product."""

from dataclasses import dataclass
from datetime import datetime

from models.domain.applications import GENERIC
from models.domain.enums import AccountRole, TeamRole
from models.people import provisioning
from models.store.ids import make_uuid
from models.tables.accounts import Account, User
from models.tables.services import Integration, Service
from models.tables.teams import EscalationPolicy, Team, TeamMember
from models.tables.users import ContactMethod


@dataclass(frozen=True, slots=True)
class World:
    """The people of a test.

    Alice owns the account and the team; only members may read it. Bob is a plain member. Charlie
    has another team in the same account. Mallory owns another account. `tokens` are by first name, in lower
    case.
    """

    account: Account
    alice: User
    bob: User
    charlie: User
    mallory: User
    team: Team
    policy: EscalationPolicy
    service: Service
    integration: Integration
    charlies_team: Team
    mallorys_team: Team
    tokens: dict[str, str]


def create_world(now: datetime) -> World:
    account, alice = provisioning.create_account("Example", "alice@example.org", now)
    other, mallory = provisioning.create_account("Elsewhere", "mallory@example.net", now)
    bob = provisioning.create_user(account, "bob@example.org", AccountRole.USER, now, first_name="Bob")
    charlie = provisioning.create_user(
        account, "charlie@example.org", AccountRole.USER, now, first_name="Charlie"
    )
    User.update(first_name="Alice").where(User.id == alice.id).execute()
    alice.first_name = "Alice"
    # Bob and Charlie have not joined, but their addresses are verified: no limit applies to them.
    User.update(verified_email=User.email).execute()
    ContactMethod.update(verified_value=ContactMethod.value).execute()
    team = provisioning.create_team(account, "Payments", alice, now)
    team.account_permissions = []
    team.save()
    TeamMember.create(unique_id=make_uuid(), team=team, user=bob, role=TeamRole.USER, joining_date=now)
    policy = EscalationPolicy.get(EscalationPolicy.team == team)
    service = provisioning.create_service(team, "Checkout", policy, alice, now)
    integration = provisioning.create_integration(service, "Probe", GENERIC, alice, now)
    people = {"alice": alice, "bob": bob, "charlie": charlie, "mallory": mallory}
    return World(
        account=account,
        alice=alice,
        bob=bob,
        charlie=charlie,
        mallory=mallory,
        team=team,
        policy=policy,
        service=service,
        integration=integration,
        charlies_team=provisioning.create_team(account, "Billing", charlie, now),
        mallorys_team=provisioning.create_team(other, "Elsewhere", mallory, now),
        tokens={name: provisioning.issue_token(user, "test", now) for name, user in people.items()},
    )
