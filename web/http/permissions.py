"""The permissions: their names (contract section 3.15), and the permissions of each role.

The `permission` of a route is the name of a permission, or one of MEMBER, OWN, MANAGER and ADMIN. The viewer
needs a named permission in the team whose objects the operation uses. `is_allowed` decides.
"""

from collections.abc import Collection
from dataclasses import dataclass

from models.domain.enums import AccountRole, TeamRole

# Any member of the account.
MEMBER = "member"
# The person that the path names, and admins.
OWN = "own"
# The managers of the team, and admins.
MANAGER = "manager"
# Owners and admins of the account.
ADMIN = "admin"

REQUIRED_ROLES = frozenset({MEMBER, OWN, MANAGER, ADMIN})

# The permissions that a custom role may contain.
ACCOUNT_PERMISSIONS = (
    "analytics_read", "escalation_policy_read", "escalation_policy_write", "incident_read", "incident_write",
    "incident_role_read", "incident_role_write", "integration_read", "integration_write", "maintenance_read",
    "maintenance_write", "member_read", "member_write", "postmortem_read", "postmortem_write",
    "post_incident_task_read", "post_incident_task_write", "priority_read", "priority_write",
    "regenerate_integration_key", "schedule_read", "schedule_write", "service_read", "service_write",
    "sla_read", "sla_write", "stakeholder_template_read", "stakeholder_template_write", "tag_read",
    "tag_write", "task_template_read", "task_template_write", "team_read",
)  # fmt: skip

# The permissions that a team may give to all members of the account.
TEAM_PERMISSIONS = (
    "analytics_read", "escalation_policy_attach", "escalation_policy_read", "incident_read", "incident_write",
    "incident_role_read", "integration_read", "maintenance_read", "member_read", "postmortem_read",
    "post_incident_task_read", "priority_read", "schedule_attach", "schedule_read", "service_read",
    "sla_read", "stakeholder_template_read", "tag_read", "task_template_read", "team_read",
)  # fmt: skip

# Every custom role has these permissions, even if they are not listed.
IMPLIED = frozenset({"member_read", "team_read"})

# The permissions of a plain member in its team: read everything, and act on incidents (contract section 6).
_MEMBER_PERMISSIONS = frozenset(
    {*(name for name in ACCOUNT_PERMISSIONS if name.endswith("_read")), "incident_write"}
)


@dataclass(frozen=True, slots=True)
class ReadWrite:
    """The permissions that the reading and the writing operations of a resource require."""

    read: str
    write: str


def get_permissions(noun: str) -> ReadWrite:
    """Return `noun_read` and `noun_write`, the permissions of most resources."""
    return ReadWrite(f"{noun}_read", f"{noun}_write")


@dataclass(frozen=True, slots=True)
class Grants:
    """The roles and permissions of a member in an account and in one of its teams.

    `role_permissions` are the permissions of the custom role. `team` is None if the member is not in the
    team. `team_permissions` are those that the team gives to all members of the account.
    """

    account: AccountRole
    role_permissions: Collection[str] = ()
    team: TeamRole | None = None
    team_permissions: Collection[str] = ()


def is_allowed(grants: Grants, permission: str) -> bool:
    """Return whether these grants include the permission. For OWN, only the account role counts here."""
    if grants.account in (AccountRole.OWNER, AccountRole.ADMIN) or permission == MEMBER:
        return True
    if permission in (ADMIN, OWN):
        return False
    if grants.team is TeamRole.MANAGER or permission in grants.role_permissions:
        return True
    return permission in grants.team_permissions or (
        grants.team is not None and permission in _MEMBER_PERMISSIONS
    )
