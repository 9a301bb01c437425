"""Policies and people as decisions are given to know them: from rows to a Directory.

To be called inside a write transaction when something will be decided upon it.
"""

from collections.abc import Collection, Iterable

from models.accounts import User, display_name
from models.enums import DELIVERABLE, AccountRole, TargetType, TeamRole, Urgency
from models.facts import Directory, PersonFacts, PolicyFacts, RuleFacts, StepFacts
from models.prepared import any_of
from models.teams import EscalationPolicy, Team, TeamMember
from models.users import ContactMethod, NotificationRule


def directory(team: Team, policies: Collection[int]) -> Directory:
    """Policies by row, everybody they name, the team's managers and the account's owner.

    Removed members are not in it: a step that names only them has nobody.
    """
    rows = list(EscalationPolicy.select().where(any_of(EscalationPolicy.id, policies))) if policies else []
    return directory_of(team, rows)


def directory_of(team: Team, rows: Iterable[EscalationPolicy], usernames: Collection[str] = ()) -> Directory:
    found = {row.id: policy_facts(row) for row in rows}
    named = {name for policy in found.values() for step in policy.steps for name in step.usernames}
    named.update(usernames)
    managers = (
        TeamMember.select(TeamMember.user)
        .where(TeamMember.team == team, TeamMember.role == TeamRole.MANAGER)
        .order_by(TeamMember.joining_date, TeamMember.id)
    )
    manager_rows = [row.user_id for row in managers]
    users = list(
        User.select().where(
            User.account == team.account_id,
            User.removed_at.is_null(),
            any_of(User.username, named) | any_of(User.id, manager_rows) | (User.role == AccountRole.OWNER),
        )
    )
    names = {user.id: user.username for user in users}
    owner = next((user.username for user in users if user.role == AccountRole.OWNER), None)
    return Directory(
        policies=found,
        people=_people(users),
        managers=tuple(names[row] for row in manager_rows if row in names),
        owner=owner,
    )


def people(usernames: Collection[str]) -> dict[str, PersonFacts]:
    """Persons by username; unknown and removed ones are left out."""
    users = User.select().where(any_of(User.username, usernames), User.removed_at.is_null())
    return _people(list(users))


def _people(users: list[User]) -> dict[str, PersonFacts]:
    rules: dict[int, list[RuleFacts]] = {}
    query = (
        NotificationRule.select(NotificationRule, ContactMethod)
        .join(ContactMethod)
        .where(any_of(NotificationRule.user, [user.id for user in users]))
        .order_by(NotificationRule.start_delay, NotificationRule.id)
    )
    for rule in query:
        if rule.contact.contact_type in DELIVERABLE:
            facts = RuleFacts(
                rule.id, rule.contact_id, rule.contact.contact_type, Urgency(rule.urgency), rule.start_delay
            )
            rules.setdefault(rule.user_id, []).append(facts)
    return {
        user.username: PersonFacts(user.id, user.username, display_name(user), tuple(rules.get(user.id, ())))
        for user in users
    }


def policy_facts(row: EscalationPolicy) -> PolicyFacts:
    steps = tuple(
        StepFacts(
            rule["delay"],
            tuple(
                target["target_id"] for target in rule["targets"] if target["target_type"] == TargetType.USER
            ),
        )
        for rule in row.rules
    )
    return PolicyFacts(row.id, row.unique_id, row.name, steps, row.repeat_policy, row.move_to_next)
