"""Who may do what: the names of contract section 3.15, and what each role gives.

Each route says in `needs` what its operation asks for: the name of a permission, which is then asked for in
the team that the operation is about, or one of MEMBER, OWN, MANAGER and ADMIN. `allows` decides.
"""

from collections.abc import Collection
from dataclasses import dataclass

from models.domain.enums import AccountRole, TeamRole

# Any member of the account.
MEMBER = "member"
# The person whom it is about, and admins.
OWN = "own"
# The managers of the team, and admins.
MANAGER = "manager"
# Owners and admins of the account.
ADMIN = "admin"

ROLE_NEEDS = frozenset({MEMBER, OWN, MANAGER, ADMIN})

# What a custom role may give.
ACCOUNT_PERMISSIONS = (
    "analytics_read", "escalation_policy_read", "escalation_policy_write", "incident_read", "incident_write",
    "incident_role_read", "incident_role_write", "integration_read", "integration_write", "maintenance_read",
    "maintenance_write", "member_read", "member_write", "postmortem_read", "postmortem_write",
    "post_incident_task_read", "post_incident_task_write", "priority_read", "priority_write",
    "regenerate_integration_key", "schedule_read", "schedule_write", "service_read", "service_write",
    "sla_read", "sla_write", "stakeholder_template_read", "stakeholder_template_write", "tag_read",
    "tag_write", "task_template_read", "task_template_write", "team_read",
)  # fmt: skip

# What a team may let all members of the account do.
TEAM_PERMISSIONS = (
    "analytics_read", "escalation_policy_attach", "escalation_policy_read", "incident_read", "incident_write",
    "incident_role_read", "integration_read", "maintenance_read", "member_read", "postmortem_read",
    "post_incident_task_read", "priority_read", "schedule_attach", "schedule_read", "service_read",
    "sla_read", "stakeholder_template_read", "tag_read", "task_template_read", "team_read",
)  # fmt: skip

# Every custom role gives these too, said or not.
IMPLIED = frozenset({"member_read", "team_read"})

# What a plain member of a team may do in it: read everything, and act on incidents (contract section 6).
_MEMBER_PERMISSIONS = frozenset(
    {*(name for name in ACCOUNT_PERMISSIONS if name.endswith("_read")), "incident_write"}
)


@dataclass(frozen=True, slots=True)
class ReadWrite:
    """What the operations of a resource need: those that read, and those that write."""

    read: str
    write: str


def get_permissions(noun: str) -> ReadWrite:
    """`noun_read` and `noun_write`, as most resources have them."""
    return ReadWrite(f"{noun}_read", f"{noun}_write")


@dataclass(frozen=True, slots=True)
class Grants:
    """What somebody is in an account, and in one team of it.

    `role_gives` are the permissions of the custom role; `team` is None for who is not in the team, and
    `team_gives` what the team lets everybody do.
    """

    account: AccountRole
    role_permissions: Collection[str] = ()
    team: TeamRole | None = None
    team_permissions: Collection[str] = ()


def is_allowed(grants: Grants, permission: str) -> bool:
    """Whether somebody who stands so may do what needs this, in that team. OWN is not about a team."""
    if grants.account in (AccountRole.OWNER, AccountRole.ADMIN) or permission == MEMBER:
        return True
    if permission in (ADMIN, OWN):
        return False
    if grants.team is TeamRole.MANAGER or permission in grants.role_permissions:
        return True
    return permission in grants.team_permissions or (
        grants.team is not None and permission in _MEMBER_PERMISSIONS
    )
